#include "worker/job_result.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace kvc {
namespace {

using ByteKey = std::tuple<int64_t, int64_t, std::string, std::string>;  // layer, stage, tensor, kind

void add_stages(const Generation& generation, std::map<ByteKey, int64_t>& bytes, std::vector<JobStage>& stage_times) {
  for (size_t layer = 0; layer < generation.stages.size(); ++layer) {
    const auto& stages = generation.stages[layer];
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      for (const auto& row : stages[stage].bytes.rows()) {
        bytes[{static_cast<int64_t>(layer), static_cast<int64_t>(stage), to_string(row.tensor), to_string(row.kind)}] +=
            row.bytes;
      }
    }
    if (stages.size() == 1) continue;  // a plain compressor: the sample's own columns say it
    stage_times.resize(stages.size());
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      stage_times[stage].stage = static_cast<int64_t>(stage);
      stage_times[stage].encode_seconds += stages[stage].encode_seconds;
      stage_times[stage].attend_seconds += stages[stage].attend_seconds;
    }
  }
}

void add(const Generation& generation, const Compressor& compressor, const Transformer& model, JobResult& result) {
  const auto& shape = model.shape();
  const int64_t n_new = generation.n_cached_tokens - generation.n_prompt_tokens;
  result.kv_bytes += generation.kv_bytes;
  result.kv_bytes_fp16 += 4 * shape.n_layers * shape.n_kv_heads * shape.head_dim * generation.n_cached_tokens;
  const double paper_bytes = compressor.paper_bytes(shape, generation.n_prompt_tokens, n_new);
  if (!std::isnan(paper_bytes)) {
    result.paper_bytes = result.paper_bytes.value_or(0) + static_cast<double>(shape.n_layers) * paper_bytes;
  }
  result.n_encoded_tokens += generation.n_encoded_tokens;
  result.k_error = std::max(result.k_error, generation.k_error);
  result.v_error = std::max(result.v_error, generation.v_error);
  result.workspace_bytes = std::max(result.workspace_bytes, generation.workspace_bytes);
  result.encode_seconds += generation.encode_seconds;
  result.attend_seconds += generation.attend_seconds;
  result.other_seconds += generation.other_seconds;
}

}  // namespace

JobResult job_result(const Job& job, int compressor_index, const Compressor& compressor, const Transformer& model,
                     std::vector<PlacedGeneration>& ended) {
  std::sort(ended.begin(), ended.end(), [](const auto& a, const auto& b) {
    return std::tie(a.text, a.continuation) < std::tie(b.text, b.continuation);
  });
  JobResult result;
  result.job = job.id;
  result.compressor = compressor_index;
  for (const auto& sequence : ended) {
    if (result.error.empty()) result.error = sequence.generation.error;
  }
  if (!result.error.empty()) return result;
  const auto& first = ended.front().generation;
  result.text = first.text;
  result.stop_reason = to_string(first.stop_reason);
  result.ids = first.ids;
  result.n_prompt_tokens = first.n_prompt_tokens;
  result.n_reused_tokens = first.n_reused_tokens;
  result.k_error = first.k_error;
  result.v_error = first.v_error;
  result.weights_bytes = model.weights_bytes();
  if (ended.size() == 1) result.peak_bytes = first.peak_bytes;
  std::map<ByteKey, int64_t> bytes;
  size_t n_texts = 0;
  for (const auto& [text, continuation, generation] : ended) {
    add_stages(generation, bytes, result.stages);
    add(generation, compressor, model, result);
    if (text == n_texts) {
      ++n_texts;
      result.prefill_seconds += generation.prefill_seconds;
      if (!job.scored.empty()) result.likelihoods.emplace_back();
    }
    if (!job.scored.empty()) {
      result.likelihoods.back().push_back(
          {generation.log_likelihoods, generation.is_greedy, generation.kl, generation.top1_same});
    }
  }
  for (const auto& [row, n_bytes] : bytes) {
    const auto& [layer, stage, tensor, kind] = row;
    result.bytes.push_back({layer, stage, tensor, kind, n_bytes});
  }
  return result;
}

}  // namespace kvc
