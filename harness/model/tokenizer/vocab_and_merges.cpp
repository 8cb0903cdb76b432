#include "kvc/check.h"
#include "text/model_folder.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer_steps/bpe_model.h"

namespace kvc {
namespace {

using nlohmann::json;

// A merge "a b" a line, after a line "#version: ..." where there is one.
json read_merges(const std::filesystem::path& path) {
  const auto content = read_model_file(path);
  const std::string_view text = content;
  json merges = json::array();
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    auto line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(line);
    begin = end + 1;
  }
  return merges;
}

}  // namespace

TokenizerParts read_vocab_and_merges(const std::filesystem::path& dir) {
  constexpr const char* kEndOfText = "<|endoftext|>";
  const auto config_file = dir / "tokenizer_config.json";
  const auto config = lists(dir, "tokenizer_config.json") ? read_json(config_file) : json::object();
  const bool adds_space = JsonObject(config, config_file.string()).boolean("add_prefix_space", false);
  const auto where = (dir / "vocab.json").string();
  const json byte_level{{"type", "ByteLevel"}, {"add_prefix_space", adds_space}};
  const json model{{"vocab", read_json(dir / "vocab.json")}, {"merges", read_merges(dir / "merges.txt")}};

  TokenizerParts parts;
  parts.decoder = parse_decoder(byte_level, where);
  parts.model = std::make_unique<BpeModel>(PreTokenizer::parse(byte_level, where),
                                           JsonObject(model, (dir / "vocab.json with merges.txt").string()));
  SpecialTokenDefaults defaults;
  if (parts.model->id(kEndOfText)) defaults.bos = defaults.eos = kEndOfText;
  read_special_tokens(dir, defaults, parts);
  const auto end_of_text = parts.model->id(kEndOfText);
  if (parts.added.ids().empty() && end_of_text) {
    parts.added.add({*end_of_text, kEndOfText, true}, where, parts.normalizer);
  }
  return parts;
}

}  // namespace kvc
