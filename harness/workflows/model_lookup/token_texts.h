// The texts of tokens that the database holds as ids, by the tokenizers of the models that made them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiment/paths.h"
#include "store/database.h"
#include "tokenizer/tokenizer.h"

namespace kvc {

class TokenTexts {
 public:
  TokenTexts(Database& db, Paths paths) : db_(db), paths_(std::move(paths)) {}

  // One text an id, special tokens "", whose sum is the decoded ids; {} where the model's folder is not here, or holds
  // another tokenizer than the cell was computed with.
  std::vector<std::string> of(const std::string& model_label, const std::string& cell_key,
                              const std::vector<int64_t>& ids);

 private:
  const std::optional<Tokenizer>& tokenizer_of(const std::string& model_label, const std::string& cell_key);

  Database& db_;
  Paths paths_;
  std::map<std::pair<std::string, std::string>, std::optional<Tokenizer>> tokenizers_;  // by model and its hashes
};

}  // namespace kvc
