// The bytes of each plugin's caches by the formula at the head of its file, worked out again from options, shape and
// lengths alone. Nothing here calls a plugin or a primitive.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kvc/footprint.h"

namespace kvc::conformance {

// A prompt of n_prompt tokens, then n_new single ones, in a cache of n_kv_heads heads of head_dim.
struct Lengths {
  int64_t n_kv_heads, head_dim, n_prompt, n_new;
  int64_t n() const { return n_prompt + n_new; }
  int64_t width() const { return n_kv_heads * head_dim; }
};

using Bytes = std::map<std::pair<CacheTensor, ByteKind>, int64_t>;  // of what is held; no zeros

struct Pencil {
  const char* plugin;
  std::vector<nlohmann::json> options;  // each with every option that the formula reads
  std::vector<int64_t> borders;         // prompts are taken on, before and after each; steps run past them
  Bytes (*formula)(const nlohmann::json& options, const Lengths& lengths);
  // Of a second model, beside heads of 64: where it matters, rows that fill no whole words or groups.
  int64_t other_head_dim = 32;
  // Whether the values decide some bytes: then the kinds named here are held against each other, not the formula.
  bool has_counted_outliers = false;
};

const std::vector<Pencil>& pencils();

}  // namespace kvc::conformance
