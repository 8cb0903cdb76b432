#include <cmath>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "analysis/cell_groups.h"
#include "exchange/export.h"
#include "kvc/check.h"
#include "text/files.h"
#include "text/json.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string dump(const Json& json, int indent) { return json.dump(indent, ' ', false, Json::error_handler_t::replace); }

std::string file_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) || std::string_view("._+=-").find(c) != std::string::npos;
    if (plain) name += c;
    if (!plain && (name.empty() || name.back() != '_')) name += '_';
  }
  return name.substr(0, 120);
}

// lm-eval's names of tasks are parts of file names.
std::string task_name(const std::string& task) {
  std::string name;
  for (const char c : task) name += c == '/' ? std::string("__") : std::string(1, c);
  return name;
}

// "2026-11-21T12-26-32.123456", as lm-eval names its files.
std::string time_name(double seconds) {
  const auto whole = static_cast<std::time_t>(std::floor(seconds));
  std::tm utc{};
  gmtime_r(&whole, &utc);
  char text[64], micro[16];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H-%M-%S", &utc);
  std::snprintf(micro, sizeof micro, ".%06d", static_cast<int>((seconds - std::floor(seconds)) * 1e6));
  return std::string(text) + micro;
}

Json parsed(const std::string& text) {
  auto json = try_json<Json>(text);
  return json.is_discarded() ? Json(text) : json;
}

// The metric's name and the file's stand on one line: "<metric>,<filter>".
std::string metric_of(const Json& task) {
  const auto found = task.is_object() ? task.find("metric") : task.end();
  return found != task.end() && found->is_string() && !found->get<std::string>().empty() ? found->get<std::string>()
                                                                                         : "score";
}

struct Scores {
  int64_t n = 0;
  double sum = 0, squares = 0;
  double mean() const { return sum / static_cast<double>(n); }
  // As lm-eval's mean_stderr: the sample's standard deviation over the root of n.
  Json standard_error() const {
    if (n < 2) return "N/A";
    const double count = static_cast<double>(n);
    return std::sqrt(std::max(0.0, squares - count * mean() * mean()) / (count - 1) / count);
  }
};

class FolderWriter {
 public:
  FolderWriter(Database& db, const CellGroup& group, fs::path folder, double seconds)
      : db_(db), group_(group), seconds_(seconds), time_(time_name(seconds)) {
    made_.folder = std::move(folder);
  }

  LmEvalExport write() {
    fs::create_directories(made_.folder);
    results_ = {{"results", Json::object()},
                {"group_subtasks", Json::object()},
                {"configs", Json::object()},
                {"versions", Json::object()},
                {"n-shot", Json::object()},
                {"higher_is_better", Json::object()},
                {"n-samples", Json::object()},
                {"config", Json::object()},
                {"date", seconds_},
                {"task_hashes", Json::object()},
                {"model_source", "kvc"},
                {"model_name", name()},
                {"model_name_sanitized", made_.folder.filename().string()},
                {"chat_template", nullptr},
                {"kv_compression", Json::object()}};
    const auto settings = parsed(group_.generation_json());
    results_["config"] = {{"model", "kvc"},
                          {"model_args", {{"pretrained", group_.model_label}, {"compressor", group_.label()}}},
                          {"gen_kwargs", settings},
                          {"limit", nullptr}};
    results_["kv_compression"] = {{"method", group_.plugin},
                                  {"params", parsed(group_.options_json)},
                                  {"plugin_sha256", group_.plugin_sha256},
                                  {"tasks", Json::object()}};
    for (const auto& [task, key] : group_.cells) add_task(task, key);
    auto file = open(made_.folder / ("results_" + time_ + ".json"));
    file.write(dump(results_, 2) + '\n');
    file.commit();
    return made_;
  }

 private:
  std::string name() const { return group_.model_label + " " + group_.label(); }

  static OutputFile open(const fs::path& path) {
    KVC_CHECK(!fs::exists(path), "cannot write '", path.string(), "': it exists");
    return OutputFile(path);
  }

  void add_task(const std::string& task, const std::string& key) {
    auto cell =
        db_.prepare("SELECT json_patch(task_json, scoring_json), n_samples, generation_json FROM cell WHERE key = ?");
    cell.bind(1, key);
    KVC_CHECK(cell.step(), "cell '", key, "' is gone");
    const auto spec = parsed(cell.text(0));
    const auto metric = metric_of(spec), id = task_name(task);
    std::map<std::string, Scores> scores;
    const auto n_before = made_.n_samples;
    auto file = open(made_.folder / ("samples_" + id + "_" + time_ + ".jsonl"));
    write_samples(file, key, metric, parsed(cell.text(2)), scores);
    file.commit();
    Json result = {{"alias", task}};
    for (const auto& [filter, sums] : scores) {
      result[metric + "," + filter] = sums.mean();
      result[metric + "_stderr," + filter] = sums.standard_error();
    }
    result["sample_len"] = made_.n_samples - n_before;
    results_["results"][id] = result;
    results_["group_subtasks"][id] = Json::array();
    results_["configs"][id] = {{"task", id}, {"task_alias", task}, {"metadata", spec}};
    results_["versions"][id] = sha256_hex(cell.text(0)).substr(0, 8);
    results_["higher_is_better"][id] = {{metric, true}};
    results_["n-samples"][id] = {{"original", cell.integer(1)}, {"effective", made_.n_samples - n_before}};
    results_["task_hashes"][id] = sha256_hex(cell.text(0));
    results_["kv_compression"]["tasks"][id] = compression_of(key);
    ++made_.n_tasks;
  }

  Json compression_of(const std::string& key) {
    Json json = {{"cell", key}};
    auto sums = db_.prepare(
        "SELECT sum(kv_bytes), sum(kv_bytes_fp16), sum(paper_bytes), max(peak_weights_bytes), max(peak_kv_bytes),"
        " max(peak_workspace_bytes), sum(prefill_seconds), sum(encode_seconds), sum(attend_seconds), sum(other_seconds)"
        " FROM sample WHERE cell_key = ? AND status = 'ok'");
    sums.bind(1, key);
    sums.step();
    const char* names[] = {"kv_bytes",       "kv_bytes_fp16",        "paper_bytes",     "peak_weights_bytes",
                           "peak_kv_bytes",  "peak_workspace_bytes", "prefill_seconds", "encode_seconds",
                           "attend_seconds", "other_seconds"};
    for (int i = 0; i < 10; ++i) {
      if (sums.is_null(i)) {
        json[names[i]] = nullptr;
      } else if (i < 6 && i != 2) {
        json[names[i]] = sums.integer(i);
      } else {
        json[names[i]] = sums.real(i);
      }
    }
    auto kinds = db_.prepare("SELECT tensor || '/' || kind, sum(bytes) FROM kv_bytes WHERE cell_key = ? GROUP BY 1");
    json["bytes_by_component"] = Json::object();
    for (kinds.bind(1, key); kinds.step();) json["bytes_by_component"][kinds.text(0)] = kinds.integer(1);
    return json;
  }

  // One line a sample and filter, as lm-eval writes them.
  void write_samples(OutputFile& file, const std::string& key, const std::string& metric, const Json& settings,
                     std::map<std::string, Scores>& scores) {
    auto failed = db_.prepare("SELECT count(*) FROM sample WHERE cell_key = ? AND status <> 'ok'");
    failed.bind(1, key);
    failed.step();
    made_.n_left_out += failed.integer(0);
    auto select = db_.prepare(
        "SELECT s.sample, s.gold, s.generation, text.body, s.kv_bytes, s.kv_bytes_fp16, s.n_prompt_tokens, "
        "s.n_new_tokens,"
        " s.stop_reason, s.n_prompt_tokens_before > s.n_prompt_tokens, score.extractor, score.answer, score.value"
        " FROM sample AS s JOIN text ON text.sha256 = s.prompt_sha256"
        " JOIN score ON score.cell_key = s.cell_key AND score.sample = s.sample"
        " WHERE s.cell_key = ? AND s.status = 'ok' ORDER BY s.sample, score.position");
    int64_t last = -1;
    for (select.bind(1, key); select.step();) {
      file.write(dump(line_of(select, metric, settings), -1) + '\n');
      auto& sums = scores[select.text(10)];
      const double value = select.real(12);
      ++sums.n;
      sums.sum += value;
      sums.squares += value * value;
      if (select.integer(0) != last) ++made_.n_samples;
      last = select.integer(0);
    }
  }

  static Json line_of(const Statement& row, const std::string& metric, const Json& settings) {
    const Json document = {{"sample", row.integer(0)}, {"gold", row.text(1)}};
    const auto prompt = row.text(3);
    Json line = {{"doc_id", row.integer(0)}, {"doc", document}, {"target", row.text(1)}};
    line["arguments"] = {{"gen_args_0", {{"arg_0", prompt}, {"arg_1", settings}}}};
    line["resps"] = Json::array({Json::array({row.text(2)})});
    line["filtered_resps"] = Json::array({row.is_null(11) ? "[invalid]" : row.text(11)});
    line["filter"] = row.text(10);
    line["metrics"] = Json::array({metric});
    line["doc_hash"] = sha256_hex(dump(document, -1));
    line["prompt_hash"] = sha256_hex(prompt);
    line["target_hash"] = sha256_hex(row.text(1));
    line[metric] = row.real(12);
    line["kv_bytes"] = row.integer(4);
    line["kv_bytes_fp16"] = row.integer(5);
    line["n_prompt_tokens"] = row.integer(6);
    line["n_gen_tokens"] = row.integer(7);
    line["stop_reason"] = row.text(8);
    line["truncated"] = row.integer(9) != 0;
    return line;
  }

  Database& db_;
  const CellGroup& group_;
  double seconds_;
  std::string time_;
  LmEvalExport made_;
  Json results_;
};

}  // namespace

std::vector<LmEvalExport> export_lm_eval(Database& db, const std::string& experiment, const fs::path& out,
                                         double seconds) {
  std::vector<std::string> notes;
  const auto groups = read_groups(db, {experiment, "", {}, true}, notes);
  std::set<std::string> taken;
  std::vector<LmEvalExport> made;
  for (const auto& group : groups) {
    auto name = file_name(group.model_label + "__" + group.label());
    if (!taken.insert(name).second) name += "__" + group.cells.begin()->second.substr(0, 12);
    taken.insert(name);
    made.push_back(FolderWriter(db, group, out / name, seconds).write());
  }
  return made;
}

}  // namespace kvc
