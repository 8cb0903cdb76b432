// Files that `xz` packed.
#pragma once

#include <filesystem>

namespace kvc {

inline bool is_xz(const std::filesystem::path& file) { return file.extension() == ".xz"; }

// What `from` packs as the file `to`. Throws Error, naming `from`, where it is no whole .xz file, and EnvironmentError
// where `to` cannot be written.
void unpack_xz(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace kvc
