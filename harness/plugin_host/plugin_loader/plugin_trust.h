// Which plugin files are opened at all; asked before any of their code runs.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace kvc {

// Throws Error where anybody may write the file, or replace it in the folder that it lies in.
void refuse_if_others_write(const std::filesystem::path& file);

// The plugins that a user allows, by the SHA-256 of their files.
class AllowedPlugins {
 public:
  // list: a file of such sums, one a line as sha256sum prints it or bare, `#` before a comment; "": all are allowed.
  // Throws Error in one line.
  explicit AllowedPlugins(const std::string& list);

  // Throws Error naming file, hash and list.
  void check(const std::filesystem::path& file, const std::string& sha256) const;

 private:
  std::string list_;
  std::set<std::string> sums_;
};

}  // namespace kvc
