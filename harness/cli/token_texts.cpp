#include "cli/token_texts.h"

#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "model/detokenizer.h"
#include "text/files.h"

namespace kvc {
namespace {

// Whether the folder's tokenizer files are those whose hashes the cell holds.
bool is_same_tokenizer(const std::filesystem::path& folder, const std::string& model_json) {
  const auto hashes = nlohmann::json::parse(model_json, nullptr, false);
  int n = 0;
  for (const auto* name : {"tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt"}) {
    const bool known = hashes.is_object() && hashes.contains(name);
    if (known != std::filesystem::exists(folder / name)) return false;
    if (!known) continue;
    if (hashes[name] != sha256_file(folder / name)) return false;
    ++n;
  }
  return n > 0;
}

}  // namespace

const std::optional<Tokenizer>& TokenTexts::tokenizer_of(const std::string& model, const std::string& cell_key) {
  auto cell = db_.prepare("SELECT model_json FROM cell WHERE key = ?");
  const auto model_json = cell.bind(1, cell_key).step() ? cell.text(0) : std::string();
  const auto [place, is_new] = tokenizers_.try_emplace({model, model_json});
  const auto folder = below_root(paths_, model);
  if (is_new && is_same_tokenizer(folder, model_json)) place->second = Tokenizer::load(folder);
  return place->second;
}

std::vector<std::string> TokenTexts::of(const std::string& model, const std::string& cell_key,
                                        const std::vector<int64_t>& ids) {
  const auto& tokenizer = tokenizer_of(model, cell_key);
  if (!tokenizer) return {};
  Detokenizer detokenizer(*tokenizer, true);
  std::vector<std::string> texts;
  for (const auto id : ids) {
    if (id < 0) return {};
    texts.push_back(detokenizer.add(id));
  }
  if (!texts.empty()) texts.back() += detokenizer.finish();
  return texts;
}

}  // namespace kvc
