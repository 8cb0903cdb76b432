// Compressors made of compressors: chains, rules, exact first and latest tokens, centered keys.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compose/part.h"

namespace kvc {

// Parts in a row. The kind goes by what the first stage can do:
//   it evicts: it chooses which tokens of the prompt stay; the rest of the chain stores these and all later tokens.
//   otherwise: each later stage stores the error of those before it; tokens are encoded `block` (default 64) at a time.
// Throws Error with the reason where stages do not go together.
Part make_chain(std::vector<Part> stages, std::optional<int64_t> block);
constexpr int64_t kDefaultBlock = 64;                 // tokens
bool stores_errors(const std::vector<Part>& stages);  // whether some stage of the chain stores the error of others

// Layers, tensor and phase that a rule is for; what is not named is all.
struct RuleScope {
  std::vector<std::pair<int64_t, int64_t>> layers = {};  // from first to last, both included
  std::optional<CacheTensor> tensor = {};                // k or v
  std::optional<bool> decode = {};                       // false: the prompt
  bool windowed = false;  // the layers with a sliding window, too; only as written: in_layers_of() numbers them
  RuleScope in_layers_of(const ModelShape& model) const;
  bool covers(int64_t layer, CacheTensor of, bool decoding) const;
};

// "layers 0-1,3, v, decode"
std::string to_string(const RuleScope& scope);

// parts[0] serves what no scope covers, parts[1 + i] what scopes[i] covers; later scopes win. A layer whose K and V
// have the same part for prompt and decode is that part's own cache. Throws Error where a scope lies outside the model
// or is covered by later ones, and where a part cannot hold what it is given.
Part make_rules(std::vector<Part> parts, std::vector<RuleScope> scopes, int64_t n_layers);

// The first or the latest n tokens of each layer at 16 bits, all others in the part. A token that leaves the latest ones
// comes to the part without its query.
Part make_sinks(int64_t n, Part part);
Part make_recent(int64_t n, Part part);

// Keys minus their mean over the prompt, per channel, which is stored at 16 bits and stays (of a prompt in chunks, the
// mean over its first chunk). dequantize() adds it back.
Part make_centered(Part part);

}  // namespace kvc
