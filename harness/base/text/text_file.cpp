#include "text/text_file.h"

#include <bzlib.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "kvc/check.h"
#include "text/files.h"
#include "text/message.h"
#include "text/open_file.h"
#include "text/utf8.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using std::string_view_literals::operator""sv;

constexpr size_t kBufferBytes = size_t{1} << 16;
constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF";

// A form that is no text: what a file of it begins with (none that a text in UTF-8 could), and what makes text of it,
// where @ is the file.
struct Form {
  std::string_view magic;
  const char* name;
  const char* how;
};
constexpr Form kForms[] = {
    {"\xFF\xFE\0\0"sv, "text in UTF-32 (byte order mark FF FE 00 00)", "iconv -f UTF-32 -t UTF-8 @ > @.utf8"},
    {"\0\0\xFE\xFF"sv, "text in UTF-32 (byte order mark 00 00 FE FF)", "iconv -f UTF-32 -t UTF-8 @ > @.utf8"},
    {"\xFF\xFE"sv, "text in UTF-16 (byte order mark FF FE)", "iconv -f UTF-16 -t UTF-8 @ > @.utf8"},
    {"\xFE\xFF"sv, "text in UTF-16 (byte order mark FE FF)", "iconv -f UTF-16 -t UTF-8 @ > @.utf8"},
    {"PAR1\x15"sv, "Parquet",
     R"x(python3 -c "import pandas as p; p.read_parquet('@').to_json('@.jsonl', orient='records', lines=True)")x"},
    {"ARROW1\0\0"sv, "Arrow (Feather)",
     R"x(python3 -c "import pandas as p; p.read_feather('@').to_json('@.jsonl', orient='records', lines=True)")x"},
    {"\xFF\xFF\xFF\xFF"sv, "an Arrow stream",
     R"x(python3 -c "from datasets import Dataset as d; d.from_file('@').to_json('@.jsonl')")x"},
    {"PK\x03\x04"sv, "a zip archive", "unzip @"},
    {"\x28\xB5\x2F\xFD"sv, "packed by zstd", "zstd -d @"},
    {"\xFD\x37zXZ\0"sv, "packed by xz", "xz -dk @"},
    {"\x04\x22\x4D\x18"sv, "packed by lz4", "lz4 -d @"},
    {"7z\xBC\xAF\x27\x1C"sv, "a 7z archive", "7z x @"},
    {"Rar!\x1A\x07"sv, "a RAR archive", "unrar x @"},
    {"SQLite format 3\0"sv, "an SQLite database", "sqlite3 -csv @ 'SELECT ...'"},
    {"\xD0\xCF\x11\xE0"sv, "a document of an old Office", "libreoffice --headless --convert-to csv @"},
    {"\x89HDF\r\n"sv, "HDF5",
     R"x(python3 -c "import pandas as p; p.read_hdf('@').to_json('@.jsonl', orient='records', lines=True)")x"},
    {"\x93NUMPY"sv, "a NumPy array", R"x(python3 -c "import numpy as n; n.savetxt('@.txt', n.load('@'))")x"},
};
constexpr Form kWorkbook = {"", "an Excel workbook", "libreoffice --headless --convert-to csv @"};
constexpr Form kTar = {"", "a tar archive", "tar xf @"};
constexpr Form kUtf16 = {"", "text in UTF-16 without a byte order mark, or no text",
                         "iconv -f UTF-16LE -t UTF-8 @ > @.utf8"};

const Form* form_of(std::string_view start, const fs::path& path) {
  if (start.substr(0, 4) == "PK\x03\x04" && (path.extension() == ".xlsx" || start.find("xl/") != start.npos)) {
    return &kWorkbook;
  }
  for (const auto& form : kForms) {
    if (start.starts_with(form.magic)) return &form;
  }
  if (start.size() > 262 && start.substr(257, 5) == "ustar") return &kTar;
  return start.size() >= 2 && (start[0] == '\0' || start[1] == '\0') ? &kUtf16 : nullptr;
}

bool is_bzip2(std::string_view start) {
  const auto block = start.substr(std::min<size_t>(4, start.size()), 6);
  return start.starts_with("BZh") && (block == "1AY&SY" || block == "\x17rE8P\x90");
}

}  // namespace

size_t check_text_start(std::string_view start, const fs::path& path) {
  KVC_CHECK(!start.starts_with(kLfsPointer), path.string(), kIsLfsPointer);
  if (const auto* form = form_of(start, path)) {
    std::string how = form->how;
    for (size_t at = 0; (at = how.find('@', at)) != how.npos; at += path.string().size()) {
      how.replace(at, 1, path.string());
    }
    throw Error(
        in_one_line(concat(path.string(), ":1:1: error: the file is ", form->name, ", expected text in UTF-8: ", how)));
  }
  return start.starts_with(kUtf8Mark) ? kUtf8Mark.size() : 0;
}

// The file's bytes, unpacked.
class TextStream::Unpacker {
 public:
  explicit Unpacker(const fs::path& path) : path_(path.string()), file_(nullptr, &gzclose_r) {
    check_readable(path);
    errno = 0;
    file_.reset(gzopen(path.c_str(), "rbe"));  // passes on what is not packed
    KVC_CHECK(file_, "cannot read '", path_, "': ", std::strerror(errno == 0 ? ENOMEM : errno));
    gzbuffer(file_.get(), kBufferBytes);
    packed_.resize(kBufferBytes);
    refill();
    is_bzip2_ = is_bzip2(left_);
    const auto name = path.extension();
    KVC_CHECK(name != ".bz2" || is_bzip2_, path_, ": error: no whole bzip2 file");
    KVC_CHECK(name != ".gz" || !gzdirect(file_.get()), path_,
              ": error: no whole gzip file: it does not begin like one");
    if (is_bzip2_) begin_bzip2();
  }
  ~Unpacker() { end_bzip2(); }

  int64_t n_file_bytes() const { return gzoffset(file_.get()); }

  // Up to n bytes; none at the end.
  size_t read(char* to, size_t n) {
    const size_t n_read = is_bzip2_ ? read_bzip2(to, n) : pass_on(to, n);
    n_unpacked_ += n_read;
    KVC_CHECK(n_unpacked_ <= kMostUnpackedBytes || (!is_bzip2_ && gzdirect(file_.get())), path_,
              ": error: it unpacks to more than ", kMostUnpackedBytes, " bytes; unpack it, and name the unpacked file");
    return n_read;
  }

 private:
  void refill() {
    errno = 0;
    const int n = gzread(file_.get(), packed_.data(), static_cast<unsigned>(packed_.size()));
    int error = Z_OK;
    const std::string why = gzerror(file_.get(), &error);
    KVC_CHECK(error != Z_ERRNO, "cannot read '", path_, "': ", std::strerror(errno));
    const auto at = why.rfind(": ");  // after the file's name
    KVC_CHECK(n >= 0 && error == Z_OK, path_,
              ": error: no whole gzip file: ", in_one_line(at == why.npos ? why : why.substr(at + 2)));
    left_ = {packed_.data(), static_cast<size_t>(n)};
  }

  size_t pass_on(char* to, size_t n) {
    if (left_.empty()) refill();
    n = std::min(n, left_.size());
    std::copy_n(left_.data(), n, to);
    left_.remove_prefix(n);
    return n;
  }

  void begin_bzip2() {
    bzip2_ = {};
    KVC_CHECK(BZ2_bzDecompressInit(&bzip2_, 0, 0) == BZ_OK, path_, ": no memory for bzip2");
    in_bzip2_ = true;
  }
  void end_bzip2() {
    if (in_bzip2_) BZ2_bzDecompressEnd(&bzip2_);
    in_bzip2_ = false;
  }

  size_t read_bzip2(char* to, size_t n) {
    bzip2_.next_out = to;
    bzip2_.avail_out = static_cast<unsigned>(n);
    while (bzip2_.avail_out == n) {
      if (left_.empty()) refill();
      if (!in_bzip2_) {  // another stream, or the end
        if (left_.empty()) return 0;
        begin_bzip2();
        bzip2_.next_out = to;
        bzip2_.avail_out = static_cast<unsigned>(n);
      }
      KVC_CHECK(!left_.empty(), path_, ": error: no whole bzip2 file");
      bzip2_.next_in = const_cast<char*>(left_.data());
      bzip2_.avail_in = static_cast<unsigned>(left_.size());
      const int result = BZ2_bzDecompress(&bzip2_);
      left_.remove_prefix(left_.size() - bzip2_.avail_in);
      KVC_CHECK(result == BZ_OK || result == BZ_STREAM_END, path_, ": error: no whole bzip2 file");
      if (result == BZ_STREAM_END) end_bzip2();
    }
    return n - bzip2_.avail_out;
  }

  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  std::vector<char> packed_;
  std::string_view left_;  // of packed_
  bool is_bzip2_ = false, in_bzip2_ = false;
  bz_stream bzip2_{};
  size_t n_unpacked_ = 0;
};

TextStream::TextStream(const fs::path& path, TextEncoding encoding)
    : unpacker_(std::make_unique<Unpacker>(path)), buffer_(kBufferBytes, '\0') {
  underflow();
  const size_t n_mark = check_text_start({gptr(), static_cast<size_t>(egptr() - gptr())}, path);
  KVC_CHECK(n_mark == 0 || encoding == TextEncoding::kUtf8, path.string(),
            ":1:1: error: the file begins with the byte order mark of UTF-8, and the encoding is said to be latin1");
  gbump(static_cast<int>(n_mark));
}

TextStream::~TextStream() = default;

int64_t TextStream::n_file_bytes() const { return unpacker_->n_file_bytes(); }

TextStream::int_type TextStream::underflow() {
  const size_t n = unpacker_->read(buffer_.data(), buffer_.size());
  setg(buffer_.data(), buffer_.data(), buffer_.data() + n);
  return n == 0 ? traits_type::eof() : traits_type::to_int_type(*gptr());
}

std::string latin1_to_utf8(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_utf8(text, static_cast<unsigned char>(byte));
  return text;
}

std::string read_text(const fs::path& path, TextEncoding encoding) {
  TextStream stream(path, encoding);
  std::string text;
  std::vector<char> piece(kBufferBytes);
  for (std::streamsize n; (n = stream.sgetn(piece.data(), static_cast<std::streamsize>(piece.size()))) > 0;) {
    text.append(piece.data(), static_cast<size_t>(n));
  }
  if (encoding == TextEncoding::kLatin1) return latin1_to_utf8(text);
  if (const auto bad = first_invalid_utf8(text)) {
    throw Error(concat(path.string(), ":", line_and_column(text, *bad), ": error: not well-formed UTF-8"));
  }
  return text;
}

}  // namespace kvc
