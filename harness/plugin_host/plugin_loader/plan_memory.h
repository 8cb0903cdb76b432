// How many tokens fit a memory: bytes of real caches, measured on random prompts, as a line in the prompt's length.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "kvc/compressor.h"

namespace kvc {

// Prompts whose footprints give the line, and one more that says how straight it is.
inline constexpr std::array<int64_t, 2> kMeasuredTokens = {1024, 2048};
inline constexpr int64_t kCheckedTokens = 3072;
inline constexpr int64_t kMeasuredSteps = 256;

// That a plugin may take for it before it counts as stuck.
inline constexpr double kSecondsToMeasure = 600;

// Of one sequence and all layers: a prompt of T tokens is held in fixed_bytes + bytes_per_token * T.
struct CacheLine {
  double bytes_per_token = 0;
  double fixed_bytes = 0;
  double bytes_per_step = 0;   // mean growth over kMeasuredSteps decode steps behind the first prompt
  double misfit = 0;           // (held - line) / held at kCheckedTokens
  bool layers_differ = false;  // a middle layer or the last holds other bytes than the first, by which all are counted

  double bytes(int64_t n_tokens) const { return fixed_bytes + bytes_per_token * static_cast<double>(n_tokens); }
};

// Fills caches of one layer of such a model with random prompts and counts what they hold, times n_layers. Throws what
// the compressor throws.
CacheLine measure_cache(const Compressor& compressor, const ModelShape& model);

// What a prompt of n_tokens random tokens is held in, over all layers: each is filled where the first, a middle one
// and the last hold other bytes, else one counts for all.
double prompt_bytes(const Compressor& compressor, const ModelShape& model, int64_t n_tokens);

// Tokens of the longest prompt that one sequence may hold in `bytes`; nothing where every prompt fits.
std::optional<int64_t> largest_context(const CacheLine& line, double bytes);

// Sequences of n_tokens each.
int64_t largest_batch(const CacheLine& line, double bytes, int64_t n_tokens);

}  // namespace kvc
