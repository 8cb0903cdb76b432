#include "gguf/end_tokens.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

namespace kvc {
namespace {

const std::string kPrefix = "tokenizer.ggml.";

// The end of a text, of a turn, of a message; what fills and separates files where code is completed.
constexpr const char* kKeys[] = {"eos_token_id",     "eot_token_id",     "eom_token_id",
                                 "fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id"};

// key: where the metadata has it, it says which token that is, and the text says nothing; "": none.
struct EndText {
  std::string_view text, key = "";
};
constexpr EndText kTexts[] = {{"<|endoftext|>"},
                              {"<|end_of_text|>"},
                              {"<|im_end|>"},
                              {"<|eot_id|>"},
                              {"<|eom_id|>"},
                              {"<|end|>"},
                              {"<|return|>"},
                              {"<|call|>"},
                              {"<|calls|>"},
                              {"<|flush|>"},
                              {"</s>"},
                              {"<eos>"},
                              {"[EOS]"},
                              {"<EOT>"},
                              {"_<EOT>"},
                              {"[EOT]"},
                              {"<end_of_turn>"},
                              {"<turn|>"},
                              {"<|tool_response>"},
                              {"<end_of_utterance>"},
                              {"<｜end▁of▁sentence｜>"},
                              {"[e~["},
                              {"<|fim_pad|>", "fim_pad_token_id"},
                              {"<fim-pad>", "fim_pad_token_id"},
                              {"<fim_pad>", "fim_pad_token_id"},
                              {"<PAD>", "fim_pad_token_id"},
                              {"[PAD]", "fim_pad_token_id"},
                              {"<|fim_repo|>", "fim_rep_token_id"},
                              {"<|repo_name|>", "fim_rep_token_id"},
                              {"<fim-repo>", "fim_rep_token_id"},
                              {"<REPO>", "fim_rep_token_id"},
                              {"<reponame>", "fim_rep_token_id"},
                              {"<|file_sep|>", "fim_sep_token_id"}};

// A text that ends nothing where both others are end tokens: of a message among several, or of a tag in a text.
struct Exception {
  std::string_view text, with, and_with;
};
constexpr Exception kExceptions[] = {{"<|end|>", "<|return|>", "<|call|>"},
                                     {"<|end|>", "<|return|>", "<|calls|>"},
                                     {"<|end|>", "<|flush|>", "<|call|>"},
                                     {"<|end|>", "<|flush|>", "<|calls|>"},
                                     {"</s>", "<|tool_response>", "<|tool_response>"}};

using Ids = std::vector<int64_t>;

void add(int64_t id, Ids& ids) {
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

Ids without_exceptions(Ids ids, const std::vector<std::string>& tokens) {
  const auto text_of = [&](int64_t id) {
    return id >= 0 && id < static_cast<int64_t>(tokens.size()) ? std::string_view(tokens[static_cast<size_t>(id)])
                                                               : std::string_view();
  };
  const auto has = [&](std::string_view text) {
    return std::any_of(ids.begin(), ids.end(), [&](int64_t id) { return text_of(id) == text; });
  };
  for (const auto& exception : kExceptions) {
    if (!has(exception.with) || !has(exception.and_with)) continue;
    std::erase_if(ids, [&](int64_t id) { return text_of(id) == exception.text; });
  }
  return ids;
}

}  // namespace

std::optional<int64_t> gguf_named_token(const GgufFile& file, const std::string& name) {
  if (file.has(kPrefix + name)) return file.integer(kPrefix + name);
  if (!file.has(kPrefix + "model") || file.text(kPrefix + "model") != "llama") return std::nullopt;
  if (!file.has(kPrefix + "tokens")) return std::nullopt;
  constexpr std::pair<const char*, const char*> kUsual[] = {
      {"unknown_token_id", "<unk>"}, {"bos_token_id", "<s>"}, {"eos_token_id", "</s>"}};
  const auto& tokens = file.texts(kPrefix + "tokens");
  for (size_t id = 0; id < std::size(kUsual) && id < tokens.size(); ++id) {
    if (kUsual[id].first == name && kUsual[id].second == tokens[id]) return static_cast<int64_t>(id);
  }
  return std::nullopt;
}

std::vector<int64_t> gguf_end_tokens(const GgufFile& file) {
  constexpr int64_t kControl = 3;
  Ids ids;
  std::set<std::string_view> texts;
  for (const auto& end : kTexts) {
    if (end.key.empty() || !file.has(kPrefix + std::string(end.key))) texts.insert(end.text);
  }
  for (const char* key : kKeys) {
    if (const auto id = gguf_named_token(file, key)) add(*id, ids);
  }
  if (!file.has(kPrefix + "tokens")) return ids;
  const auto& tokens = file.texts(kPrefix + "tokens");
  const auto types = file.has(kPrefix + "token_type") ? file.integers(kPrefix + "token_type") : Ids();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!types.empty() && (i >= types.size() || types[i] != kControl)) continue;
    if (texts.contains(tokens[i])) add(static_cast<int64_t>(i), ids);
  }
  return without_exceptions(std::move(ids), tokens);
}

}  // namespace kvc
