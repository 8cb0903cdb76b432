// What a decode step's attention reads and computes, counted on the emulated device: nothing of it is timed.
#pragma once

#include "kvc/compressor.h"
#include "wire/bench_messages.h"

namespace kvc {

// Fills caches of such a model with n_tokens drawn tokens (those of the subject, which gives types and seed) and
// attends once. Filled are the first and the last layer, and all where these differ. Throws what the compressor throws.
StepCount count_step(const Compressor& compressor, const ModelShape& model, const BenchSubject& subject,
                     int64_t n_tokens);

}  // namespace kvc
