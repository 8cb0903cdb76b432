// What a decode step does with the caches of its sequences at one layer.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "generate/generation.h"
#include "kvc/layer_cache.h"
#include "kvc/value_checks.h"
#include "sandbox/audit.h"
#include "sandbox/device_clock.h"
#include "sandbox/memory_meter.h"
#include "sandbox/private_tokens.h"

namespace kvc {

using SequenceCaches = std::vector<std::unique_ptr<LayerCache>>;  // one a layer

// What a device that works apart did for a sequence, whose time is known when it is done.
struct DeviceSpan {
  DeviceMark from, to;
  double Generation::*seconds;  // to which it adds
  double share;
};

struct CacheStep {
  const Compressor* compressor;
  SequenceCaches* caches;
  int account;                         // of the memory meter
  std::function<void(bool)> entering;  // with true before the compressor's code runs, with false after it
  Generation* out;                     // its error and its times
  Audit* audit = nullptr;              // whose step has begun
  PrivateTokens copies = {};           // the step's token as the compressor gets it
  ValueChecks checks = {};             // of what a device holds, since the step began
  std::vector<DeviceSpan> spans = {};  // since the step began
};

// tokens[b]: at its position in the text. Drops from sequence b's cache what the window hides from it and appends it,
// one sequence after the other (on a device what they store is written together), then puts the attention of tokens[b].q
// into attended[b]: sequences of a compressor with BatchedAttention together, the others each on its own, spread over the
// threads. A sequence whose compressor throws has its error set, attends to nothing and is left out from there on. Checks
// of values on a device are read after the last layer, once per sequence, and may set the error, too.
// attended: [B, H_q, D] fp32
void step_caches(std::span<CacheStep> steps, int64_t layer, int64_t sliding_window, std::span<const NewTokens> tokens,
                 double scale, MemoryMeter& meter, at::Tensor& attended);

// Drops what the layer's window hides from the token at `position` of the text, in blocks (drop_hidden).
void drop_hidden_tokens(const CacheStep& step, int64_t layer, int64_t sliding_window, int64_t position,
                        MemoryMeter& meter);

// Generation::n_hidden after a prompt of n_tokens.
std::vector<int64_t> hidden_of_layers(const ModelShape& model, int64_t n_tokens);

}  // namespace kvc
