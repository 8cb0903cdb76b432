// The end of a prompt's prefill, for compressors that act there (kvc/joint_prefill.h).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "generate/batch_attention.h"
#include "kvc/joint_prefill.h"
#include "model/transformer.h"
#include "tokenizer/tokenizer.h"

namespace kvc {

// Runs the model over what the observation says, once for each chunk of the prompt. layers: the prompt's exact k and v.
using OnChunk = std::function<void(int64_t layer, const ObservedChunk& chunk)>;
void observe_prompt(const Transformer& model, const Tokenizer& tokenizer, const Observation& observation,
                    std::span<const int64_t> prompt, std::span<const NewTokens> layers, const OnChunk& on_chunk);

inline bool waits_for_prompt_end(const Compressor* compressor) {
  return dynamic_cast<const JointPrefill*>(compressor) != nullptr;
}

class PromptEnd {
 public:
  // All outlive it.
  PromptEnd(const Transformer& model, const Tokenizer& tokenizer, MemoryMeter& meter, std::span<const int64_t> prompt)
      : model_(model), tokenizer_(tokenizer), meter_(meter), prompt_(prompt) {}

  // Of the next layer, as the prefill hands it out; held from here on.
  void keep(const at::Tensor& k, const at::Tensor& v) { layers_.push_back({{}, k, v, 0}); }
  std::span<const NewTokens> layers() const { return layers_; }

  // One pass for all sequences whose compressors ask for the same, then each sequence's end; those whose compressors do
  // not wait are left alone. What the compressor throws is its sequence's error. The pass's time is prefill's.
  void finish(std::span<CacheStep> sequences);

 private:
  void observe(const Observation& observation, std::span<CacheStep* const> sequences);

  const Transformer& model_;
  const Tokenizer& tokenizer_;
  MemoryMeter& meter_;
  std::span<const int64_t> prompt_;
  std::vector<NewTokens> layers_;
};

}  // namespace kvc
