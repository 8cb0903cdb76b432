// What is asked of the generator, and what it answers.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "compose/part.h"
#include "contract/measurement.h"
#include "contract/prefill_choice.h"
#include "contract/stop_rule.h"
#include "contract/token_prompt.h"
#include "generate/sampler.h"
#include "kvc/compressor.h"

namespace kvc {

// One prompt. Each compressor gets a sequence of its own, or one for each continuation where there are any.
struct GenerationRequest : TokenPrompt {
  std::vector<const Compressor*> compressors;
  std::set<const Compressor*> keep_all = {};  // of these and the reference, those that may not drop a token
  uint64_t sequence_key = 0;                  // names the prompt: the randomness of caches and of sampling
  StopRule stop;
  Sampling sampling;
  PrefillChoice prefill = {};  // each sequence prefills its own, unless the whole prompt is prefilled exactly
  const Compressor* reference = nullptr;  // what scored tokens are compared with: it reads each continuation, too
};

enum class StopReason { eos, stop_string, limit, context, scored };
const char* to_string(StopReason reason);

// What one sequence answered and measured.
struct Generation : Measurement {
  std::string error;         // why the compressor failed; the rest holds only when it is empty
  std::vector<int64_t> ids;  // all new ids, the end-of-sequence id included; of a continuation, its own
  std::string text;          // of the ids, special and end tokens skipped, cut before the first stop string
  StopReason stop_reason = StopReason::limit;
  std::vector<double> log_likelihoods;  // of each scored id of a continuation, natural logarithm
  bool is_greedy = false;               // each scored id of the continuation was the most likely one
  std::vector<double> kl;               // of each scored id, where there is a reference: KL(reference || this), in nats
  std::vector<uint8_t> top1_same;       // and whether both have the same most likely token
  std::vector<double> acceptance;       // and the sum of min(p, q) of both distributions
  int64_t n_cached_tokens = 0;          // prompt and new ones; the last new one is never fed back
  std::vector<int64_t> n_hidden;        // per layer: tokens that its window hides and its cache does not have
  std::vector<Footprint> footprints;    // per layer, at the end
  // Per layer: of a composition [0] its own and [s] stage s, whose times add up to the two below; else one entry.
  std::vector<std::vector<StageUse>> stages;
};

// A sequence that has ended.
struct Finished {
  int64_t ticket;       // what Generator::add gave
  size_t compressor;    // index into the request's compressors
  size_t continuation;  // and into its continuations
  Generation generation;
};

}  // namespace kvc
