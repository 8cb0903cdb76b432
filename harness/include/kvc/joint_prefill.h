// Optional interfaces of a Compressor, found by dynamic_cast, for methods that act after the whole prompt was appended:
// over all layers of a sequence, or after observing which tokens attend to the prompt. Until then, their caches store
// the whole prompt.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kvc/compressor.h"

namespace kvc {

class KVC_EXPORT JointPrefill {
 public:
  virtual ~JointPrefill();

  // caches: the caches of one sequence, in the order of layers; all layers, or those that rules assign to this
  // compressor. Called once, after every cache received (and observed) the prompt, before the first decode step.
  virtual void finish_prefill(std::span<LayerCache* const> caches) const = 0;
};

// Tokens that the model reads after the prompt, once for each chunk of it: a text, the last tokens before the chunk,
// another text, the chunk. They also attend to the prompt's uncompressed K and V; nothing of the pass is kept.
struct Observation {
  std::string before_first, before_next;  // the text of the first chunk, and of each later one
  std::string before_chunk;               // the text between the lead-in tokens and the chunk
  int64_t chunk_tokens = 2048;
  int64_t lead_in_tokens = 8;  // before chunks after the first

  bool operator==(const Observation&) const = default;
};

// One layer and one chunk of the prompt. The tensors belong to the caller, as in append().
struct ObservedChunk {
  at::Tensor q;             // [H_q, n, D]: queries of the pass, in the order of its tokens
  at::Tensor k;             // [H_kv, n, D]: keys of the pass
  at::Tensor prompt_k;      // [H_kv, T, D]: uncompressed keys of the whole prompt
  int64_t first_token = 0;  // the chunk is n_tokens of the prompt from here on; the pass ends with it
  int64_t n_tokens = 0;
};

class KVC_EXPORT ObservationPass : public JointPrefill {
 public:
  virtual Observation observation() const = 0;

  // Called after the prompt's append, once for each chunk, in order; layers in any order.
  virtual void observe(LayerCache& cache, const ObservedChunk& chunk) const = 0;
};

// For a host without a model to run the pass: uses the prompt's own queries and keys instead, chunk by chunk. Does
// nothing for a compressor that does not observe.
KVC_EXPORT void observe_itself(const Compressor& compressor, LayerCache& cache, const NewTokens& prompt);
// Does nothing for a compressor without a joint prefill.
KVC_EXPORT void finish_prefill(const Compressor& compressor, std::span<LayerCache* const> caches);
KVC_EXPORT void finish_prefill(const Compressor& compressor, std::span<const std::unique_ptr<LayerCache>> caches);
// Appends, observes and finishes one layer's prompt, for a host without a model.
KVC_EXPORT void append_prompt_alone(const Compressor& compressor, LayerCache& cache, const NewTokens& prompt);

}  // namespace kvc
