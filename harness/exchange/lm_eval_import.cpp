#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "exchange/external_rows.h"
#include "kvc/check.h"
#include "text/files.h"
#include "text/json.h"
#include "text/jsonl.h"
#include "text/message.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using SortedJson = nlohmann::json;

constexpr double kSameValue = 1e-9;  // relative, beyond 1

bool is_samples(const fs::path& path) {
  return path.filename().string().starts_with("samples_") && path.extension() == ".jsonl";
}

std::string results_name(const std::string& time) { return concat("results_", time, ".json"); }

std::vector<fs::path> result_files(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    const auto name = entry.path().filename().string();
    const bool is_results = name.starts_with("results_") && name.ends_with(".json");
    if (entry.is_regular_file() && (is_results || is_samples(entry.path()))) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::stable_partition(files.begin(), files.end(), is_samples);  // first, as their means are preferred
  KVC_CHECK(!files.empty(), "folder '", path.string(), "' has no results_*.json and no samples_*.jsonl of lm-eval");
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

// What a results file says of the model.
ExternalRow row_of(const SortedJson& json, const fs::path& path) {
  const auto config = json.value("config", SortedJson::object());
  ExternalRow row{"lm-eval",
                  path.filename().string(),
                  member(json, "model_name"),
                  member(config, "model"),
                  arguments_of(config),
                  "",
                  {}};
  if (json.contains("kv_compression")) row.method = member(json["kv_compression"], "method");
  return row;
}

// Of the values of one metric.
struct Mean {
  void add(double value) { ++n, sum += value, squares += value * value; }
  double value() const { return sum / static_cast<double>(n); }
  double standard_error() const {
    const double variance = std::max(0.0, squares / static_cast<double>(n) - value() * value());
    return std::sqrt(variance / static_cast<double>(std::max<int64_t>(1, n - 1)));
  }
  int64_t n = 0;
  double sum = 0, squares = 0;
};

// By metric and filter: what a line names as its metrics, or, of an lm-eval that does not, all its numbers.
using Means = std::map<std::string, Mean>;
void add_sample(const SortedJson& sample, const std::string& where, Means& means) {
  KVC_CHECK(sample.is_object() && sample.contains("doc_id"), where,
            ": error: no sample of lm-eval: it is no object with a 'doc_id'");
  const auto filter = sample.contains("filter") ? text_of(sample["filter"]) : "none";
  const auto names = sample.find("metrics");
  for (const auto& [name, value] : sample.items()) {
    const bool is_number = value.is_number() || value.is_boolean();
    const bool is_metric = names != sample.end() && names->is_array()
                               ? std::find(names->begin(), names->end(), name) != names->end()
                               : name != "doc_id";
    if (is_number && is_metric) {
      means[concat(name, ",", filter)].add(value.is_boolean() ? value.get<bool>() : value.get<double>());
    }
  }
}

// "samples_gsm8k_2024-05-01T10-00-00.json" -> the task and the time behind it, which may be missing
std::pair<std::string, std::string> task_and_time(const fs::path& path) {
  const auto stem = path.stem().string().substr(std::string("samples_").size());
  const auto last = stem.rfind('_');
  const bool has_time = last != std::string::npos && stem.find('T', last) != std::string::npos &&
                        std::isdigit(static_cast<unsigned char>(stem[last + 1]));
  if (!has_time) return {stem, ""};
  return {stem.substr(0, last), stem.substr(last + 1)};
}

// The results file of the same time says which model it was; without one its folder's name does.
ExternalRow row_of_samples(const fs::path& path, const std::string& time) {
  const auto results = path.parent_path() / results_name(time);
  ExternalRow row;
  if (fs::is_regular_file(results)) row = row_of(read_json(results), results);
  row.source = "lm-eval", row.item = path.filename().string();
  if (row.model.empty()) row.model = fs::absolute(path).parent_path().filename().string();
  return row;
}

// Whether two rows are one measurement: a task's number and the mean of its samples. Where an aggregate is no mean (a
// perplexity), the two differ, and both stand.
bool is_one(ExternalRows& rows, const ExternalRow& row, const std::string& other_item) {
  auto other = row;
  other.item = other_item;
  const auto value = rows.value_of(other);
  return value && std::abs(*value - *row.value) <= kSameValue * std::max(1.0, std::abs(*value));
}

void put_samples(ExternalRows& rows, const fs::path& path, const OnBytes& on_bytes) {
  const auto [task, time] = task_and_time(path);
  auto row = row_of_samples(path, time);
  Means means;
  read_jsonl(
      path,
      [&](int64_t line, const SortedJson& sample) { add_sample(sample, concat(path.string(), ":", line), means); },
      [&](int64_t n_bytes) {
        if (on_bytes) on_bytes(path, n_bytes);
      });
  KVC_CHECK(!means.empty(), path.string(), ": error: no sample of lm-eval has a metric");
  for (const auto& [metric, mean] : means) {
    row.column_name = concat(task, " ", metric);
    row.value = mean.value();
    row.note = concat("mean of ", mean.n, " samples, stderr ", mean.standard_error());
    rows.put(row);
    auto of_task = row;
    of_task.item = results_name(time);
    if (is_one(rows, row, of_task.item)) rows.leave_out(of_task);
  }
}

void put_file(ExternalRows& rows, const fs::path& path) {
  const auto json = read_json(path);
  KVC_CHECK(json.is_object() && json.contains("results") && json["results"].is_object(), path.string(),
            ": error: no results of lm-eval: it has no object 'results'");
  auto row = row_of(json, path);
  const auto stem = path.stem().string();
  const auto time = stem.substr(std::min(stem.size(), std::string("results_").size()));
  for (const auto& [task, metrics] : json["results"].items()) {
    KVC_CHECK(metrics.is_object(), path.string(), ": error: results.", in_one_line(task), " is no object");
    for (const auto& [name, value] : metrics.items()) {
      const auto comma = name.find(',');
      if (comma == std::string::npos || !value.is_number() || name.substr(0, comma).ends_with("_stderr")) continue;
      row.column_name = concat(task, " ", name);
      row.value = value.get<double>();
      const auto error = metrics.find(name.substr(0, comma) + "_stderr" + name.substr(comma));
      row.note = error != metrics.end() && error->is_number() ? concat("stderr ", error->get<double>()) : "";
      const bool is_said = is_one(rows, row, concat("samples_", task, "_", time, ".jsonl"));
      is_said ? rows.leave_out(row) : rows.put(row);
    }
  }
}

}  // namespace

Imported import_lm_eval(Database& db, const fs::path& path, const OnBytes& on_bytes) {
  KVC_CHECK(fs::exists(path), "cannot read '", path.string(), "': there is no such file or folder");
  const auto files = result_files(path);
  Imported imported;
  for (const auto& file : files) {
    import_file(
        db, [&](ExternalRows& rows) { is_samples(file) ? put_samples(rows, file, on_bytes) : put_file(rows, file); },
        imported);
  }
  return imported;
}

}  // namespace kvc
