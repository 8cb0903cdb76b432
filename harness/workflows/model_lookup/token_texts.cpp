#include "model_lookup/token_texts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiment/model_hashes.h"
#include "fetch/model_source.h"
#include "kvc/check.h"
#include "text/files.h"
#include "text/json.h"
#include "tokenizer/detokenizer.h"

namespace kvc {
namespace {

// A file is its tokenizer, too.
bool is_same_file(const std::filesystem::path& file, const nlohmann::json& hashes) {
  const auto now = hash_model(file);
  return hashes.is_object() && !now.empty() &&
         std::all_of(now.items().begin(), now.items().end(), [&](const auto& entry) {
           return hashes.contains(entry.key()) && hashes[entry.key()] == entry.value();
         });
}

// Whether the folder's tokenizer files are those whose hashes the cell holds.
bool is_same_tokenizer(const std::filesystem::path& folder, const std::string& model_json) {
  const auto hashes = try_json(model_json);
  if (!std::filesystem::is_directory(folder)) return is_same_file(folder, hashes);
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

// Nothing where it would have to be fetched, or its name is none any more.
std::optional<std::filesystem::path> find_here(const std::string& model_label, const Paths& paths) {
  try {
    const auto found = find_model(model_label, model_places(paths.root));
    return found ? std::optional(found->path) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

const std::optional<Tokenizer>& TokenTexts::tokenizer_of(const std::string& model_label, const std::string& cell_key) {
  auto cell = db_.prepare("SELECT model_json FROM cell WHERE key = ?");
  const auto model_json = cell.bind(1, cell_key).step() ? cell.text(0) : std::string();
  const auto [place, is_new] = tokenizers_.try_emplace({model_label, model_json});
  if (!is_new) return place->second;
  const auto folder = find_here(model_label, paths_);
  if (folder && is_same_tokenizer(*folder, model_json)) place->second = Tokenizer::load(*folder);
  return place->second;
}

std::vector<std::string> TokenTexts::of(const std::string& model_label, const std::string& cell_key,
                                        const std::vector<int64_t>& ids) {
  const auto& tokenizer = tokenizer_of(model_label, cell_key);
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
