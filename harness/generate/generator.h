// Runs one prompt through a model and its compressors: one exact prefill, then greedy decoding from each compressed
// cache.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "generate/memory_meter.h"
#include "kvc/compressor.h"
#include "model/tokenizer.h"
#include "model/transformer.h"

namespace kvc {

struct StopRule {
  std::vector<int64_t> eos_ids;
  std::vector<std::string> stop_strings;  // text is cut before the first that occurs
  int64_t max_new_tokens = 256;
};

// One compressor's caches for one sequence, filled by the prefill, and what it cost.
struct SequenceCaches {
  std::vector<std::unique_ptr<LayerCache>> layers;
  std::string error;  // why the compressor failed on this prompt; empty when it did not
  double encode_seconds = 0;
  double k_error = 0, v_error = 0;  // relative Frobenius error of the prompt's K and V over all layers
};

struct Prefill {
  at::Tensor logits;                      // [V] fp32, for the token after the prompt
  std::vector<SequenceCaches> sequences;  // one per compressor, in their order
  double seconds = 0;                     // the exact forward alone
  int64_t workspace_bytes = 0;            // its peak beyond the weights
};

enum class StopReason { eos, stop_string, limit, context };
const char* to_string(StopReason reason);

struct Generation {
  std::vector<int64_t> ids;  // all new ids, the end-of-sequence id included
  std::string text;          // of the ids, special tokens skipped, cut before the first stop string
  StopReason stop_reason = StopReason::limit;
  std::vector<Footprint> footprints;  // per layer, at the end
  int64_t n_encoded_tokens = 0;       // layer 0's; the same for all layers of a method that treats them alike
  int64_t kv_bytes = 0;               // sum of the footprints
  int64_t workspace_bytes = 0;        // peak beyond weights and KV, prefill and decoding alike
  double encode_seconds = 0, attend_seconds = 0, other_seconds = 0;  // of decoding
};

class Generator {
 public:
  // All three outlive the generator.
  Generator(const Transformer& model, const Tokenizer& tokenizer, MemoryMeter& meter)
      : model_(model), tokenizer_(tokenizer), meter_(meter) {}

  // Prefills the prompt once and appends each layer's exact K, V to a new cache of every compressor. A compressor that
  // throws has its sequence's `error` set; the others go on. `entering(i)` is called before compressor i's code runs
  // and entering(-1) after, so that a crash can be laid at its door.
  Prefill prefill(std::span<const int64_t> prompt_ids, std::span<const Compressor* const> compressors,
                  uint64_t sequence_key, const std::function<void(int)>& entering) const;

  // Greedy decoding of sequence i of the prefill until the stop rule ends it. Throws Error where the compressor does,
  // or where the bytes its caches report differ from the bytes the allocator gave them.
  Generation decode(Prefill& prefill, size_t i, std::span<const int64_t> prompt_ids, const StopRule& rule) const;

 private:
  static int account(size_t i) { return static_cast<int>(i) + 1; }
  const Transformer& model_;
  const Tokenizer& tokenizer_;
  MemoryMeter& meter_;
};

}  // namespace kvc
