#include "run/pending_jobs.h"

#include <map>

namespace kvc {

std::deque<PendingJob> missing_jobs(const Grid& grid, ResultStore* store, bool fan_out, RunPlan& plan) {
  std::vector<std::set<int64_t>> finished;
  for (const auto& cell : grid.cells) {
    if (!store) {
      finished.emplace_back();
    } else if (cell.record.kind == RunKind::probe) {
      finished.push_back(store->probed_samples(cell.record.key));
    } else {
      finished.push_back(store->generated_samples(cell.record.key));
    }
  }
  std::deque<PendingJob> jobs;
  for (size_t task = 0; task < grid.tasks.size(); ++task) {
    for (size_t sample = 0; sample < grid.tasks[task].data.samples.size(); ++sample) {
      PendingJob job{task, sample, {}};
      for (size_t c = 0; c < grid.cells.size(); ++c) {
        if (grid.cells[c].task != task || !grid.cells[c].runs) continue;
        const auto id = grid.tasks[task].data.samples[sample].id;
        if (grid.cells[c].elsewhere.contains(id)) continue;
        if (finished[c].contains(id)) {
          ++plan.n_present;
        } else {
          job.compressors.push_back(grid.cells[c].compressor);
        }
      }
      plan.n_missing += static_cast<int64_t>(job.compressors.size());
      if (job.compressors.empty()) continue;
      if (fan_out) {
        jobs.push_back(std::move(job));
      } else {
        for (const int compressor : job.compressors) jobs.push_back({task, sample, {compressor}});
      }
    }
  }
  plan.n_prompts = static_cast<int64_t>(jobs.size());
  return jobs;
}

std::deque<PendingJob> missing_sizes(const Grid& grid, ResultStore& store, const std::vector<int64_t>& sizes) {
  std::map<int, std::set<int64_t>> missing;  // by compressor
  for (const auto& cell : grid.cells) {
    if (cell.record.kind != RunKind::eval || !cell.runs) continue;
    for (const int64_t n_tokens : sizes) {
      if (!store.has_size(cell.record.key, n_tokens)) missing[cell.compressor].insert(n_tokens);
    }
  }
  std::deque<PendingJob> jobs;
  for (const auto& [compressor, lengths] : missing) {
    PendingJob job{0, 0, {compressor}, true};
    job.sizes.assign(lengths.begin(), lengths.end());
    jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace kvc
