// Masks made once: in memory for all caches of a compressor, and on disk for the next process. A mask is a function of
// its key, so what is found is what would be made; a file that is damaged or cannot be written costs time, nothing
// else.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "expander.h"

namespace gearx {

// $XDG_CACHE_HOME/kvc/masks, or ~/.cache/kvc/masks; empty where neither variable is set.
std::filesystem::path default_mask_folder();

// Where a folder holds the mask of that key.
std::filesystem::path mask_file(const std::filesystem::path& folder, const MaskKey& key);
// Under a name of its own, then renamed: a reader sees a whole file or none, whoever writes at the same time.
void save_mask(const std::filesystem::path& file, const MaskKey& key, const Mask& mask);

class MaskStore {
 public:
  explicit MaskStore(std::filesystem::path folder) : folder_(std::move(folder)) {}  // empty: no disk

  // The mask, repeated for n_copies heads, each m channels further: [n, n_copies * d_t]. From any thread; stays.
  const Mask& get(const MaskKey& key, int64_t n_copies = 1) const;

 private:
  Mask load_or_make(const MaskKey& key) const;

  std::filesystem::path folder_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<MaskKey, int64_t>, std::unique_ptr<const Mask>> masks_;
};

}  // namespace gearx
