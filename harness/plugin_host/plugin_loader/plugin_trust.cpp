#include "plugin_loader/plugin_trust.h"

#include <sstream>

#include "kvc/check.h"
#include "text/files.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

bool anybody_writes(const fs::path& path) {
  return (fs::status(path).permissions() & fs::perms::others_write) != fs::perms::none;
}

// Where it is sticky, as /tmp is, others may put files beside another's but not in their place.
bool anybody_replaces_in(const fs::path& folder) {
  return anybody_writes(folder) && (fs::status(folder).permissions() & fs::perms::sticky_bit) == fs::perms::none;
}

}  // namespace

void refuse_if_others_write(const fs::path& file) {
  for (const auto& path : {fs::absolute(file), fs::canonical(file)}) {  // a link, and what it leads to
    const auto folder = path.parent_path();
    KVC_CHECK(!anybody_writes(path), path.string(), ": this plugin is world-writable; `chmod o-w` it");
    KVC_CHECK(!anybody_replaces_in(folder), path.string(), ": this plugin is in a world-writable folder; `chmod o-w ",
              folder.string(), "`");
  }
}

AllowedPlugins::AllowedPlugins(const std::string& list) : list_(list) {
  if (list.empty()) return;
  std::istringstream text(read_file(list));
  int64_t number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    const auto begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    const auto sum = line.substr(begin, line.find_first_of(" \t\r", begin) - begin);
    KVC_CHECK(sum.size() == 64 && sum.find_first_not_of("0123456789abcdef") == std::string::npos, list, ":", number,
              ": error: '", sum, "', expected a SHA-256 of 64 hex digits in lower case, or a comment after #");
    sums_.insert(sum);
  }
}

void AllowedPlugins::check(const fs::path& file, const std::string& sha256) const {
  KVC_CHECK(list_.empty() || sums_.contains(sha256), file.string(), ": SHA-256 ", sha256, " is not listed in '", list_,
            "'");
}

}  // namespace kvc
