#include "check/budget.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "check/check_results.h"
#include "check/engine_flags.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "experiment/bench_experiment.h"
#include "kvc/check.h"
#include "model_lookup/model_path.h"
#include "render/numbers.h"
#include "run/run_experiment.h"
#include "stats/clustered.h"
#include "text/temporary_folder.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlock = 16;  // tokens that are resampled together

// The bytes of weights on disk, as engines load them.
double weights_bytes(const fs::path& model) {
  if (fs::is_regular_file(model)) return static_cast<double>(fs::file_size(model));
  double sum = 0;
  for (const auto& entry : fs::directory_iterator(model)) {
    if (entry.path().extension() == ".safetensors") sum += static_cast<double>(entry.file_size());
  }
  return sum;
}

// Log probabilities of one window's tokens, and the ids that were read.
struct Window {
  at::Tensor log_p;  // [n, V] fp32
  at::Tensor ids;
};

Window read_window(const fs::path& file) {
  const SafetensorsFile dump(file);
  return {dump.tensor("logits_held").to(at::kFloat).log_softmax(-1), dump.tensor("answer")};
}

// One model: its experiment, which probes every compressor and dumps its logits.
class BudgetModel {
 public:
  BudgetModel(const BudgetArguments& arguments, const std::string& model, const std::string& name, const fs::path& dump)
      : paths_(find_paths()) {
    const auto file = experiment_file(paths_, arguments.config);
    auto settings = engine_settings(arguments.as, paths_.root);
    settings.insert(settings.end(), arguments.settings.begin(), arguments.settings.end());
    experiment_ = load_for_model(file, std::move(settings), model, name, arguments.texts);
    experiment_.allow_plugins = arguments.allow_plugins;
    experiment_.kind = RunKind::probe;
    experiment_.probe.measures = {"kl"};
    experiment_.dump = dump / name;
    place_model(experiment_);
    weights_bytes_ = weights_bytes(experiment_.model_path);
    config_ = load_model_config(experiment_.model_path);
    KVC_CHECK(arguments.context <= config_.max_position_embeddings, "--context ", arguments.context,
              ": the context of ", model, " has ", config_.max_position_embeddings, " tokens");
    auto check = load_check_settings(file);
    check.n_lengths = 1;
    const int64_t longest = std::min(check.context, config_.max_position_embeddings);
    make_texts(experiment_, paths_);
    choose_tasks(check, longest, experiment_.model_path, paths_, experiment_);
    std::erase_if(experiment_.tasks, [&](const auto& task) { return !experiment_.windows.contains(task); });
  }

  double weights() const { return weights_bytes_; }

  // -> the signal that ended it early, or 0
  int run() {
    grid_ = expand_grid(experiment_, paths_);
    KVC_CHECK(grid_.left_out.empty(), grid_.left_out.front());
    fs::create_directories(experiment_.dump);
    auto store = open_store(fs::path(experiment_.dump) / "probes.sqlite");
    const auto ran = run_grid(grid_, experiment_, store);
    KVC_CHECK(ran.n_failed == 0, experiment_.model_name, ": ", ran.n_failed,
              " samples failed: ", store.database().text("SELECT error FROM sample WHERE status = 'failed' LIMIT 1"));
    return ran.signal;
  }

  size_t n_compressors() const { return grid_.worker.compressors.size(); }
  size_t baseline() const { return baseline_of(grid_); }
  std::string compressor(size_t i) const { return name_of(grid_.cells.at(i).record); }
  std::string name() const { return experiment_.model_name; }
  size_t n_windows() const { return grid_.tasks.front().data.samples.size(); }
  Window window(size_t sample, size_t compressor) const {
    const auto prefix = dump_prefix(experiment_, grid_.tasks.front().spec.name, static_cast<int64_t>(sample));
    return read_window(concat(prefix.string(), "-", compressor, ".safetensors"));
  }

  std::vector<double> kv_bytes(int64_t context) const {
    return measured_kv_bytes(grid_.worker.compressors, config_.shape(), context);
  }

 private:
  const Paths paths_;
  Experiment experiment_;
  ModelConfig config_;
  Grid grid_;
  double weights_bytes_ = 0;
};

// KL(reference || other) of each token, in blocks.
Cluster divergence(const Window& reference, const Window& other, const std::string& name) {
  KVC_CHECK(at::equal(reference.ids, other.ids) && reference.log_p.sizes() == other.log_p.sizes(), name,
            ": its tokenizer or vocabulary is another than the reference's: expected files of one model");
  const auto p = reference.log_p.to(at::kDouble);
  const auto kl = (p.exp() * (p - other.log_p.to(at::kDouble))).sum(-1);
  Cluster cluster;
  for (int64_t t = 0; t < kl.size(0); t += kBlock) {
    const int64_t n = std::min(kBlock, kl.size(0) - t);
    cluster.values.push_back(kl.narrow(0, t, n).sum().item<double>());
    cluster.weights.push_back(static_cast<double>(n));
  }
  return cluster;
}

void add_rows(const BudgetModel& model, const std::vector<Window>& reference, bool is_reference, BudgetReport& report) {
  const auto kv_bytes = model.kv_bytes(report.context);
  for (size_t i = 0; i < model.n_compressors(); ++i) {
    std::vector<Cluster> clusters;
    for (size_t w = 0; w < reference.size(); ++w) {
      clusters.push_back(divergence(reference[w], model.window(w, i), model.name()));
    }
    auto& row = report.rows.emplace_back();
    row.model = model.name();
    row.compressor = model.compressor(i);
    row.weights_bytes = model.weights();
    row.kv_bytes = kv_bytes[i];
    row.kl = clustered_mean(clusters);
    row.is_reference = is_reference && i == model.baseline();
    row.interval = interval_of_texts(clusters, {0, kUnbounded});
  }
}

}  // namespace

BudgetReport find_budget(const BudgetArguments& arguments) {
  BudgetReport report;
  report.memory_bytes = static_cast<double>(parse_bytes(arguments.memory));
  KVC_CHECK(report.memory_bytes > 0, "--memory '", arguments.memory, "': expected a size such as 6GiB or 500MB");
  report.context = arguments.context;
  TemporaryFolder folder;
  std::vector<std::unique_ptr<BudgetModel>> models;
  for (size_t m = 0; m < arguments.models.size(); ++m) {
    models.push_back(
        std::make_unique<BudgetModel>(arguments, arguments.models[m], concat("budget-", m), folder.path()));
  }
  std::ranges::stable_sort(models, [](const auto& a, const auto& b) { return a->weights() > b->weights(); });
  std::vector<Window> reference;
  for (const auto& model : models) {
    report.signal = model->run();
    if (report.signal != 0) return report;
    const bool is_first = reference.empty();
    if (is_first) {
      for (size_t w = 0; w < model->n_windows(); ++w) reference.push_back(model->window(w, model->baseline()));
      report.n_windows = static_cast<int64_t>(reference.size());
      for (const auto& window : reference) report.n_tokens += window.log_p.size(0);
    }
    KVC_CHECK(model->n_windows() == reference.size(), model->name(),
              ": its tokenizer is another than the reference's: expected files of one model");
    add_rows(*model, reference, is_first, report);
  }
  KVC_CHECK(report.rows.size() > 1, "budget: one model with one cache type leaves no choice");
  rank_budget(report);
  return report;
}

void rank_budget(BudgetReport& report) {
  std::ranges::stable_sort(report.rows, [](const auto& a, const auto& b) { return a.bytes() < b.bytes(); });
  double best = std::numeric_limits<double>::infinity();
  report.recommended = -1;
  for (size_t i = 0; i < report.rows.size(); ++i) {
    auto& row = report.rows[i];
    row.fits = row.bytes() <= report.memory_bytes;
    row.is_on_front = row.kl < best;
    best = std::min(best, row.kl);
    if (row.fits && row.is_on_front) report.recommended = static_cast<int64_t>(i);
  }
}

Table budget_table(const BudgetReport& report) {
  using enum TableColumn::Align;
  constexpr double kMiB = 1024.0 * 1024.0;
  Table table;
  table.title = concat("Weights and KV cache of ", report.context, " tokens within ",
                       rounded(report.memory_bytes / kMiB, 0), " MiB");
  table.columns = {{"weights"},
                   {"cache"},
                   {"weights", kRight, "MiB", 1},
                   {concat("KV at ", report.context, " tokens"), kRight, "MiB", 1},
                   {"sum", kRight, "MiB", 1},
                   {"fits"},
                   {"KL", kRight, "nats"},
                   {"low", kRight, "nats"},
                   {"high", kRight, "nats"},
                   {"Pareto front"}};
  for (const auto& row : report.rows) {
    const auto end = [&](double Interval::*bound) {
      return row.interval ? TableCell(to_digits((*row.interval).*bound, 3)) : TableCell();
    };
    table.rows.push_back({row.model, row.compressor, row.weights_bytes / kMiB, row.kv_bytes / kMiB, row.bytes() / kMiB,
                          row.fits ? "yes" : "no", to_digits(row.kl, 3), end(&Interval::low), end(&Interval::high),
                          row.is_on_front ? "yes" : ""});
  }
  if (report.recommended >= 0) {
    const auto& best = report.rows[static_cast<size_t>(report.recommended)];
    table.notes.push_back(concat("recommended: ", best.model, " with ", best.compressor, ", the lowest KL that fits"));
  } else {
    table.notes.emplace_back("nothing fits");
  }
  table.notes.push_back(concat("KL per token from ", report.n_tokens, " tokens of ", report.n_windows,
                               " windows of text; reference: the largest weights with an uncompressed cache",
                               report.rows[0].interval ? "; low, high: 95 % interval, windows and blocks resampled"
                                                       : "; fewer than 5 windows have no interval"));
  table.notes.emplace_back(
      "weights: file size; KV: measured in a filled cache; what an engine needs for its computations comes on top");
  table.notes.emplace_back("Pareto front: no smaller row loses less");
  return table;
}

}  // namespace kvc
