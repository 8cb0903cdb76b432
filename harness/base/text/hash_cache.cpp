#include "text/hash_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>

#include "kvc/check.h"
#include "text/files.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHexDigits = 64;
// A file that is written again within its clock's step keeps its times; the coarsest file systems count by two seconds.
constexpr time_t kSettledSeconds = 3;

struct stat stat_of(const fs::path& file) {
  struct stat status;
  KVC_CHECK(stat(file.c_str(), &status) == 0, "cannot read '", file.string(), "': ", std::strerror(errno));
  return status;
}

// All that changes when the file does. Not the device: nodes of a cluster number a shared file system differently.
std::string identity(const struct stat& status) {
  return concat(status.st_size, " ", status.st_mtim.tv_sec, ".", status.st_mtim.tv_nsec, " ", status.st_ctim.tv_sec,
                ".", status.st_ctim.tv_nsec, " ", status.st_ino);
}

// "<identity> <hash>\n<hash of that line>\n"
std::string entry_text(const std::string& identity, const std::string& sha256) {
  const auto line = identity + " " + sha256;
  return line + "\n" + sha256_hex(line) + "\n";
}

std::optional<std::string> remembered(const fs::path& entry, const std::string& identity) {
  std::ifstream file(entry, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() < identity.size() + 1 + kHexDigits) return std::nullopt;
  const auto sha256 = text.substr(identity.size() + 1, kHexDigits);
  return text == entry_text(identity, sha256) ? std::optional(sha256) : std::nullopt;
}

// Memory is a convenience: where it fails, the next run reads the file again.
void remember(const fs::path& entry, const std::string& text) {
  std::error_code failed;
  fs::create_directories(entry.parent_path(), failed);
  try {
    write_file(entry, text);
  } catch (const Error&) {
  }
}

}  // namespace

HashCache::HashCache(fs::path folder, bool verify) : folder_(std::move(folder)), verify_(verify) {}

std::string HashCache::sha256(const fs::path& file) const {
  if (folder_.empty()) return sha256_file(file);
  const auto status = stat_of(file);
  const auto before = identity(status);
  const auto entry = folder_ / "sha256" / sha256_hex(fs::canonical(file).string());
  if (!verify_) {
    if (const auto known = remembered(entry, before)) return *known;
  }
  const bool is_settled = status.st_mtim.tv_sec + kSettledSeconds <= std::time(nullptr);
  const auto sha256 = sha256_file(file);
  KVC_CHECK(identity(stat_of(file)) == before, "'", file.string(), "' changed while it was read");
  if (is_settled) remember(entry, entry_text(before, sha256));
  return sha256;
}

fs::path user_cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && fs::path(cache).is_absolute()) return fs::path(cache) / "kvc";
  const char* home = std::getenv("HOME");
  if (home && fs::path(home).is_absolute()) return fs::path(home) / ".cache" / "kvc";
  return {};
}

}  // namespace kvc
