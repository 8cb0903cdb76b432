// Whole files, and their content hashes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace kvc {

// Whether it is a regular file; not, where the system refuses to look, as at a name that is too long.
bool is_file(const std::filesystem::path& path);

// The file's bytes. Throws Error naming the path and the system's reason.
std::string read_file(const std::filesystem::path& path);

// Throws EnvironmentError naming the path and the system's reason.
void write_file(const std::filesystem::path& path, std::string_view text);

// Lower-case hex SHA-256 of bytes, or of a file read in pieces.
std::string sha256_hex(std::string_view bytes);
std::string sha256_file(const std::filesystem::path& path);

// What git calls a file of these bytes: lower-case hex SHA-1 of "blob <size>", NUL and the bytes.
std::string git_blob_id(const std::filesystem::path& path);

}  // namespace kvc
