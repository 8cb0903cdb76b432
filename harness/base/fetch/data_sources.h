// Where the files of the data folder come from: tasks/data.yaml.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace kvc {

struct DataSource {
  std::string url;  // the official address: of the file, or of the page that leads to it
  std::string licence;
  std::string note;                // how to get it where it is not fetched; "" otherwise
  std::optional<int64_t> n_bytes;  // with its hash, where they are known
  std::string sha256;
  bool may_fetch = false;        // its licence lets anyone have it, and the address is the file's own
  std::string package, command;  // or: the Debian package whose program prints it, and how; "" otherwise
};

// By the file's path below the data folder.
std::map<std::string, DataSource> load_data_sources(const std::filesystem::path& yaml_file);

enum class DataState { kMissing, kRight, kUnchecked, kWrong };  // unchecked: there is no known hash

// What is at `path`; `found` gets the size or hash that is wrong.
DataState check_data(const DataSource& source, const std::filesystem::path& path, std::string& found);

}  // namespace kvc
