// Whole files, and their content hashes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace kvc {

// Whether it is a regular file; not, where the system refuses to look, as at a name that is too long.
bool is_file(const std::filesystem::path& path);

// 'path' for a message: its control characters escaped, at which the message would end.
std::string path_in_quotes(const std::filesystem::path& path);

// Why the path is not a regular file: "it is a folder", a named pipe, a socket, a device; or why the path is invalid.
// "": it is a regular file, or there is nothing.
std::string no_file(const std::filesystem::path& path);

// Throws Error, naming the path, unless it is a regular file, nothing, or a pipe made by a shell (/dev/stdin, <(...)).
void check_readable(const std::filesystem::path& path);

// Opens a file from its beginning on, after check_readable. Throws Error naming the path and the system's reason.
std::ifstream open_to_read(const std::filesystem::path& path);

// The file's bytes. Throws Error naming the path and the system's reason.
std::string read_file(const std::filesystem::path& path);

// A file that is written completely or not at all: under a temporary name until commit() renames it; without a commit
// the temporary file is removed. Devices, pipes, and files in a folder that is not writable are written in place.
// Throws EnvironmentError naming the path and the system's reason, at the write that meets it.
class OutputFile {
 public:
  enum class How { kWhole, kInPlace, kAppend };  // kInPlace, kAppend: its owner renames it
  explicit OutputFile(std::filesystem::path path, How how = How::kWhole);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  void write(std::string_view bytes);
  void commit();  // the last call

 private:
  [[noreturn]] void fail(int error) const;
  void flush(std::string_view bytes);
  bool open_part(const std::filesystem::path& target);
  void open_in_place(bool is_there, How how);

  std::filesystem::path path_;
  std::filesystem::path part_, target_;  // part_ is renamed to target_; "": the file is written in place
  int file_ = -1;
  bool is_made_ = false;  // in place, and was not there before
  std::string waiting_;   // to be written
};

// The text, as an OutputFile.
void write_file(const std::filesystem::path& path, std::string_view text);

// Lower-case hex SHA-256 of bytes, or of a file read in pieces.
std::string sha256_hex(std::string_view bytes);
std::string sha256_file(const std::filesystem::path& path);
// Of n_bytes from the offset on, or fewer at the file's end.
std::string sha256_range(const std::filesystem::path& path, int64_t offset, int64_t n_bytes);

// What git calls a file of these bytes: lower-case hex SHA-1 of "blob <size>", NUL and the bytes.
std::string git_blob_id(const std::filesystem::path& path);

}  // namespace kvc
