// Reading JSON Lines: one object a line, errors with file, line and column.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>

namespace kvc {

// Calls `visit(line number from 1, value)` for every line that is not blank, in file order. Throws Error
// "file:line:column: error: ..." for bad JSON, bad UTF-8, and lines above 64 MiB. on_bytes, if any, is told behind each
// line how many bytes of the file are read.
void read_jsonl(const std::filesystem::path& path,
                const std::function<void(int64_t line, const nlohmann::json& value)>& visit,
                const std::function<void(int64_t n_bytes)>& on_bytes = {});

}  // namespace kvc
