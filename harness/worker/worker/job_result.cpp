#include "worker/job_result.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "sandbox/audit.h"

namespace kvc {
namespace {

using ByteKey = std::tuple<int64_t, int64_t, std::string, std::string>;  // layer, stage, tensor, kind

void add_stages(const Generation& generation, std::map<ByteKey, int64_t>& bytes,
                std::vector<StageTimeRow>& stage_times) {
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

void add(double value, double& sum) {  // what is no number adds nothing
  if (std::isnan(value)) return;
  sum = std::isnan(sum) ? value : sum + value;
}

// What only the compressor and the model know of it. A question that was read after the compressed prompt counts as
// new to it.
Measurement measured(const Generation& generation, int64_t n_question, const Compressor& compressor,
                     const Transformer& model) {
  Measurement whole = generation;
  const auto& shape = model.shape();
  const int64_t n_compressed = generation.n_prompt_tokens - n_question;
  const int64_t n_new = generation.n_cached_tokens - n_compressed;
  whole.n_new_tokens = static_cast<int64_t>(generation.ids.size());
  whole.kv_bytes_fp16 = 4 * shape.n_layers * shape.n_kv_heads * shape.head_dim * generation.n_cached_tokens;
  whole.kv_bytes_engine = engine_bytes(shape, generation.n_cached_tokens);
  Footprint all;
  for (const auto& footprint : generation.footprints) all.add(footprint);
  int64_t n_values = 0;
  whole.paper_bytes = 0;
  for (int64_t layer = 0; layer < shape.n_layers; ++layer) {
    const int64_t n_hidden = generation.n_hidden[static_cast<size_t>(layer)];
    n_values += 2 * shape.n_kv_heads * shape.head_dim * (generation.n_cached_tokens - n_hidden);
    whole.paper_bytes += compressor.paper_bytes(shape, n_compressed - std::min(n_hidden, n_compressed), n_new);
  }
  whole.recent_bytes = recent_bytes(all, n_values, whole.n_encoded_numbers.value_or(0));
  if (!std::isfinite(whole.paper_bytes)) whole.paper_bytes = std::numeric_limits<double>::quiet_NaN();
  whole.peak_weights_bytes = model.weights_bytes();
  whole.peak_workspace_bytes = std::max<int64_t>(0, whole.peak_workspace_bytes);  // no meter sees a GPU's
  return whole;
}

void add(const Measurement& part, Measurement& sum) {
  sum.kv_bytes += part.kv_bytes;
  sum.kv_bytes_fp16 += part.kv_bytes_fp16;
  sum.kv_bytes_engine = sum.kv_bytes_engine.value_or(0) + part.kv_bytes_engine.value_or(0);
  add(part.paper_bytes, sum.paper_bytes);
  sum.n_encoded_tokens += part.n_encoded_tokens;
  sum.n_encoded_numbers = sum.n_encoded_numbers.value_or(0) + part.n_encoded_numbers.value_or(0);
  sum.recent_bytes = sum.recent_bytes.value_or(0) + part.recent_bytes.value_or(0);
  sum.k_error = std::max(sum.k_error, part.k_error);
  sum.v_error = std::max(sum.v_error, part.v_error);
  sum.peak_kv_bytes = std::max(sum.peak_kv_bytes, part.peak_kv_bytes);
  sum.peak_workspace_bytes = std::max(sum.peak_workspace_bytes, part.peak_workspace_bytes);
  sum.encode_seconds += part.encode_seconds;
  sum.attend_seconds += part.attend_seconds;
  sum.other_seconds += part.other_seconds;
}

// alone: no other sequence was the sample's; a peak of several is not told.
void split_peak(bool alone, Measurement& whole) {
  if (!alone || whole.peak_bytes.value_or(0) <= 0) whole.peak_bytes.reset();
  if (!whole.peak_bytes) return;
  whole.peak_other_bytes =
      *whole.peak_bytes - whole.peak_weights_bytes - whole.peak_kv_bytes - whole.peak_workspace_bytes;
}

// The prefill of each prompt is counted once, by its first sequence.
void add_caches(const std::vector<PlacedGeneration>& ended, int64_t n_question, const Compressor& compressor,
                const Transformer& model, CacheResult& result) {
  auto& whole = result.measured;
  std::map<ByteKey, int64_t> bytes;
  for (const auto& [prompt, continuation, generation] : ended) {
    add_stages(generation, bytes, result.stages);
    const auto part = measured(generation, n_question, compressor, model);
    if (&generation == &ended.front().generation) {
      whole = part;
    } else {
      add(part, whole);
      if (continuation == 0) whole.prefill_seconds += part.prefill_seconds;
    }
  }
  split_peak(ended.size() == 1, whole);
  for (const auto& [row, n_bytes] : bytes) {
    const auto& [layer, stage, tensor, kind] = row;
    result.bytes.push_back({layer, tensor, kind, n_bytes, stage});
  }
}

}  // namespace

JobResult job_result(const Job& job, int compressor_index, const Compressor& compressor, const Transformer& model,
                     std::vector<PlacedGeneration>& ended) {
  std::sort(ended.begin(), ended.end(), [](const auto& a, const auto& b) {
    return std::tie(a.prompt, a.continuation) < std::tie(b.prompt, b.continuation);
  });
  JobResult result{.job = job.id, .compressor = compressor_index};
  for (const auto& sequence : ended) {
    if (sequence.generation.error.empty()) continue;
    result.answer = FailedResult{sequence.generation.error};
    return result;
  }
  if (const auto* asked = std::get_if<GenerateJob>(&job.asked)) {
    auto& generated = result.answer.emplace<GenerateResult>();
    const auto& only = ended.front().generation;
    generated.text = only.text;
    generated.stop_reason = to_string(only.stop_reason);
    generated.ids = only.ids;
    add_caches(ended, asked->prompt.n_question_tokens, compressor, model, generated);
    return result;
  }
  auto& scored = result.answer.emplace<LikelihoodResult>();
  scored.likelihoods.resize(ended.back().prompt + 1);
  for (const auto& [prompt, continuation, generation] : ended) {
    scored.likelihoods[prompt].push_back(
        {generation.log_likelihoods, generation.is_greedy, generation.kl, generation.top1_same, generation.acceptance});
  }
  add_caches(ended, 0, compressor, model, scored);
  return result;
}

}  // namespace kvc
