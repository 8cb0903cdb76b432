// Reading JSON Lines: one value a line, or one array of values; errors with file, line and column.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "text/text_file.h"

namespace kvc {

// The file's values in order, one at a time; blank lines are passed over. A file that begins with '[' is one array, as
// json.dump writes a list: its items are the values. NaN and Infinity are null, told once the file is read.
class JsonLines {
 public:
  explicit JsonLines(const std::filesystem::path& path, TextEncoding encoding = TextEncoding::kUtf8);
  ~JsonLines();

  // Whether there is one more. Throws Error "file:line:column: error: ..." for bad JSON, bad UTF-8, and values above 64
  // MiB.
  bool next(nlohmann::json& value);
  int64_t line() const;          // from 1, where the last value begins
  int64_t n_file_bytes() const;  // read so far

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

// Calls `visit(line, value)` for each. on_bytes, if any, is told after each how many bytes of the file are read.
void read_jsonl(const std::filesystem::path& path,
                const std::function<void(int64_t line, const nlohmann::json& value)>& visit,
                const std::function<void(int64_t n_bytes)>& on_bytes = {}, TextEncoding encoding = TextEncoding::kUtf8);

}  // namespace kvc
