// Optional sides of a Compressor, found by dynamic_cast, for methods that act once the whole prompt is there: over all
// layers of a sequence, and after a look at what attends to the prompt. Until then their caches hold the prompt whole.
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

  // caches: one sequence's, made by this compressor, in the order of layers; of all layers, or of those that rules
  // leave to it. Called once, when each has been given the prompt (and has observed it), before the first decode step.
  virtual void finish_prefill(std::span<LayerCache* const> caches) const = 0;
};

// The tokens that the model reads behind the prompt, once for each chunk of it: a text, the last tokens before the
// chunk, another text, the chunk. The prompt's exact K and V are attended to, too; nothing of the pass is kept.
struct Observation {
  std::string before_first, before_next;  // the text of the first chunk, and of each later one
  std::string before_chunk;               // the text between the tokens that lead in and the chunk
  int64_t chunk_tokens = 2048;
  int64_t lead_in_tokens = 8;  // before chunks after the first

  bool operator==(const Observation&) const = default;
};

// Of one layer and one chunk of the prompt. The tensors are the caller's, as those of append().
struct ObservedChunk {
  at::Tensor q;             // [H_q, n, D]: the pass's queries, in the order of its tokens
  at::Tensor k;             // [H_kv, n, D]: and its own keys
  at::Tensor prompt_k;      // [H_kv, T, D]: exact keys of the whole prompt
  int64_t first_token = 0;  // the chunk: n_tokens of the prompt from here on, the last of the pass's tokens
  int64_t n_tokens = 0;
};

class KVC_EXPORT ObservationPass : public JointPrefill {
 public:
  virtual Observation observation() const = 0;

  // After the prompt's append, once for each chunk, in order; the layers in any.
  virtual void observe(LayerCache& cache, const ObservedChunk& chunk) const = 0;
};

// For a host that has no model to run the pass with: a prompt's own queries and keys stand for the pass's, chunk by
// chunk. Nothing, for a compressor that does not observe.
KVC_EXPORT void observe_itself(const Compressor& compressor, LayerCache& cache, const NewTokens& prompt);
// Nothing, for a compressor without a joint prefill.
KVC_EXPORT void finish_prefill(const Compressor& compressor, std::span<LayerCache* const> caches);
KVC_EXPORT void finish_prefill(const Compressor& compressor, std::span<const std::unique_ptr<LayerCache>> caches);
// One layer's prompt from its append to its end, for a host without a model: observed by itself, ended for this layer.
KVC_EXPORT void append_prompt_alone(const Compressor& compressor, LayerCache& cache, const NewTokens& prompt);

}  // namespace kvc
