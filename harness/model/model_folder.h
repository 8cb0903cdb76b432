// What a model folder lacks, said with what it holds instead and how to come from there to what is read.
#pragma once

#include <filesystem>
#include <string>

namespace kvc {

// Whether the folder lists the name: a link to nowhere is listed, and reading it says what is wrong.
bool lists(const std::filesystem::path& dir, const std::string& name);

// Throws Error unless the folder lists config.json or tokenizer.json, or whatever else is called `name`.
void check_lists(const std::filesystem::path& dir, const std::string& name);

// Throws Error: there are no safetensors. Names the weights in another form that are there (pickles, which are never
// opened, GGUF, ...) and the line that converts them.
[[noreturn]] void refuse_missing_weights(const std::filesystem::path& dir);

}  // namespace kvc
