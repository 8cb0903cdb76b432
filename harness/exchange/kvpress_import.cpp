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

bool is_result(const fs::path& folder) {
  return fs::exists(folder / "config.yaml") && fs::exists(folder / "metrics.json");
}

std::vector<fs::path> result_folders(const fs::path& folder) {
  if (is_result(folder)) return {folder};
  std::vector<fs::path> folders;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
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

void put_metrics(ExternalRows& rows, ExternalRow& row, const SortedJson& json, const std::string& path) {
  if (json.is_object()) {
    for (const auto& [name, value] : json.items())
      put_metrics(rows, row, value, path.empty() ? name : path + "." + name);
  } else if (json.is_number() || json.is_null()) {
    row.column_name = path;
    row.value = json.is_null() ? std::nullopt : std::optional(json.get<double>());
    rows.put(row);
  }
}

}  // namespace

Imported import_kvpress(Database& db, const fs::path& folder) {
  KVC_CHECK(fs::is_directory(folder), "cannot read '", folder.string(), "': it is no folder of kvpress's results");
  const auto folders = result_folders(folder);
  Imported imported;
  const auto read = [](ExternalRows& rows, const fs::path& one) {
    auto row = read_config(one / "config.yaml");
    const auto file = one / "metrics.json";
    const auto text = read_file(file);
    check_json_depth(text, file.string());
    const auto json = SortedJson::parse(text, nullptr, false);
    KVC_CHECK(json.is_object(), file.string(), ": error: no JSON object of metrics");
    put_metrics(rows, row, json, "");
  };
  for (const auto& one : folders)
    import_file(
        db, [&](ExternalRows& rows) { read(rows, one); }, imported);
  return imported;
}

}  // namespace kvc
