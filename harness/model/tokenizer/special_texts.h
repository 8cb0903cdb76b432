// The texts of a model's special tokens by their names in transformers: bos_token, eos_token, unk_token, sep_token,
// pad_token, cls_token, mask_token. What chat templates print.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace kvc {

// A name without a text is one that the model says it has not (null); a name that is not there is one that its files do
// not speak of. Throws Error naming the file.
std::map<std::string, std::optional<std::string>> special_token_texts(const std::filesystem::path& model);

}  // namespace kvc
