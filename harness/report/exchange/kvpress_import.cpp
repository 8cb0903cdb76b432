#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "exchange/external_rows.h"
#include "kvc/check.h"
#include "text/files.h"
#include "text/json.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using SortedJson = nlohmann::json;

constexpr uintmax_t kMostConfigBytes = uintmax_t{1} << 20;

// Of a run, or of one that was stopped.
bool is_result(const fs::path& folder) {
  if (fs::exists(folder / "metrics.json")) return true;
  const auto config = folder / "config.yaml";
  return is_file(config) && fs::file_size(config) < kMostConfigBytes &&
         read_file(config).find("press_name") != std::string::npos;
}

std::vector<fs::path> result_folders(const fs::path& folder) {
  std::vector<fs::path> folders;
  if (is_result(folder)) folders.push_back(folder);
  for (const auto& entry :
       fs::recursive_directory_iterator(folder)) {  // a second run's folder is inside the first one's
    if (entry.is_directory() && is_result(entry.path())) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  KVC_CHECK(!folders.empty(), "folder '", folder.string(),
            "' has no results of kvpress (config.yaml and metrics.json)");
  return folders;
}

// Where the run was, not what it computed.
bool is_setting(const std::string& name) {
  for (const char* other : {"dataset", "data_dir", "model", "press_name", "device", "output_dir", "log_level"}) {
    if (name == other) return false;
  }
  return true;
}

std::string text_of(const YAML::Node& node) {
  if (node.IsScalar()) return node.Scalar();
  if (node.IsNull()) return "";
  YAML::Emitter text;
  text << YAML::Flow << node;
  return text.c_str();
}

ExternalRow read_config(const fs::path& file) {
  std::map<std::string, std::string> settings;
  auto map = load_yaml(file).map();
  for (const auto& [name, value] : map.entries()) settings[name] = text_of(value.node());
  for (const char* name : {"dataset", "model", "press_name"}) {
    KVC_CHECK(settings.contains(name), file.string(), ": error: no key '", name, "', which a run of kvpress has");
  }
  ExternalRow row{"kvpress", settings["dataset"], settings["model"], settings["press_name"], "", "", {}};
  const auto& folder = settings["data_dir"];
  if (!folder.empty() && folder != "null") row.item += "/" + folder;
  for (const auto& [name, value] : settings) {
    if (!is_setting(name) || value.empty() || value == "null") continue;
    row.options += (row.options.empty() ? "" : ", ") + name + " " + value;
  }
  return row;
}

void put_metrics(ExternalRows& rows, ExternalRow& row, const SortedJson& json, const std::string& path,
                 const fs::path& file) {
  if (json.is_structured()) {
    for (const auto& [name, value] : json.items())  // of a list, its numbers from 0
      put_metrics(rows, row, value, path.empty() ? name : path + "." + name, file);
  } else if (json.is_number() || json.is_null()) {
    row.column_name = path;
    row.value = json.is_null() ? std::nullopt : std::optional(json.get<double>());
    rows.put(row);
  } else {
    rows.skip(concat(file.string(), ": ", path, " is ", json.type_name(), ", no number"));
  }
}

}  // namespace

Imported import_kvpress(Database& db, const fs::path& folder) {
  KVC_CHECK(fs::is_directory(folder), "cannot read '", folder.string(), "': it is no folder of kvpress's results");
  const auto folders = result_folders(folder);
  Imported imported;
  std::map<std::string, fs::path> runs;
  const auto read = [&](ExternalRows& rows, const fs::path& one) {
    const auto file = one / "metrics.json";
    auto row = read_config(one / "config.yaml");
    const auto [first, is_new] = runs.emplace(concat(row.item, "|", row.model, "|", row.method, "|", row.options), one);
    KVC_CHECK(is_new, one.string(), ": the same dataset, model, press and settings as ", first->second.string(),
              ", whose numbers are read");
    const auto json = read_json_text(file);
    KVC_CHECK(json.is_structured(), file.string(), ": error: no JSON object of metrics");
    put_metrics(rows, row, json, "", file);
    KVC_CHECK(rows.n_seen() > 0, file.string(), ": error: there is no metric");
  };
  for (const auto& one : folders)
    import_file(
        db, [&](ExternalRows& rows) { read(rows, one); }, imported);
  return imported;
}

}  // namespace kvc
