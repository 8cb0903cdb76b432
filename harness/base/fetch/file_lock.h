// One process at a time: an advisory lock on a file, which ends with the process whatever ends it.
#pragma once

#include <filesystem>
#include <functional>

namespace kvc {

class FileLock {
 public:
  // Makes the file, and its folder, where they are missing; calls on_wait once where another holds the lock. Throws
  // EnvironmentError where the file cannot be written.
  FileLock(const std::filesystem::path& file, const std::function<void()>& on_wait);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_;
};

// Makes the folder, with those above it. Throws EnvironmentError in one line.
void make_folder(const std::filesystem::path& folder);

}  // namespace kvc
