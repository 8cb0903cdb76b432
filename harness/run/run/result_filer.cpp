#include "run/result_filer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "run/check_size.h"
#include "run/sample_record.h"
#include "text/message.h"

namespace kvc {

const Grid::Cell& ResultFiler::cell_of(size_t task, int compressor) const {
  return *std::find_if(grid_.cells.begin(), grid_.cells.end(),
                       [&](const auto& cell) { return cell.task == task && cell.compressor == compressor; });
}

void ResultFiler::put(const PendingJob& job, const JobResult& result) {
  if (!job.sizes.empty()) return put_sizes(job, result);
  const auto& cell = cell_of(job.task, result.compressor).record;
  const auto& task = grid_.tasks[job.task];
  const auto& sample = task.data.samples[job.sample];
  SampleRecord record;
  record.cell_key = cell.key;
  record.sample = sample.id;
  record.prompt = job.prompt.text.empty() ? render_prompt(task.spec, task.data, sample).text : job.prompt.text;
  record.gold = sample.gold;
  record.status = "ok";
  record.error = result.error();
  if (experiment_.kind == RunKind::probe) return put_probe(cell, record, result);
  try {
    if (record.error.empty()) add_result(result, job.prompt, task.spec, sample, scorer_, record);
  } catch (const Error& e) {  // an extractor's pattern ran into its limit, a scorer's dictionary is missing
    record.error = e.what();
  }
  record.scoring_json = cell.scoring_json;
  if (!record.error.empty()) report_failure(record, cell);
  if (store_.put_sample(record) == ResultStore::Put::kOtherScoring) {  // the generation stays, for the next run
    record.scores.clear();
    record.error = "another run scores the cell with other extractors; run again to score the stored generation";
    report_failure(record, cell);
    store_.put_sample(record);
  }
  ++outcome_.n_run;
  progress_.count_done();
}

bool ResultFiler::has_result(int compressor) const {
  return std::any_of(grid_.cells.begin(), grid_.cells.end(), [&](const auto& cell) {
    return cell.compressor == compressor && !store_.finished_samples(cell.record.key).empty();
  });
}

// A size that is not like the samples' has no numbers, and says why.
void ResultFiler::check_with(const std::vector<ResultStore::EncodedBytes>& samples, CacheSize& size) {
  if (!size.error.empty()) return;
  try {
    check_size(size, samples);
  } catch (const Error& e) {
    const int64_t n_tokens = size.n_tokens;
    size = {};
    size.n_tokens = n_tokens, size.error = e.what();
  }
}

// The same in every cell of the compressor. A size that failed costs itself alone; where that may have been the
// machine's fault, the same command tries it again.
void ResultFiler::put_sizes(const PendingJob& job, const JobResult& result) {
  const auto error = result.error();
  std::vector<CacheSize> sizes;
  if (const auto* measured = std::get_if<SizesResult>(&result.answer)) {
    sizes = measured->sizes;
  } else {
    for (const int64_t n_tokens : job.sizes) {
      sizes.emplace_back();
      sizes.back().n_tokens = n_tokens, sizes.back().error = error;
    }
  }
  std::vector<CacheSize> kept;
  std::vector<ResultStore::EncodedBytes> samples;
  for (const auto& cell : grid_.cells) {
    if (cell.compressor != result.compressor || grid_.tasks[cell.task].spec.choices)
      continue;  // of those several texts
    const auto more = store_.encoded_bytes(cell.record.key);
    samples.insert(samples.end(), more.begin(), more.end());
  }
  for (auto& size : sizes) {
    check_with(samples, size);
    size.error = one_line(size.error);
    if (error.empty() && size.error != kOutOfMemory) kept.push_back(size);
  }
  for (const auto& cell : grid_.cells) {
    if (cell.compressor == result.compressor && cell.runs) store_.put_sizes(cell.record.key, kept);
  }
  const auto& cell = cell_of(job.task, result.compressor).record;
  for (const auto& size : sizes) {
    if (size.error.empty()) continue;
    progress_.make_room();
    std::fprintf(stderr, "no size at %ld tokens: %s (%s): %s\n", size.n_tokens, cell.plugin.c_str(),
                 cell.options_label.c_str(), size.error.c_str());
  }
}

// A probe that failed leaves the failed sample alone, no rows: the same command tries it again.
void ResultFiler::put_probe(const CellRecord& cell, SampleRecord& record, const JobResult& result) {
  const auto* probed = std::get_if<ProbeResult>(&result.answer);
  auto rows = probed ? probed->rows : std::vector<ProbeRow>();
  if (rows.empty()) {  // no measure applied, which is a finding too
    rows.push_back({experiment_.probe.measures.front(), -1, -1, "", -1, std::nan("")});
  }
  if (record.error.empty()) {
    store_.put_probe(cell.key, record.sample, rows);
  } else {
    report_failure(record, cell);
    store_.put_sample(record);
  }
  ++outcome_.n_run;
  progress_.count_done();
}

void ResultFiler::report_failure(SampleRecord& record, const CellRecord& cell) {
  record.status = "failed";
  record.error = one_line(record.error);
  ++outcome_.n_failed;
  progress_.make_room();
  std::fprintf(stderr, "failed: %s, sample %ld, %s (%s): %s\n", cell.task.c_str(), record.sample, cell.plugin.c_str(),
               cell.options_label.c_str(), record.error.c_str());
}

}  // namespace kvc
