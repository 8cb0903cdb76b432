#include "fetch/data_sources.h"

#include "fetch/read_hash.h"
#include "kvc/check.h"
#include "text/files.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

constexpr int64_t kVersion = 1;
constexpr int64_t kMostDataBytes = int64_t{1} << 40;

DataSource read_source(const YamlValue& value) {
  auto map = value.map();
  DataSource source;
  source.url = map.required_string("url");
  source.licence = map.required_string("licence");
  source.note = map.optional_string("note", "");
  if (const auto n = map.optional("bytes")) source.n_bytes = n->integer(1, kMostDataBytes);
  if (const auto hash = map.optional("sha256")) source.sha256 = read_sha256(*hash);
  if (source.n_bytes.has_value() != !source.sha256.empty()) value.fail("expected both bytes and sha256, or neither");
  source.may_fetch = map.optional_boolean("fetch", source.n_bytes.has_value());
  if (const auto made_by = map.optional("made_by")) {
    auto made_by_map = made_by->map();
    source.package = made_by_map.required_string("package");
    source.command = made_by_map.required_string("command");
    made_by_map.reject_unknown();
  }
  const bool is_made = !source.command.empty();
  if (source.may_fetch && !source.n_bytes && !is_made) value.fail("a file without known hash cannot be fetched");
  if (!source.may_fetch && source.note.empty())
    value.fail("a file that is not downloaded needs a note on how to get it");
  map.reject_unknown();
  return source;
}

}  // namespace

std::map<std::string, DataSource> load_data_sources(const std::filesystem::path& yaml_file) {
  auto map = load_yaml(yaml_file).map();
  map.required_integer("version", kVersion, kVersion);
  std::map<std::string, DataSource> sources;
  for (const auto& [file, source] : map.required("files").map().entries()) sources[file] = read_source(source);
  map.reject_unknown();
  return sources;
}

DataState check_data(const DataSource& source, const std::filesystem::path& path, std::string& found) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return DataState::kMissing;
  if (!source.n_bytes) return DataState::kUnchecked;
  const auto n_bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  found = concat(n_bytes, " bytes");
  if (n_bytes != *source.n_bytes) return DataState::kWrong;
  found = "SHA-256 " + sha256_file(path);
  return found == "SHA-256 " + source.sha256 ? DataState::kRight : DataState::kWrong;
}

}  // namespace kvc
