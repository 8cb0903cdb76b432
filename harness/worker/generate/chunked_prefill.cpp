#include "generate/chunked_prefill.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "contract/stopwatch.h"
#include "sandbox/sandboxed_call.h"

namespace kvc {
namespace {

constexpr int64_t kQueriesAtOnce = 64;  // whose scores are in memory together

// Attention of queries at positions first ... first + T_q - 1 of the cache.
at::Tensor attention_from(const at::Tensor& q, const KeyValue& kv, const at::Tensor& positions, int64_t first,
                          const LayerInfo& layer) {
  std::vector<at::Tensor> rows;
  for (int64_t row = 0; row < q.size(1); row += kQueriesAtOnce) {
    const int64_t n = std::min(kQueriesAtOnce, q.size(1) - row);
    rows.push_back(
        reference_attention(q.narrow(1, row, n), kv, positions, first + row + n, layer.attention_scale, layer));
  }
  return at::cat(rows, 1);
}

// Over the cache's tokens before the chunk is appended, and the chunk's own.
at::Tensor with_exact_chunk(const LayerCache& cache, const NewTokens& tokens, const LayerInfo& layer) {
  const int64_t first = tokens.first_position, n = tokens.k.size(1);
  auto k = tokens.k.to(at::kFloat), v = tokens.v.to(at::kFloat);
  auto positions = at::arange(first, first + n, at::TensorOptions(at::kLong).device(k.device())).expand({k.size(0), n});
  if (first > 0) {
    const auto earlier = cache.attended();
    k = at::cat({earlier.k, k}, 1), v = at::cat({earlier.v, v}, 1);
    positions = at::cat({cache.positions(), positions}, 1);
  }
  return attention_from(tokens.q, {k, v}, positions, first, layer);
}

}  // namespace

at::Tensor prefill_chunks(const Transformer& model, std::span<const int64_t> prompt, int64_t chunk,
                          const Transformer::AttendChunk& attend, const std::function<bool()>& goes_on) {
  const auto n = static_cast<int64_t>(prompt.size());
  at::Tensor logits;
  for (int64_t first = 0; first < n && goes_on(); first += chunk) {
    const int64_t n_chunk = std::min(chunk, n - first);
    const bool is_last = first + n_chunk == n;
    const auto kind = !is_last     ? AppendKind::prompt_chunk
                      : first == 0 ? AppendKind::whole_prompt
                                   : AppendKind::last_chunk;
    const auto ids = prompt.subspan(static_cast<size_t>(first), static_cast<size_t>(n_chunk));
    logits = model.prefill_chunk(ids, first, [&](int64_t layer, NewTokens tokens) {
      tokens.kind = kind;
      return attend(layer, tokens);
    });
  }
  return logits;
}

at::Tensor attend_chunk(const LayerCache& cache, const NewTokens& tokens, bool through_all, const LayerInfo& layer,
                        const std::function<void()>& append) {
  if (!through_all) {
    const auto attention = with_exact_chunk(cache, tokens, layer);
    append();
    return attention;
  }
  append();
  return attention_from(cache.attended_query(tokens.q), cache.attended(), cache.positions(), tokens.first_position,
                        layer);
}

at::Tensor ChunkedPrefill::run(CacheStep& sequence, std::span<const int64_t> prompt) {
  const int64_t n_layers = model_.shape().n_layers;
  k_.assign(static_cast<size_t>(n_layers), {}), v_ = k_;
  given_.assign(static_cast<size_t>(n_layers), {});
  sequence.out->n_hidden.assign(static_cast<size_t>(n_layers), 0);
  const auto logits = prefill_chunks(
      model_, prompt, choice_.chunk,
      [&](int64_t layer, const NewTokens& tokens) { return attend(sequence, layer, tokens); },
      [&] { return sequence.out->error.empty(); });
  if (sequence.out->error.empty()) collect(sequence.out->n_hidden);
  return logits;
}

at::Tensor ChunkedPrefill::attend(CacheStep& sequence, int64_t layer, const NewTokens& tokens) {
  const auto nothing = [&] { return at::zeros(tokens.q.sizes(), tokens.q.options().dtype(at::kFloat)); };
  if (!sequence.out->error.empty()) return nothing();
  const auto index = static_cast<size_t>(layer);
  const auto info = model_.layer_info(layer, sequence_key_);
  {
    const MemoryMeter::Scope own_copies(meter_, MemoryMeter::kUnseen);
    k_[index].push_back(tokens.k), v_[index].push_back(tokens.v);
    given_[index].q = tokens.q.narrow(1, tokens.q.size(1) - 1, 1).clone();
  }
  if (tokens.first_position > 0) {
    drop_hidden_tokens(sequence, layer, info.sliding_window, tokens.first_position, meter_);
  }
  auto of_cache = tokens;
  of_cache.first_position -= sequence.out->n_hidden[index];
  {
    const MemoryMeter::Scope own_copies(meter_, MemoryMeter::kUnseen);
    sequence.copies.copy_in(of_cache);
  }
  at::Tensor attention;
  sequence.entering(true);
  sequence.out->error = sandboxed_call(meter_, sequence.account, CallMode::plain, [&] {
    if (tokens.first_position == 0) sequence.caches->push_back(sequence.compressor->make_cache(info));
    auto& cache = *sequence.caches->at(index);
    const MemoryMeter::Scope own_work(meter_, MemoryMeter::kUnseen);
    attention = attend_chunk(cache, of_cache, choice_.through_all, info, [&] {
      const MemoryMeter::Scope of_sequence(meter_, sequence.account);
      const auto start = Clock::now();
      cache.append(sequence.copies.tokens());
      synchronize(tokens.k.device());
      sequence.out->encode_seconds += seconds_since(start);
      sequence.copies.reclaim();
    });
    check_attention(attention, of_cache.q);
  });
  sequence.entering(false);
  sequence.copies.invalidate();
  return sequence.out->error.empty() ? attention : nothing();
}

void ChunkedPrefill::collect(const std::vector<int64_t>& n_hidden) {
  const MemoryMeter::Scope own_copies(meter_, MemoryMeter::kUnseen);
  for (size_t layer = 0; layer < given_.size(); ++layer) {
    given_[layer].k = at::cat(k_[layer], 1).slice(1, n_hidden[layer]);
    given_[layer].v = at::cat(v_[layer], 1).slice(1, n_hidden[layer]);
    k_[layer].clear(), v_[layer].clear();
  }
}

}  // namespace kvc
