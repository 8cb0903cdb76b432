// A regular file read at offsets. Not mapped: a file that shrinks under us is then an Error and not a SIGBUS.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace kvc {

// What Git LFS leaves in a file's place begins with this.
inline constexpr std::string_view kLfsPointer = "version https://git-lfs";
inline constexpr const char* kIsLfsPointer = ": a Git LFS pointer and not the file itself; fetch it with: git lfs pull";

class OpenFile {
 public:
  // Throws Error naming the path where it cannot be opened, is no regular file, or is a Git LFS pointer.
  explicit OpenFile(const std::filesystem::path& path);
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&&) = delete;
  ~OpenFile();

  const std::string& path() const { return path_; }
  int64_t n_bytes() const { return n_bytes_; }  // when it was opened
  // Throws Error where fewer bytes are there.
  void read(void* out, int64_t n_bytes, int64_t offset) const;

 private:
  std::string path_;
  int file_ = -1;
  int64_t n_bytes_ = 0;
};

}  // namespace kvc
