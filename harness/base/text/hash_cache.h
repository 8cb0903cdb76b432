// SHA-256 of large files, remembered from run to run: a checkpoint of 140 GB takes minutes to read.
#pragma once

#include <filesystem>
#include <string>

namespace kvc {

// One small file per hashed file, named by the hash of its path. It holds what stat says (size, times of modification
// and change, inode), the file's hash, and a hash of both: an entry that is cut or altered is no entry. Entries
// appear whole (a rename), so any number of processes may share the folder.
class HashCache {
 public:
  // Without a folder nothing is remembered; with `verify` nothing is believed.
  explicit HashCache(std::filesystem::path folder, bool verify = false);

  // sha256_file, from memory where the file has not changed since. A file modified within the last seconds is not
  // remembered, nor anything where the folder cannot be written. Throws Error where the file cannot be read or changes
  // while it is.
  std::string sha256(const std::filesystem::path& file) const;

 private:
  std::filesystem::path folder_;
  bool verify_;
};

// $XDG_CACHE_HOME/kvc or ~/.cache/kvc; empty where the environment names neither.
std::filesystem::path user_cache_folder();

}  // namespace kvc
