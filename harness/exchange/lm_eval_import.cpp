#include <algorithm>
#include <nlohmann/json.hpp>

#include "exchange/external_rows.h"
#include "kvc/check.h"
#include "text/files.h"
#include "text/json.h"
#include "text/message.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using SortedJson = nlohmann::json;

std::vector<fs::path> result_files(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    const auto name = entry.path().filename().string();
    if (entry.is_regular_file() && name.starts_with("results_") && name.ends_with(".json"))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  KVC_CHECK(!files.empty(), "folder '", path.string(), "' holds no results_*.json of lm-eval");
  return files;
}

SortedJson read_json(const fs::path& path) {
  const auto text = read_file(path);
  check_json_depth(text, path.string());
  try {
    return SortedJson::parse(text);
  } catch (const SortedJson::exception& error) {
    const std::string what = error.what();
    throw Error(concat(path.string(), ": error: not JSON: ", in_one_line(what.substr(what.find("] ") + 2))));
  }
}

std::string text_of(const SortedJson& json) {
  return json.is_string() ? json.get<std::string>() : json.is_null() ? "" : json.dump();
}

// "a=1,b=x" as lm-eval takes model_args, of an object.
std::string arguments_of(const SortedJson& config) {
  if (!config.is_object() || !config.contains("model_args")) return "";
  const auto& arguments = config["model_args"];
  if (!arguments.is_object()) return text_of(arguments);
  std::string text;
  for (const auto& [name, value] : arguments.items()) text += (text.empty() ? "" : ",") + name + "=" + text_of(value);
  return text;
}

std::string member(const SortedJson& json, const char* name) {
  return json.is_object() && json.contains(name) ? text_of(json[name]) : "";
}

void put_file(ExternalRows& rows, const fs::path& path) {
  const auto json = read_json(path);
  KVC_CHECK(json.is_object() && json.contains("results") && json["results"].is_object(), path.string(),
            ": error: no results of lm-eval: it has no object 'results'");
  const auto config = json.value("config", SortedJson::object());
  ExternalRow row{"lm-eval",
                  path.filename().string(),
                  member(json, "model_name"),
                  member(config, "model"),
                  arguments_of(config),
                  "",
                  {}};
  if (json.contains("kv_compression")) row.method = member(json["kv_compression"], "method");
  for (const auto& [task, metrics] : json["results"].items()) {
    KVC_CHECK(metrics.is_object(), path.string(), ": error: results.", in_one_line(task), " is no object");
    for (const auto& [name, value] : metrics.items()) {
      const auto comma = name.find(',');
      if (comma == std::string::npos || !value.is_number() || name.substr(0, comma).ends_with("_stderr")) continue;
      row.column_name = concat(task, " ", name);
      row.value = value.get<double>();
      const auto error = metrics.find(name.substr(0, comma) + "_stderr" + name.substr(comma));
      row.note = error != metrics.end() && error->is_number() ? concat("stderr ", error->get<double>()) : "";
      rows.put(row);
    }
  }
}

}  // namespace

Imported import_lm_eval(Database& db, const fs::path& path) {
  KVC_CHECK(fs::exists(path), "cannot read '", path.string(), "': there is no such file or folder");
  const auto files = result_files(path);
  ExternalRows rows(db);
  for (const auto& file : files) put_file(rows, file);
  return rows.commit();
}

}  // namespace kvc
