#include "text/files.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

class Digest {
 public:
  explicit Digest(const EVP_MD* kind) : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    KVC_CHECK(context_ && EVP_DigestInit_ex(context_.get(), kind, nullptr) == 1, EVP_MD_get0_name(kind),
              " is not available");
  }
  void add(std::string_view bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_.get(), digest, &size);
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (unsigned int i = 0; i < size; ++i) {
      text += kDigits[digest[i] >> 4];
      text += kDigits[digest[i] & 15];
    }
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

constexpr size_t kWriteBytes = size_t{1} << 16;

// A pipe without a name, as a shell makes it.
bool is_shells_pipe(const std::filesystem::path& path) {
  constexpr decltype(statfs::f_type) kPipes = 0x50495045;  // PIPEFS_MAGIC of linux/magic.h
  struct statfs info {};
  return ::statfs(path.c_str(), &info) == 0 && info.f_type == kPipes;
}

// Where a file of the same folder could not take the path's place: a shell's own descriptors.
bool is_descriptor(const std::filesystem::path& path) {
  const auto text = path.lexically_normal().string();
  return text.starts_with("/dev/") || text.starts_with("/proc/");
}

std::string add_file(Digest hash, const std::filesystem::path& path, int64_t offset = 0,
                     int64_t n_bytes = std::numeric_limits<int64_t>::max()) {
  auto file = open_to_read(path);
  if (offset > 0) file.seekg(offset);
  std::vector<char> buffer(1 << 20);
  while (file && n_bytes > 0) {
    file.read(buffer.data(), std::min(n_bytes, static_cast<int64_t>(buffer.size())));
    hash.add({buffer.data(), static_cast<size_t>(file.gcount())});
    n_bytes -= file.gcount();
  }
  KVC_CHECK(!file.bad(), "cannot read ", path_in_quotes(path), ": ", std::strerror(errno));
  return hash.hex();
}

}  // namespace

bool is_file(const std::filesystem::path& path) {
  std::error_code refused;
  return std::filesystem::is_regular_file(path, refused);
}

std::string path_in_quotes(const std::filesystem::path& path) { return in_quotes(path.string(), PATH_MAX); }

std::string no_file(const std::filesystem::path& path) {
  if (path.native().find('\0') != std::string::npos) return "its name holds a NUL character";
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    const bool may_come = errno == ENOENT || errno == EACCES;  // who opens it says why
    return may_come ? "" : std::strerror(errno);
  }
  if (S_ISREG(status.st_mode)) return "";
  if (S_ISDIR(status.st_mode)) return "it is a folder";
  if (S_ISFIFO(status.st_mode)) return "it is a named pipe (FIFO), expected a file";
  if (S_ISSOCK(status.st_mode)) return "it is a socket, expected a file";
  return "it is a device, expected a file";
}

void check_readable(const std::filesystem::path& path) {
  const auto why = no_file(path);
  KVC_CHECK(why.empty() || is_shells_pipe(path), "cannot read ", path_in_quotes(path), ": ", why);
}

std::ifstream open_to_read(const std::filesystem::path& path) {
  check_readable(path);
  std::ifstream file(path, std::ios::binary);
  KVC_CHECK(file, "cannot read ", path_in_quotes(path), ": ", std::strerror(errno));
  return file;
}

std::string read_file(const std::filesystem::path& path) {
  auto file = open_to_read(path);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  KVC_CHECK(!file.bad(), "cannot read ", path_in_quotes(path), ": ", std::strerror(errno));
  return bytes;
}

OutputFile::OutputFile(std::filesystem::path path, How how) : path_(std::move(path)) {
  if (path_.native().find('\0') != std::string::npos) fail(EINVAL);
  struct stat status {};
  const bool is_there = ::stat(path_.c_str(), &status) == 0;
  if (is_there && S_ISDIR(status.st_mode)) fail(EISDIR);
  if (is_there && S_ISBLK(status.st_mode)) fail(EPERM);  // a disk
  if (is_there && ::access(path_.c_str(), W_OK) != 0) fail(errno);
  std::error_code unknown, dangling;
  const bool is_link = std::filesystem::is_symlink(path_, unknown);
  const auto target = is_link ? std::filesystem::canonical(path_, dangling) : path_;
  const bool takes_its_place = (is_there ? S_ISREG(status.st_mode) : !is_link) && !is_descriptor(path_) && !dangling;
  if (how != How::kWhole || !takes_its_place || !open_part(target)) open_in_place(is_there, how);
  if (!part_.empty() && is_there) ::fchmod(file_, status.st_mode & 07777);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      part_(std::move(other.part_)),
      target_(std::move(other.target_)),
      file_(std::exchange(other.file_, -1)),
      is_made_(other.is_made_),
      waiting_(std::move(other.waiting_)) {}

OutputFile::~OutputFile() {
  if (file_ < 0) return;
  ::close(file_);
  if (!part_.empty() || is_made_) ::unlink((part_.empty() ? path_ : part_).c_str());
}

void OutputFile::fail(int error) const {
  throw EnvironmentError(concat("cannot write ", path_in_quotes(path_), ": ", std::strerror(error)));
}

bool OutputFile::open_part(const std::filesystem::path& target) {
  auto part = target;
  part += concat(".", ::getpid(), ".part");
  file_ = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) return false;
  part_ = std::move(part), target_ = target;
  return true;
}

void OutputFile::open_in_place(bool is_there, How how) {
  // Of a pipe without a reader it says so instead of waiting for one.
  const int beginning = how == How::kAppend ? O_APPEND : O_TRUNC;
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | beginning | O_CLOEXEC | O_NONBLOCK, 0666);
  if (file_ < 0) fail(errno);
  ::fcntl(file_, F_SETFL, ::fcntl(file_, F_GETFL) & ~O_NONBLOCK);
  is_made_ = !is_there;
}

void OutputFile::flush(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::write(file_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void OutputFile::write(std::string_view bytes) {
  if (waiting_.size() + bytes.size() < kWriteBytes) {
    waiting_ += bytes;
    return;
  }
  flush(waiting_);
  waiting_.clear();
  flush(bytes);
}

void OutputFile::commit() {
  flush(waiting_);
  const bool is_closed = ::close(std::exchange(file_, -1)) == 0;
  const int error = errno;
  if (is_closed && (part_.empty() || ::rename(part_.c_str(), target_.c_str()) == 0)) return;
  const int reason = is_closed ? errno : error;
  if (!part_.empty() || is_made_) ::unlink((part_.empty() ? path_ : part_).c_str());
  fail(reason);
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

std::string sha256_hex(std::string_view bytes) {
  Digest hash(EVP_sha256());
  hash.add(bytes);
  return hash.hex();
}

std::string sha256_file(const std::filesystem::path& path) { return add_file(Digest(EVP_sha256()), path); }

std::string sha256_range(const std::filesystem::path& path, int64_t offset, int64_t n_bytes) {
  return add_file(Digest(EVP_sha256()), path, offset, n_bytes);
}

std::string git_blob_id(const std::filesystem::path& path) {
  Digest hash(EVP_sha1());
  const auto head = concat("blob ", std::filesystem::file_size(path));
  hash.add({head.c_str(), head.size() + 1});  // with its NUL
  return add_file(std::move(hash), path);
}

}  // namespace kvc
