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
#include "text/nearest.h"
#include "text/notice.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using SortedJson = nlohmann::json;

constexpr double kSameValue = 1e-9;  // relative, beyond 1
constexpr size_t kMostNamed = 8;     // of others' files or members, in a message

std::string text_of(const SortedJson& json) {
  return json.is_string() ? json.get<std::string>() : json.is_null() ? "" : json.dump();
}

std::string member(const SortedJson& json, const char* name) {
  return json.is_object() && json.contains(name) ? text_of(json[name]) : "";
}

bool is_results(const SortedJson& json) {
  return json.is_object() && json.contains("results") && json["results"].is_object();
}
bool is_sample(const SortedJson& json) { return json.is_object() && json.contains("doc_id"); }

// "samples_x.jsonl.gz" -> "samples_x.jsonl"
std::string unpacked_name(const fs::path& path) {
  const auto name = path.filename();
  return (name.extension() == ".gz" || name.extension() == ".bz2" ? name.stem() : name).string();
}
std::string stem_of(const fs::path& path) { return fs::path(unpacked_name(path)).stem().string(); }
bool is_json(const fs::path& path) { return unpacked_name(path).ends_with(".json"); }
bool is_jsonl(const fs::path& path) { return unpacked_name(path).ends_with(".jsonl"); }

// "gsm8k_2024-05-01T10-00-00.5" -> "gsm8k" and the time; without a time all of it and "".
std::pair<std::string, std::string> split_time(const std::string& stem) {
  const auto last = stem.rfind('_');
  const bool has_time = last != std::string::npos && stem.find('T', last) != std::string::npos &&
                        std::isdigit(static_cast<unsigned char>(stem[last + 1]));
  if (!has_time) return {stem, ""};
  return {stem.substr(0, last), stem.substr(last + 1)};
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

// Of lm-eval before 0.4.3, which names no model: what its arguments load.
std::string model_in(const std::string& arguments) {
  for (const std::string name : {"pretrained=", "model=", "engine=", "path="}) {
    const auto at = ("," + arguments).find("," + name);
    if (at == std::string::npos) continue;
    const auto begin = at + name.size();
    return arguments.substr(begin, arguments.find(',', begin) - begin);
  }
  return "";
}

// lm-eval 0.4.0 to 0.4.2 call the samples of a task "<arguments, / and = as __>_<task>.jsonl", next to "results.json".
std::string samples_prefix(const SortedJson& results) {
  std::string prefix;
  for (const char c : arguments_of(results.value("config", SortedJson::object()))) {
    prefix += c == '/' || c == '=' ? std::string("__") : std::string(1, c);
  }
  return prefix + "_";
}

// What a row calls the file: its name; "results.json", which many folders have, with its folder's.
std::string item_of(const fs::path& path) {
  if (stem_of(path) != "results") return path.filename().string();
  return (fs::absolute(path).parent_path().filename() / path.filename()).string();
}

// What a results file says of the model.
ExternalRow row_of(const SortedJson& json, const fs::path& path) {
  const auto config = json.value("config", SortedJson::object());
  ExternalRow row{
      "lm-eval", item_of(path), member(json, "model_name"), member(config, "model"), arguments_of(config), "", {}};
  if (row.model.empty()) row.model = model_in(row.options);
  if (row.model.empty() && json.contains("config_general")) row.model = member(json["config_general"], "model_name");
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
  std::string note() const {
    auto text = n == 0 ? std::string() : concat("mean of ", n, " samples, stderr ", standard_error());
    if (n_null > 0) text += concat(n == 0 ? "" : ", ", n_null, " samples without a value");
    return text;
  }
  int64_t n = 0, n_null = 0, n_other = 0;  // numbers, NULL, and what is no number
  double sum = 0, squares = 0;
};

// By metric and filter: what a line names as its metrics, or, of an lm-eval that does not, all its numbers.
using Means = std::map<std::string, Mean>;
void add_sample(const SortedJson& sample, const std::string& where, Means& means) {
  KVC_CHECK(is_sample(sample), where, ": error: no sample of lm-eval: it is no object with a 'doc_id'");
  const auto filter = sample.contains("filter") ? text_of(sample["filter"]) : "none";
  const auto names = sample.find("metrics");
  const bool has_names = names != sample.end() && names->is_array();
  for (const auto& [name, value] : sample.items()) {
    const bool is_number = value.is_number() || value.is_boolean();
    const bool is_metric =
        has_names ? std::find(names->begin(), names->end(), name) != names->end() : is_number && name != "doc_id";
    if (!is_metric) continue;
    auto& mean = means[concat(name, ",", filter)];
    if (is_number) {
      mean.add(value.is_boolean() ? value.get<bool>() : value.get<double>());
    } else {
      ++(value.is_null() ? mean.n_null : mean.n_other);
    }
  }
}

// The results file of the samples' run, which says what model it was: of the same time, or that of lm-eval 0.4.0 whose
// arguments their name begins with.
struct RunOfSamples {
  std::string task, item;  // item: the results file's
  ExternalRow row;
  SortedJson metrics = SortedJson::object();  // the task's, as the results file has them
};
RunOfSamples run_of_samples(const fs::path& path) {
  const auto stem = stem_of(path);
  const bool is_named = stem.starts_with("samples_");
  auto [task, time] = split_time(is_named ? stem.substr(std::string("samples_").size()) : stem);
  RunOfSamples run{task, time.empty() ? "" : concat("results_", time, ".json"), {}};
  const auto folder = fs::absolute(path).parent_path();
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const bool may_be = time.empty() ? !is_named : split_time(stem_of(entry.path())).second == time;
    if (is_json(entry.path()) && may_be && is_file(entry.path())) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    SortedJson json;
    try {
      json = read_json_text(file);
    } catch (const Error&) {
      if (!time.empty()) throw;  // without a time it may be any file of the folder
    }
    if (!is_results(json) || (time.empty() && !stem.starts_with(samples_prefix(json)))) continue;
    run.row = row_of(json, file);
    run.item = run.row.item;
    if (time.empty()) run.task = stem.substr(samples_prefix(json).size());
    if (json["results"].contains(run.task)) run.metrics = json["results"][run.task];
    break;
  }
  run.row.source = "lm-eval", run.row.item = path.filename().string();
  if (run.row.model.empty()) run.row.model = folder.filename().string();
  return run;
}

// Whether two rows are one measurement: a task's number and the mean of its samples. Where an aggregate is no mean (a
// perplexity), the two differ, and both are stored.
bool is_one(ExternalRows& rows, const ExternalRow& row, const std::string& other_item) {
  auto other = row;
  other.item = other_item;
  const auto value = rows.value_of(other);
  return row.value && value && std::abs(*value - *row.value) <= kSameValue * std::max(1.0, std::abs(*value));
}

void put_samples(ExternalRows& rows, const fs::path& path, const OnBytes& on_bytes) {
  auto [task, results_item, row, metrics] = run_of_samples(path);
  Means means;
  read_jsonl(
      path,
      [&](int64_t line, const SortedJson& sample) { add_sample(sample, concat(path.string(), ":", line), means); },
      [&](int64_t n_bytes) {
        if (on_bytes) on_bytes(path, n_bytes);
      });
  KVC_CHECK(!means.empty(), path.string(), ": error: no sample of lm-eval has a metric");
  for (const auto& [metric, mean] : means) {
    if (mean.n_other > 0) {  // of lists lm-eval makes a perplexity, which the results file has
      const auto what = concat(path.string(), ": ", metric, " of ", mean.n_other, " samples is no number");
      metrics.contains(metric) ? notice(what + ": only the results file's value of it is read") : rows.skip(what);
    }
    if (mean.n + mean.n_null == 0) continue;
    row.column_name = concat(task, " ", metric);
    row.value = mean.n == 0 ? std::nullopt : std::optional(mean.value());
    row.note = mean.note();
    rows.put(row);
    auto of_task = row;
    of_task.item = results_item;
    if (is_one(rows, row, of_task.item)) rows.leave_out(of_task);
  }
}

// What a task's results hold besides metrics.
bool is_about_task(const std::string& name) {
  for (const char* other : {"alias", "name", "sample_len", "sample_count", "samples", " "}) {
    if (name == other) return true;
  }
  return false;
}

// "acc,none" of "acc", which lm-eval before 0.4 writes.
struct Metric {
  explicit Metric(const std::string& key)
      : name(key.substr(0, key.find(','))), filter(name.size() == key.size() ? "" : key.substr(name.size())) {}
  std::string column() const { return name + (filter.empty() ? ",none" : filter); }
  bool is_error() const { return name.ends_with("_stderr"); }
  std::string name, filter;
};

void put_task(ExternalRows& rows, ExternalRow& row, const std::string& task, const SortedJson& metrics,
              const std::string& samples_item) {
  for (const auto& [key, value] : metrics.items()) {
    const Metric metric(key);
    if (metric.is_error() || is_about_task(key)) continue;
    const bool is_null = value.is_null() || value == "N/A";
    if (!is_null && !value.is_number() && !value.is_boolean()) {
      rows.skip(concat(row.item, ": results.", task, ".", key, " is ", value.type_name(), ", no number"));
      continue;
    }
    row.column_name = concat(task, " ", metric.column());
    row.value = is_null              ? std::nullopt
                : value.is_boolean() ? std::optional<double>(value.get<bool>())
                                     : std::optional(value.get<double>());
    const auto error = metrics.find(metric.name + "_stderr" + metric.filter);
    row.note = is_null                                        ? "no number"
               : error != metrics.end() && error->is_number() ? concat("stderr ", error->get<double>())
                                                              : "";
    is_one(rows, row, samples_item) ? rows.leave_out(row) : rows.put(row);
  }
}

std::string members_of(const SortedJson& json) {
  if (!json.is_object() || json.empty()) return "";
  std::vector<std::string> names;
  for (const auto& [name, value] : json.items()) names.push_back(name);
  return in_one_line("; its members: " + some_of(names, kMostNamed));
}

void put_results(ExternalRows& rows, const fs::path& path) {
  const auto json = read_json_text(path);
  KVC_CHECK(is_results(json), path.string(), ": error: no results of lm-eval: it has no object 'results'",
            members_of(json));
  auto row = row_of(json, path);
  const auto time = split_time(stem_of(path)).second;
  auto tasks = json["results"];
  if (json.contains("groups") && json["groups"].is_object()) {
    for (const auto& [group, metrics] : json["groups"].items()) tasks.emplace(group, metrics);
  }
  for (const auto& [task, metrics] : tasks.items()) {
    KVC_CHECK(metrics.is_object(), path.string(), ": error: results.", in_one_line(task), " is no object");
    put_task(
        rows, row, task, metrics,
        time.empty() ? concat(samples_prefix(json), task, ".jsonl") : concat("samples_", task, "_", time, ".jsonl"));
  }
  KVC_CHECK(rows.n_seen() > 0, path.string(), ": error: no metric of ", tasks.size(),
            " tasks is known to be lm-eval's");
}

enum class Kind { kResults, kSamples, kOther };

// A broken file that was to be results, as far as one can see.
bool was_results(const fs::path& path) {
  try {
    return !split_time(stem_of(path)).second.empty() || read_text(path).find("\"results\"") != std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

Kind kind_of_content(const fs::path& path) {
  if (!is_json(path)) {
    try {
      SortedJson first;
      JsonLines(path).next(first);
      return is_sample(first) ? Kind::kSamples : is_results(first) ? Kind::kResults : Kind::kOther;
    } catch (const Error&) {  // one object on many lines, as results are written
    }
  }
  try {
    return is_results(read_json_text(path)) ? Kind::kResults : Kind::kOther;
  } catch (const Error&) {
    return was_results(path) ? Kind::kResults : Kind::kOther;  // reading it as results says what is wrong
  }
}

// By the name that lm-eval gives, or by what is inside.
Kind kind_of(const fs::path& path) {
  const auto name = path.filename().string();
  if (is_jsonl(path) && name.starts_with("samples_")) return Kind::kSamples;
  return is_json(path) && name.starts_with("results") ? Kind::kResults : kind_of_content(path);
}

// "; it holds a, b and 3 more"
std::string names_of(const std::vector<fs::path>& files, const fs::path& folder, const char* before) {
  std::vector<std::string> names;
  for (const auto& file : files) names.push_back(file.lexically_relative(folder).string());
  return names.empty() ? "" : in_one_line(before + some_of(names, kMostNamed));
}

struct FolderFiles {
  std::vector<fs::path> samples, results, others;
};

FolderFiles files_of(const fs::path& folder) {
  FolderFiles files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const bool may_be = is_json(entry.path()) || is_jsonl(entry.path());
    const auto kind = may_be ? kind_of(entry.path()) : Kind::kOther;
    (kind == Kind::kSamples   ? files.samples
     : kind == Kind::kResults ? files.results
                              : files.others)
        .push_back(entry.path());
  }
  for (auto* list : {&files.samples, &files.results, &files.others}) std::sort(list->begin(), list->end());
  return files;
}

}  // namespace

Imported import_lm_eval(Database& db, const fs::path& path, const OnBytes& on_bytes) {
  KVC_CHECK(fs::exists(path), "cannot read '", path.string(), "': there is no such file or folder");
  FolderFiles files;
  if (fs::is_directory(path)) {
    files = files_of(path);
    KVC_CHECK(!files.samples.empty() || !files.results.empty(), "folder '", path.string(),
              "' has no results_*.json and no samples_*.jsonl of lm-eval", names_of(files.others, path, "; it holds "));
  } else {
    (kind_of(path) == Kind::kSamples ? files.samples : files.results).push_back(path);
  }
  Imported imported;
  for (const auto& file : files.samples) {  // first, as their means are preferred
    import_file(
        db, [&](ExternalRows& rows) { put_samples(rows, file, on_bytes); }, imported);
  }
  for (const auto& file : files.results) {
    import_file(
        db, [&](ExternalRows& rows) { put_results(rows, file); }, imported);
  }
  const auto others = names_of(files.others, path, ": no results of lm-eval, not read: ");
  if (!others.empty()) notice(path.string() + others);
  return imported;
}

}  // namespace kvc
