#include "text/files.h"

#include <openssl/evp.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "kvc/check.h"

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

std::ifstream open_file(const std::filesystem::path& path) {
  std::error_code unreadable;  // opening the file says why
  KVC_CHECK(!std::filesystem::is_directory(path, unreadable), "cannot read '", path.string(), "': it is a folder");
  std::ifstream file(path, std::ios::binary);
  KVC_CHECK(file, "cannot read '", path.string(), "': ", std::strerror(errno));
  return file;
}

std::string add_file(Digest hash, const std::filesystem::path& path) {
  auto file = open_file(path);
  std::vector<char> buffer(1 << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0) {
    hash.add({buffer.data(), static_cast<size_t>(file.gcount())});
  }
  KVC_CHECK(!file.bad(), "cannot read '", path.string(), "': ", std::strerror(errno));
  return hash.hex();
}

}  // namespace

bool is_file(const std::filesystem::path& path) {
  std::error_code refused;
  return std::filesystem::is_regular_file(path, refused);
}

std::string read_file(const std::filesystem::path& path) {
  auto file = open_file(path);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  KVC_CHECK(!file.bad(), "cannot read '", path.string(), "': ", std::strerror(errno));
  return bytes;
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw EnvironmentError(concat("cannot write '", path.string(), "': ", std::strerror(errno)));
}

std::string sha256_hex(std::string_view bytes) {
  Digest hash(EVP_sha256());
  hash.add(bytes);
  return hash.hex();
}

std::string sha256_file(const std::filesystem::path& path) { return add_file(Digest(EVP_sha256()), path); }

std::string git_blob_id(const std::filesystem::path& path) {
  Digest hash(EVP_sha1());
  const auto head = concat("blob ", std::filesystem::file_size(path));
  hash.add({head.c_str(), head.size() + 1});  // with its NUL
  return add_file(std::move(hash), path);
}

}  // namespace kvc
