#include "run/predict_bench.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "run/progress.h"

namespace kvc {
namespace {

// Above this share of what a cache stands for, LibTorch's operators do what kernels would: their instructions are not
// known.
constexpr double kMostByOperators = 0.5;

struct Predicted {
  std::vector<HeldBytes> read;  // a step of the whole batch
  double bytes = 0;
  int64_t n_launches = 0;
  LeastTime time;
};

// Each sequence has its own K and V; what is shared is read once a layer.
double times_read(const HeldBytes& row, int64_t batch) {
  return row.tensor == "shared" ? 1 : static_cast<double>(batch);
}

Predicted predict(const StepCount& step, const Gpu& gpu, int64_t batch) {
  Predicted found;
  for (auto row : step.held) {
    row.bytes = static_cast<int64_t>(times_read(row, batch) * static_cast<double>(row.bytes));
    found.bytes += static_cast<double>(row.bytes);
    found.read.push_back(row);
  }
  std::vector<KernelCounts> kernels;
  for (const auto& kernel : step.kernels) {
    const auto times = static_cast<double>(batch);
    kernels.push_back({kernel.kernel, times * kernel.multiply_adds, times * kernel.products});
    found.n_launches += kernel.launches;
  }
  const bool is_known = !kernels.empty() && step.operator_share <= kMostByOperators;
  found.time = least_time(gpu, found.bytes, is_known ? instructions_of(kernels, gpu.architecture) : std::nullopt);
  return found;
}

// The bytes of a tensor, or of one kind of it.
double bytes_of(const Predicted& predicted, const std::string& tensor, const std::string& kind = "") {
  double sum = 0;
  for (const auto& row : predicted.read) {
    if (row.tensor == tensor && (kind.empty() || row.kind == kind)) sum += static_cast<double>(row.bytes);
  }
  return sum;
}

std::string bound_of(const LeastTime& time) {
  if (!time.by_issuing) return "bytes, as far as known";
  return time.is_bound_by_bytes() ? "bytes" : "instructions";
}

class Prediction {
 public:
  Prediction(const BenchExperiment& experiment, size_t n_points, const Gpu& gpu, bool by_kind)
      : experiment_(experiment), n_points_(n_points), gpu_(gpu), by_kind_(by_kind) {
    watch_.keep_on = [this] { return show(), true; };
  }

  void add(const BenchCell& cell) {
    const auto& point = experiment_.points[cell.item];
    doing_ = concat(cell.record.plugin, " (", cell.record.options_label, "), ", point.n_prompt_tokens, " tokens");
    show();
    const auto& step = count(cell, point.n_prompt_tokens);
    rows_.push_back({&cell, &point, predict(step, gpu_, point.batch)});
    for (const auto& row : step.held) {
      if (by_kind_) kinds_.emplace(row.tensor, row.kind);
    }
    n_layers_ = step.n_layers, n_filled_ = std::max(n_filled_, step.n_filled);
  }

  Table table() const {
    Table table;
    table.title = concat("predicted, not measured: one decode step's attention on ", gpu_.name);
    table.columns = {{"compressor", kLeft, "", -1, kMain},
                     {"options"},
                     {"prompt", kRight, "tokens"},
                     {"batch", kRight},
                     {"K", kRight, "MB", 2},
                     {"V", kRight, "MB", 2},
                     {"shared", kRight, "MB", 2, kDetail},
                     {"launches per sequence", kRight, "", -1, kDetail},
                     {"predicted by bytes", kRight, "ms", 4},
                     {"predicted by instructions", kRight, "ms", 4},
                     {"predicted", kRight, "ms", 4, kMain},
                     {"bound by"},
                     {"predicted over lossless", kRight, "x", 2, kMain}};
    for (const auto& [tensor, kind] : kinds_) {
      table.columns.push_back({concat(tensor, " ", kind), kRight, "bytes", -1, kDetail});
    }
    for (const auto& row : rows_) table.rows.push_back(cells_of(row));
    table.notes = notes();
    return table;
  }

 private:
  static constexpr auto kLeft = TableColumn::Align::kLeft, kRight = TableColumn::Align::kRight;
  static constexpr auto kUsual = TableColumn::Rank::kUsual, kMain = TableColumn::Rank::kMain,
                        kDetail = TableColumn::Rank::kDetail;

  struct Row {
    const BenchCell* cell;
    const BenchPoint* point;
    Predicted predicted;
  };

  void show() {
    const auto n_done = static_cast<int64_t>(rows_.size()), n_total = static_cast<int64_t>(n_points_);
    const auto left = left_by_count(n_done, n_total, progress_.seconds_so_far());
    progress_.show({.n_done = n_done, .n_total = n_total, .unit = "points", .seconds_left = left, .doing = doing_});
  }

  // Of a compressor at a length: every batch has the same.
  const StepCount& count(const BenchCell& cell, int64_t n_tokens) {
    const auto key = std::pair(cell.compressor, n_tokens);
    if (const auto found = counts_.find(key); found != counts_.end()) return found->second;
    if (!child_ || compressor_ != cell.compressor) {
      auto set_up = cell.set_up;
      set_up.counts = true;
      child_.emplace(set_up, watch_);
      compressor_ = cell.compressor;
    }
    try {
      return counts_[key] = child_->count(n_tokens);
    } catch (const Error& e) {
      throw Error(concat(doing_, ": ", e.what()));
    }
  }

  // Of the first lossless compressor at the same point.
  const Row* lossless_beside(const Row& row) const {
    const auto found = std::ranges::find_if(
        rows_, [&](const Row& other) { return !other.cell->record.lossy && other.point == row.point; });
    return found == rows_.end() ? nullptr : &*found;
  }

  std::vector<TableCell> cells_of(const Row& row) const {
    const auto& record = row.cell->record;
    const auto& time = row.predicted.time;
    const auto milliseconds = [](double seconds) { return TableCell(1e3 * seconds); };
    const auto megabytes = [&](const char* tensor) { return TableCell(bytes_of(row.predicted, tensor) / 1e6); };
    const auto* lossless = lossless_beside(row);
    std::vector<TableCell> cells = {
        record.plugin,
        record.options_label,
        row.point->n_prompt_tokens,
        row.point->batch,
        megabytes("k"),
        megabytes("v"),
        megabytes("shared"),
        row.predicted.n_launches,
        milliseconds(time.by_bytes),
        time.by_issuing ? milliseconds(*time.by_issuing) : TableCell("not known"),
        milliseconds(time.least()),
        bound_of(time),
        lossless ? TableCell(lossless->predicted.time.least() / time.least()) : TableCell()};
    for (const auto& [tensor, kind] : kinds_) {
      cells.emplace_back(static_cast<int64_t>(bytes_of(row.predicted, tensor, kind)));
    }
    return cells;
  }

  std::vector<std::string> notes() const {
    return {
        concat(gpu_.name, ": ", gpu_.gb_a_second, " GB/s, ", gpu_.multiprocessors, " multiprocessors at ", gpu_.ghz,
               " GHz, four instructions a clock each, code for ", gpu_.architecture,
               ". No GPU was used; latency, launches and the time between kernels are not included."),
        concat("Bytes are those of caches filled with drawn tokens, ", n_filled_, " of ", n_layers_,
               " layers and one sequence, times layers and batch; instructions those of the kernels that attended to "
               "them on the emulated device, of their loops' shortest turns.")};
  }

  const BenchExperiment& experiment_;
  size_t n_points_;
  const Gpu& gpu_;
  bool by_kind_;
  Progress progress_;
  std::string doing_;
  BenchWatch watch_;
  std::optional<BenchChild> child_;
  size_t compressor_ = 0;
  std::map<std::pair<size_t, int64_t>, StepCount> counts_;
  std::set<std::pair<std::string, std::string>> kinds_;
  std::vector<Row> rows_;
  int64_t n_layers_ = 1, n_filled_ = 1;
};

}  // namespace

Table predict_bench(const BenchExperiment& experiment, const std::vector<BenchCell>& cells, const Gpu& gpu,
                    bool by_kind) {
  Prediction prediction(experiment, cells.size(), gpu, by_kind);
  for (const auto& cell : cells) prediction.add(cell);
  return prediction.table();
}

}  // namespace kvc
