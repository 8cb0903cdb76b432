// What vLLM's --kv-cache-dtype turboquant_* stands for: K and V each in a form of its own, the first and last layers
// exact.
#pragma once

#include <kvc/layer_cache.h>

#include <memory>
#include <string>

#include "rotated_codes.h"

namespace turboquant {

struct Preset {
  int64_t k_bits = 16;  // 8: e4m3 as it is; else Lloyd-Max levels of the rotated direction
  int64_t v_bits = 16;  // even levels between a token's smallest and largest channel
  bool turns_keys() const { return k_bits < 8; }
};

// By the name in vLLM, one of presets' options.
Preset preset_named(const std::string& name);

// R of the presets: Sylvester's matrix, whose columns have length sqrt(d), its rows with signs drawn by `seed` where
// `drawn`. [d, d] fp32, d a power of two.
at::Tensor hadamard(int64_t d, bool drawn, uint64_t seed);

// Bytes of a token of one KV head as vLLM lays them out: key, value, and a byte to make them even.
int64_t slot_bytes(const Preset& preset, int64_t head_dim);

// k_tables: of keys that are rotated. It outlives the cache.
std::unique_ptr<kvc::LayerCache> make_preset_cache(const kvc::LayerInfo& info, const Preset& preset,
                                                   const Tables* k_tables, kvc::Precision precision);

// Of a layer that is left alone.
std::unique_ptr<kvc::LayerCache> make_exact_cache(const kvc::LayerInfo& info, kvc::Precision precision);

}  // namespace turboquant
