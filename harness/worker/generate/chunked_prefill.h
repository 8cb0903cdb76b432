// A prompt's prefill in chunks, as inference engines do it: a chunk attends to what the cache made of earlier chunks.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "contract/prefill_choice.h"
#include "generate/batch_attention.h"
#include "model/transformer.h"

namespace kvc {

// The model's pass over a prompt, `chunk` tokens at a time: attend gets each chunk's tokens, with their kind, and returns
// the attention of their queries. Ends early, with the logits so far, once goes_on() is false. -> logits [V] of the last
// token read, on the CPU.
at::Tensor prefill_chunks(
    const Transformer& model, std::span<const int64_t> prompt, int64_t chunk, const Transformer::AttendChunk& attend,
    const std::function<bool()>& goes_on = [] { return true; });

// Attention of a chunk's queries, [H_q, T, D] fp32: over the cache's tokens and the chunk's own exact ones, or over the
// cache's alone, the chunk included, with through_all. append() appends the chunk to the cache; tokens.first_position is
// the cache's length before it.
at::Tensor attend_chunk(const LayerCache& cache, const NewTokens& tokens, bool through_all, const LayerInfo& layer,
                        const std::function<void()>& append);

class ChunkedPrefill {
 public:
  // All outlive it.
  ChunkedPrefill(const Transformer& model, MemoryMeter& meter, PrefillChoice choice, uint64_t sequence_key)
      : model_(model), meter_(meter), choice_(choice), sequence_key_(sequence_key) {}

  // Makes and fills the sequence's caches. -> logits [V] of the prompt's last token, on the CPU; if the compressor fails,
  // its sequence's error is set.
  at::Tensor run(CacheStep& sequence, std::span<const int64_t> prompt);

  // By layer, what the cache was given and has not dropped: k, v; q: the last query.
  const std::vector<NewTokens>& given() const { return given_; }

 private:
  at::Tensor attend(CacheStep& sequence, int64_t layer, const NewTokens& tokens);
  void collect(const std::vector<int64_t>& n_hidden);

  const Transformer& model_;
  MemoryMeter& meter_;
  PrefillChoice choice_;
  uint64_t sequence_key_;
  std::vector<std::vector<at::Tensor>> k_, v_;  // by layer: of each chunk
  std::vector<NewTokens> given_;
};

}  // namespace kvc
