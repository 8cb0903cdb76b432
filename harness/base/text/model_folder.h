// What a model folder lacks, said with what it holds instead and how to come from there to what is read.
#pragma once

#include <filesystem>
#include <string>

namespace kvc {

// Whether the folder lists the name: a link to nowhere is listed, and reading it says what is wrong.
bool lists(const std::filesystem::path& dir, const std::string& name);

// The bytes of a file that is a regular one of at most 512 MiB and no Git LFS pointer; Error otherwise.
std::string read_model_file(const std::filesystem::path& path);

// Throws Error "<dir>: no <what>", with what is there instead of it.
[[noreturn]] void refuse_missing(const std::filesystem::path& dir, const std::string& what);

// Throws Error: there are no safetensors. Names the weights in another form that are there (pickles, which are never
// opened, GGUF, ...) and the line that converts them.
[[noreturn]] void refuse_missing_weights(const std::filesystem::path& dir);

}  // namespace kvc
