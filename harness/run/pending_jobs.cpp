#include "run/pending_jobs.h"

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
        if (grid.cells[c].task != task) continue;
        if (finished[c].contains(grid.tasks[task].data.samples[sample].id)) {
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

}  // namespace kvc
