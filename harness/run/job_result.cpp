#include "run/job_result.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace kvc {
namespace {

void add_bytes(const Generation& generation, std::map<std::tuple<int64_t, std::string, std::string>, int64_t>& bytes) {
  for (size_t layer = 0; layer < generation.footprints.size(); ++layer) {
    for (const auto& row : generation.footprints[layer].rows()) {
      bytes[{static_cast<int64_t>(layer), to_string(row.tensor), to_string(row.kind)}] += row.bytes;
    }
  }
}

void add(const Generation& generation, const Compressor& compressor, const Transformer& model, JobResult& result) {
  const auto& shape = model.shape();
  const int64_t n_new = generation.n_cached_tokens - generation.n_prompt_tokens;
  result.kv_bytes += generation.kv_bytes;
  result.kv_bytes_fp16 += 4 * shape.n_layers * shape.n_kv_heads * shape.head_dim * generation.n_cached_tokens;
  result.paper_bytes +=
      static_cast<double>(shape.n_layers) * compressor.paper_bytes(shape, generation.n_prompt_tokens, n_new);
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
  std::map<std::tuple<int64_t, std::string, std::string>, int64_t> bytes;
  size_t n_texts = 0;
  for (const auto& [text, continuation, generation] : ended) {
    add_bytes(generation, bytes);
    add(generation, compressor, model, result);
    if (text == n_texts) {
      ++n_texts;
      result.prefill_seconds += generation.prefill_seconds;
      if (!job.scored.empty()) result.likelihoods.emplace_back();
    }
    if (!job.scored.empty()) result.likelihoods.back().push_back({generation.log_likelihoods, generation.is_greedy});
  }
  for (const auto& [row, n_bytes] : bytes) {
    result.bytes.push_back({std::get<0>(row), std::get<1>(row), std::get<2>(row), n_bytes});
  }
  return result;
}

}  // namespace kvc
