#include "mask_store.h"

#include <kvc/check.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

namespace gearx {
namespace {

namespace fs = std::filesystem;

// The file: this header, then the channels (CSR without row pointers). Its version changes with how masks are made.
struct Header {
  char magic[8] = {'K', 'V', 'C', 'M', 'A', 'S', 'K', '1'};
  int64_t n_channels = 0, n_tokens = 0, token_degree = 0;
  uint64_t seed = 0, checksum = 0;
};

uint64_t checksum_of(const Mask& mask) {  // FNV-1a over the channels
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const uint16_t channel : mask) hash = (hash ^ channel) * 0x100000001b3ULL;
  return hash;
}

Header header_of(const MaskKey& key, const Mask& mask) {
  Header header;
  header.n_channels = key.n_channels, header.n_tokens = key.n_tokens, header.token_degree = key.token_degree;
  header.seed = key.seed, header.checksum = checksum_of(mask);
  return header;
}

std::optional<Mask> load(const fs::path& file, const MaskKey& key) {
  std::ifstream in(file, std::ios::binary);
  Header header;
  Mask mask(static_cast<size_t>(key.n_edges()));
  in.read(reinterpret_cast<char*>(&header), sizeof header);
  in.read(reinterpret_cast<char*>(mask.data()), static_cast<std::streamsize>(2 * mask.size()));
  const auto expected = header_of(key, mask);
  if (!in || std::memcmp(&header, &expected, sizeof header) != 0 || !is_biregular(mask, key)) return std::nullopt;
  return mask;
}

}  // namespace

fs::path mask_file(const fs::path& folder, const MaskKey& key) {
  return folder / kvc::concat("expander-v1-m", key.n_channels, "-n", key.n_tokens, "-d", key.token_degree, "-s",
                              key.seed, ".csr");
}

void save_mask(const fs::path& file, const MaskKey& key, const Mask& mask) {
  static std::atomic<int> n_saved = 0;
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  const auto temporary = fs::path(kvc::concat(file.string(), ".", ::getpid(), ".", n_saved++));
  {
    const auto header = header_of(key, mask);
    std::ofstream out(temporary, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&header), sizeof header);
    out.write(reinterpret_cast<const char*>(mask.data()), static_cast<std::streamsize>(2 * mask.size()));
    out.close();
    if (out) fs::rename(temporary, file, error);
  }
  fs::remove(temporary, error);  // where it was not renamed
}

fs::path default_mask_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache) return fs::path(cache) / "kvc" / "masks";
  const char* home = std::getenv("HOME");
  return home && *home ? fs::path(home) / ".cache" / "kvc" / "masks" : fs::path();
}

Mask MaskStore::load_or_make(const MaskKey& key) const {
  if (folder_.empty()) return make_mask(key);
  const auto file = mask_file(folder_, key);
  if (auto mask = load(file, key)) return *std::move(mask);
  auto mask = make_mask(key);
  save_mask(file, key, mask);
  return mask;
}

const Mask& MaskStore::get(const MaskKey& key, int64_t n_copies) const {
  const std::lock_guard lock(mutex_);
  auto& held = masks_[{key, n_copies}];
  if (held) return *held;
  const auto mask = load_or_make(key);
  Mask copies;
  for (auto row = mask.begin(); row != mask.end(); row += key.token_degree) {
    for (int64_t copy = 0; copy < n_copies; ++copy) {
      for (int64_t i = 0; i < key.token_degree; ++i)
        copies.push_back(static_cast<uint16_t>(row[i] + copy * key.n_channels));
    }
  }
  held = std::make_unique<const Mask>(std::move(copies));
  return *held;
}

}  // namespace gearx
