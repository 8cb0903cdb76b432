#include "generate/generator.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "generate/reconstruction.h"
#include "generate/stop_scanner.h"

namespace kvc {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The caches' own count against the allocator's: a buffer that a plugin holds and does not report is found here.
void check_bytes(int64_t reported, int64_t allocated) {
  KVC_CHECK(reported == allocated, "the caches report ", reported, " bytes, but hold ", allocated,
            " bytes of tensors: footprint() must count every buffer, once");
}

}  // namespace

const char* to_string(StopReason reason) {
  switch (reason) {
    case StopReason::eos:
      return "eos";
    case StopReason::stop_string:
      return "stop";
    case StopReason::limit:
      return "limit";
    case StopReason::context:
      return "context";
  }
  throw Error("StopReason out of range");
}

Prefill Generator::prefill(std::span<const int64_t> prompt_ids, std::span<const Compressor* const> compressors,
                           uint64_t sequence_key, const std::function<void(int)>& entering) const {
  Prefill result;
  result.sequences.resize(compressors.size());
  std::vector<Reconstruction> reconstructions(compressors.size());
  const auto shape = model_.shape();
  double fan_out_seconds = 0;

  const auto fan_out = [&](int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const auto start = Clock::now();
    for (size_t i = 0; i < compressors.size(); ++i) {
      auto& sequence = result.sequences[i];
      if (!sequence.error.empty()) continue;
      const MemoryMeter::Scope scope(meter_, account(i));
      entering(static_cast<int>(i));
      try {
        auto cache = compressors[i]->make_cache({layer, shape.n_layers, shape.n_heads, shape.n_kv_heads, shape.head_dim,
                                                 sequence_key, k.device(), shape.sliding_window});
        const auto encode_start = Clock::now();
        cache->append({q, k, v, 0});
        sequence.encode_seconds += seconds_since(encode_start);
        reconstructions[i].add(*cache, k, v);
        sequence.layers.push_back(std::move(cache));
      } catch (const std::exception& e) {
        sequence.error = e.what();
      }
      entering(-1);
    }
    fan_out_seconds += seconds_since(start);
  };

  meter_.reset(MemoryMeter::kModel);
  for (size_t i = 0; i < compressors.size(); ++i) meter_.reset(account(i));
  const int64_t weights_bytes = meter_.live_bytes(MemoryMeter::kModel);
  const auto start = Clock::now();
  result.logits = model_.prefill(prompt_ids, fan_out).squeeze(0);
  result.seconds = seconds_since(start) - fan_out_seconds;
  result.workspace_bytes = meter_.peak_bytes(MemoryMeter::kModel) - weights_bytes;
  for (size_t i = 0; i < compressors.size(); ++i) {
    result.sequences[i].k_error = reconstructions[i].k_error();
    result.sequences[i].v_error = reconstructions[i].v_error();
  }
  return result;
}

Generation Generator::decode(Prefill& prefill, size_t i, std::span<const int64_t> prompt_ids,
                             const StopRule& rule) const {
  auto& sequence = prefill.sequences.at(i);
  KVC_CHECK(sequence.error.empty(), sequence.error);
  Generation out;
  StopScanner scanner(tokenizer_, rule.stop_strings);
  StepTimes times;
  const int64_t n_prompt = static_cast<int64_t>(prompt_ids.size());
  const int64_t context = model_.config().max_position_embeddings;
  const auto start = Clock::now();
  {
    const MemoryMeter::Scope scope(meter_, account(i));
    auto logits = prefill.logits;
    while (true) {
      const int64_t id = logits.argmax().item<int64_t>();
      out.ids.push_back(id);
      if (std::find(rule.eos_ids.begin(), rule.eos_ids.end(), id) != rule.eos_ids.end()) {
        out.stop_reason = StopReason::eos;
      } else if (scanner.found_in(out.ids)) {
        out.stop_reason = StopReason::stop_string;
      } else if (static_cast<int64_t>(out.ids.size()) >= rule.max_new_tokens) {
        out.stop_reason = StopReason::limit;
      } else if (n_prompt + static_cast<int64_t>(out.ids.size()) >= context) {
        out.stop_reason = StopReason::context;
      } else {
        const int64_t position = n_prompt + static_cast<int64_t>(out.ids.size()) - 1;
        logits = model_.decode_step(id, position, sequence.layers, &times);
        continue;
      }
      break;
    }
  }
  out.encode_seconds = times.encode_seconds;
  out.attend_seconds = times.attend_seconds;
  out.other_seconds = seconds_since(start) - times.encode_seconds - times.attend_seconds;
  out.text = scanner.cut(out.ids);
  for (const auto& cache : sequence.layers) out.footprints.push_back(cache->footprint());
  for (const auto& footprint : out.footprints) out.kv_bytes += footprint.total_bytes();
  out.n_encoded_tokens = sequence.layers.front()->n_encoded_tokens();
  check_bytes(out.kv_bytes, meter_.live_bytes(account(i)));
  out.workspace_bytes = std::max(prefill.workspace_bytes, meter_.peak_bytes(account(i)) - out.kv_bytes);
  return out;
}

}  // namespace kvc
