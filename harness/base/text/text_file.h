// Text files that other programs wrote: unpacked where they are gzip or bzip2, without a byte order mark. What is no
// text in UTF-8 (Parquet, a zip archive, UTF-16, ...) is named, with the command that converts it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <streambuf>
#include <string>
#include <string_view>

namespace kvc {

enum class TextEncoding { kUtf8, kLatin1 };

// Of packed files: one of kilobytes can hold terabytes of zeros.
constexpr size_t kMostUnpackedBytes = size_t{1} << 28;

// The file's text as a stream of bytes, in the memory of one buffer. Packed members that follow each other are one
// text. Every function throws Error "<path>: error: ..." for what cannot be read or unpacked.
class TextStream : public std::streambuf {
 public:
  explicit TextStream(const std::filesystem::path& path, TextEncoding encoding = TextEncoding::kUtf8);
  ~TextStream() override;

  int64_t n_file_bytes() const;  // of the file read so far, packed ones as they are

 protected:
  int_type underflow() override;

 private:
  class Unpacker;
  std::unique_ptr<Unpacker> unpacker_;
  std::string buffer_;
};

// The whole text, as UTF-8. Throws Error file:line:column for bytes that are none.
std::string read_text(const std::filesystem::path& path, TextEncoding encoding = TextEncoding::kUtf8);

// Bytes of the UTF-8 byte order mark that a text begins with: 3 or 0. Throws Error where the beginning shows that it is
// no text in UTF-8.
size_t check_text_start(std::string_view start, const std::filesystem::path& path);

std::string latin1_to_utf8(std::string_view bytes);

}  // namespace kvc
