#include "check/check_model.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "check/check_results.h"
#include "checkpoint/model_config.h"
#include "compressors/build_compressor.h"
#include "compressors/plan_memory.h"
#include "experiment/open_compressor.h"
#include "experiment/task_names.h"
#include "fetch/data_sources.h"
#include "fetch/make_data.h"
#include "kvc/check.h"
#include "models/model_path.h"
#include "report/report.h"
#include "run/run_experiment.h"
#include "text/files.h"
#include "text/hash_cache.h"
#include "wire/forked_child.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using enum TableColumn::Align;

// "models/demo" -> "demo", "hf:org/name@main" -> "name_main"
std::string short_name(const std::string& model) {
  auto name = fs::path(model).lexically_normal().string();
  while (name.ends_with('/')) name.pop_back();
  name = fs::path(name).filename().string();
  for (char& c : name) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
    if (!is_plain) c = '_';
  }
  return name;
}

std::string with_interval(const Estimate& estimate, const char* format, double scale) {
  char text[96];
  const std::string all = concat(format, " [", format, ", ", format, "]");
  std::snprintf(text, sizeof text, all.c_str(), scale * estimate.value, scale * estimate.interval.low,
                scale * estimate.interval.high);
  return text;
}

std::string kl_text(const LikelihoodStretch& of) { return of.n_blocks ? with_interval(of.kl, "%.3g", 1) : ""; }
std::string top1_text(const LikelihoodStretch& of) { return of.n_blocks ? with_interval(of.top1, "%.1f", 100) : ""; }
std::string passkey_text(const PasskeyResult& of) { return of.n ? concat(of.n_right, " of ", of.n) : ""; }

class ModelCheck {
 public:
  explicit ModelCheck(const CheckModelArguments& arguments)
      : a_(arguments), paths_(find_paths()), file_(below_root(paths_, arguments.config)) {
    settings_ = load_check_settings(file_);
    read_experiment();
  }

  CheckOutcome run() {
    choose_context();
    make_texts();
    choose_tasks(settings_, context_, experiment_.model_path, paths_, experiment_);
    const auto grid = expand_grid(experiment_, paths_);
    KVC_CHECK(grid.left_out.empty(), grid.left_out.front());
    baseline_of(grid);  // or says that there is none, before anything runs
    const auto database = database_of(a_.database, "", experiment_.name);
    auto store = open_store(database);
    announce(grid, database);
    auto outcome = run_grid(grid, experiment_, store);
    if (outcome.signal) return {database, outcome.signal};
    const auto keys = probe_keys(grid, store, outcome);
    if (outcome.signal) return {database, outcome.signal};
    auto presets = check_results(grid, settings_, store.database());
    measure_bytes(grid, presets);
    show(grid, presets, keys, store);
    return {database, 0, outcome.n_failed};
  }

 private:
  void read_experiment() {
    std::vector<std::string> settings;
    if (a_.quick) settings.push_back(concat("limit=", settings_.quick_limit));
    settings.insert(settings.end(), a_.settings.begin(), a_.settings.end());
    settings.push_back("model=" + nlohmann::json(a_.model).dump());
    settings.push_back("name=" + nlohmann::json("check-" + short_name(a_.model)).dump());
    experiment_ = load_experiment(file_, settings);
    experiment_.allow_plugins = a_.allow_plugins;
    if (!a_.text.empty()) experiment_.text = fs::absolute(a_.text);
    if (a_.quick) settings_.n_lengths = settings_.quick_n_lengths;
  }

  void choose_context() {
    place_model(experiment_);
    config_ = load_model_config(experiment_.model_path);
    const int64_t most = config_.max_position_embeddings;
    KVC_CHECK(a_.context <= most, "--context ", a_.context, ": the model's context has ", most, " tokens");
    context_ = a_.context > 0 ? a_.context : std::min(settings_.context, most);
  }

  // Texts that a program of this machine can print.
  void make_texts() {
    if (!experiment_.text.empty()) return;
    const auto sources = load_data_sources(paths_.root / "tasks" / "data.yaml");
    for (const auto& name : experiment_.tasks) {
      for (const auto& file : data_files(load_task(tasks_of(name, paths_).front()))) {
        const auto source = sources.find(file);
        const bool is_there = fs::is_regular_file(data_path(file, data_folder(experiment_.data_dir)));
        if (is_there || source == sources.end() || source->second.command.empty()) continue;
        KVC_CHECK(!user_cache_folder().empty(), "there is no cache folder: set XDG_CACHE_HOME or HOME");
        try {
          make_data(source->second, user_cache_folder() / "data" / file);
        } catch (const Error& e) {
          throw EnvironmentError(concat(e.what(), "; or name a text of your own: --text FILE"));
        }
      }
    }
  }

  void announce(const Grid& grid, const std::string& database) const {
    std::fprintf(stderr, "%s: %zu compressors, %zu tasks up to %ld tokens, database %s\n", experiment_.model.c_str(),
                 grid.worker.compressors.size(), grid.tasks.size(), context_, database.c_str());
  }

  // The keys of the longest text, from a probe of the baseline, which has the model's own.
  KeyChannels probe_keys(const Grid& grid, ResultStore& store, RunOutcome& outcome) {
    auto probe = experiment_;
    probe.kind = RunKind::probe;
    probe.probe.measures = {"channel_mean_abs"};
    probe.limit = 1;
    for (const auto& task : grid.tasks) {
      if (task.spec.likelihood) probe.tasks = {task.spec.name};
    }
    probe.compressors = {experiment_.compressors[baseline_of(grid)]};
    const auto probed = expand_grid(probe, paths_);
    outcome.signal = run_grid(probed, probe, store).signal;
    return key_channels(store.database(), probed.cells.front().record.key, settings_.outlier_channel);
  }

  void measure_bytes(const Grid& grid, std::vector<PresetResult>& presets) const {
    const auto shape = config_.shape();
    const auto& compressors = grid.worker.compressors;
    std::vector<std::string> names;
    for (const auto& compressor : compressors) names.push_back(name_in_errors(compressor));
    const auto bytes = in_child(
        names,
        [&](size_t i) -> nlohmann::json {
          const auto compressor = build_compressor(compressors[i], shape).part.compressor;
          return prompt_bytes(*compressor, shape, config_.max_position_embeddings);
        },
        kSecondsToMeasure);
    for (size_t i = 0; i < presets.size(); ++i) {
      presets[i].bytes = bytes[i];
      presets[i].bytes_16bit = 4.0 * static_cast<double>(shape.n_layers * shape.n_kv_heads * shape.head_dim *
                                                         config_.max_position_embeddings);
    }
  }

  Table verdict_table(const std::vector<PresetResult>& presets, const KeyChannels& keys) const {
    constexpr double kMiB = 1024.0 * 1024.0;
    Table table;
    table.title = concat("What compressors do to ", experiment_.model, ", up to ", context_, " tokens");
    table.columns = {{"compressor"},
                     {"verdict"},
                     {concat("KV at ", config_.max_position_embeddings, " tokens"), kRight, "MiB", 2},
                     {"of 16 bits", kRight, "%", 1},
                     {"KL", kRight, "nats"},
                     {"top-1", kRight, "%"},
                     {"passkey", kRight},
                     {"decided by"}};
    for (const auto& p : presets) {
      table.rows.push_back({p.name, p.is_baseline ? "(what the others are held against)" : to_string(p.verdict),
                            p.bytes / kMiB, 100 * p.bytes / p.bytes_16bit, kl_text(p.all), top1_text(p.all),
                            passkey_text(p.passkey_all), p.is_baseline ? "" : p.reasons});
    }
    add_notes(presets, keys, table);
    return table;
  }

  void add_notes(const std::vector<PresetResult>& presets, const KeyChannels& keys, Table& table) const {
    const auto& s = settings_;
    char bounds[400];
    std::snprintf(bounds, sizeof bounds,
                  "verdict: unchanged where KL <= %g nats and top-1 >= %g %%, breaks where KL >= %g, top-1 <= %g %% or "
                  "the passkey loses %g points, with the whole 95 %% interval, over all lengths and at the longest",
                  s.kl.unchanged, 100 - 100 * s.top1.unchanged, s.kl.breaks, 100 - 100 * s.top1.breaks,
                  100 * s.passkey.breaks);
    table.notes.push_back(bounds);
    table.notes.push_back(concat(
        "KL (nats a token) and top-1 agreement against full precision on ", presets.front().all.n_tokens,
        " tokens, each read through the compressed cache behind a long prompt; brackets: BCa 95 % interval over ",
        presets.front().all.n_blocks, " blocks of tokens"));
    table.notes.push_back("passkey: questions answered right; so few can show a loss, and never that there is none");
    char facts[300];
    std::snprintf(facts, sizeof facts,
                  "keys of this model on this text: the largest channel is %.0f times its layer's median channel "
                  "(layer %ld, channel %ld); %ld of %ld channels are above %g times; K biases: %s; norms of Q and "
                  "K: %s",
                  keys.largest_ratio, keys.layer, keys.channel, keys.n_outliers, keys.n_channels, s.outlier_channel,
                  config_.qkv_bias ? "yes" : "no", config_.architecture->head_norms ? "yes" : "no");
    table.notes.push_back(facts);
    if (keys.n_outliers > 0) {
      table.notes.push_back(
          "such channels take the levels of the others where a scale spans channels of K: that is "
          "what breaks methods that quantize K by token");
    }
  }

  // A column for each length of the tasks that read texts, and for each of the others.
  Table length_table(const Grid& grid, const std::vector<PresetResult>& presets) const {
    Table table;
    table.title = "By length";
    table.columns = {{"compressor"}};
    for (const char* what : {"KL", "top-1"}) {
      for (const auto& task : grid.tasks) {
        if (!task.spec.likelihood) continue;
        table.columns.push_back({concat(what, " at ", task.spec.likelihood->tokens), kRight});
      }
    }
    for (const auto& task : grid.tasks) {
      if (!task.spec.likelihood) table.columns.push_back({task.spec.name, kRight});
    }
    for (const auto& p : presets) {
      std::vector<TableCell> row{p.name};
      for (const auto& of : p.by_length) row.emplace_back(kl_text(of));
      for (const auto& of : p.by_length) row.emplace_back(top1_text(of));
      for (const auto& task : grid.tasks) {
        if (!task.spec.likelihood) row.emplace_back(passkey_text(p.passkey.at(task.spec.name)));
      }
      table.rows.push_back(std::move(row));
    }
    return table;
  }

  void show(const Grid& grid, const std::vector<PresetResult>& presets, const KeyChannels& keys,
            ResultStore& store) const {
    const auto verdicts = verdict_table(presets, keys), lengths = length_table(grid, presets);
    std::fputs((write_markdown(verdicts) + "\n" + write_markdown(lengths)).c_str(), stdout);
    if (a_.output.empty()) return;
    ReportOptions options;
    options.experiment = experiment_.name;
    options.with_suspects = true;
    options.tables = {verdicts, lengths};
    write_file(a_.output, make_report(store.database(), options).html);
    std::fprintf(stderr, "page: %s\n", a_.output.c_str());
  }

  const CheckModelArguments& a_;
  const Paths paths_;
  const fs::path file_;
  CheckSettings settings_;
  Experiment experiment_;
  ModelConfig config_;
  int64_t context_ = 0;
};

}  // namespace

CheckOutcome check_model(const CheckModelArguments& arguments) { return ModelCheck(arguments).run(); }

}  // namespace kvc
