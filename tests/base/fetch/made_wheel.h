// Wheels made by a test, and a script that stands in pip's place.
#pragma once

#include <zip.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "fetch/model_catalog.h"
#include "text/files.h"

namespace kvc::test {

inline void make_wheel(const std::filesystem::path& path, const std::map<std::string, std::string>& members) {
  int error = 0;
  auto* zip = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  if (!zip) std::abort();
  for (const auto& [name, content] : members) {
    auto* source = zip_source_buffer(zip, content.data(), content.size(), 0);
    if (!source || zip_file_add(zip, name.c_str(), source, 0) < 0) std::abort();
  }
  if (zip_close(zip) != 0) std::abort();
}

inline FileFacts facts_of(const std::string& content) {
  return {static_cast<int64_t>(content.size()), sha256_hex(content)};
}

inline std::string script(const std::filesystem::path& path, const std::string& lines) {
  std::ofstream(path) << "#!/bin/sh\n" << lines << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path.string();
}

// Copies the wheel to the folder behind -d, and notes what it was asked for in `folder`/asked, a line a call.
inline std::string fake_pip(const std::filesystem::path& folder, const std::filesystem::path& wheel) {
  return script(folder / "pip", "echo \"TMPDIR=$TMPDIR $*\" >> '" + (folder / "asked").string() +
                                    "'\nwhile [ $# -gt 1 ]; do [ \"$1\" = -d ] && to=$2; shift; done\ncp '" +
                                    wheel.string() + "' \"$to\"");
}

}  // namespace kvc::test
