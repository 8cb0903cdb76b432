// A prompt's prefill in chunks, as inference engines do it: a chunk attends to what the cache made of earlier chunks.
#pragma once

#include <span>
#include <vector>

#include "contract/prefill_choice.h"
#include "generate/batch_attention.h"
#include "model/transformer.h"

namespace kvc {

// Appends a chunk of a prompt to its sequence's cache, tokens.first_position being the cache's length, and returns the
// attention of its queries, [H_q, T, D] fp32: over the cache's tokens and the chunk's own exact ones, or over the cache's
// alone, the chunk included, with through_all.
at::Tensor attend_chunk(LayerCache& cache, const NewTokens& tokens, bool through_all, double scale,
                        const LayerInfo& layer);

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
