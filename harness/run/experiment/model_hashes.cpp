#include "experiment/model_hashes.h"

#include <nlohmann/json.hpp>

#include "gguf/gguf_file.h"
#include "kvc/check.h"
#include "text/files.h"
#include "text/hash_cache.h"

namespace kvc {
namespace {

constexpr uintmax_t kWorthRemembering = uintmax_t{64} << 20;  // bytes: smaller files are hashed in a moment

}  // namespace

nlohmann::json hash_model(const std::filesystem::path& model, bool verify) {
  const HashCache cache(user_cache_folder(), verify);
  nlohmann::json hashes = nlohmann::json::object();
  if (is_gguf(model)) {  // by its place among the files, not by its name, which is anyone's to choose
    for (const auto& path : GgufFile(model).paths()) {
      hashes[concat("model-", hashes.size() + 1, ".gguf")] = cache.sha256(path);
    }
    return hashes;
  }
  for (const auto& entry : std::filesystem::directory_iterator(model)) {
    const auto name = entry.path().filename().string();
    const bool matters = name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") ||
                         name == "config.json" || name == "generation_config.json" || name == "tokenizer.json" ||
                         name == "tokenizer.model" || name == "vocab.json" || name == "merges.txt" ||
                         name == "tokenizer_config.json" || name == "special_tokens_map.json" ||
                         name == "added_tokens.json";
    if (!matters || !entry.is_regular_file()) continue;
    hashes[name] = entry.file_size() < kWorthRemembering ? sha256_file(entry.path()) : cache.sha256(entry.path());
  }
  return hashes;
}

}  // namespace kvc
