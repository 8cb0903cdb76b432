// A shard's database: written on this machine's own disk, brought to the shared folder whole or not at all.
#pragma once

#include <filesystem>
#include <optional>

#include "store/result_store.h"

namespace kvc {

class ShardFile {
 public:
  // Goes on from what is at `shared`, where there is anything. Lies in $SLURM_TMPDIR, $TMPDIR or /tmp, in a folder of
  // its own that goes with this. Throws EnvironmentError.
  explicit ShardFile(std::filesystem::path shared);
  ~ShardFile();
  ShardFile(const ShardFile&) = delete;
  ShardFile& operator=(const ShardFile&) = delete;

  ResultStore& store() { return *store_; }
  // What is committed by now into the shared folder, under another name until it is whole and on the disk there.
  void bring();

 private:
  std::filesystem::path shared_, folder_;
  std::optional<ResultStore> store_;
};

// The bytes under another name beside `to` and on the disk, then under its own. Throws EnvironmentError; `to` is then
// as it was.
void copy_whole(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace kvc
