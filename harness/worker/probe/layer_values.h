// The values of one layer of one prompt, and the tensors that they are computed from.
#pragma once

#include <map>

#include "contract/probe_settings.h"
#include "probe/measures.h"

namespace kvc {

// Where values go, and tensors where they are asked for.
struct ProbeOutput {
  ProbeOutput(const std::vector<std::string>& measures, bool dumps) : values(measures), dumps(dumps) {}
  void keep(const std::string& name, const at::Tensor& tensor);

  ProbeValues values;
  bool dumps;
  std::map<std::string, at::Tensor> dump;
};

// What is left of a cache's code while the values are computed.
struct LookedAt {
  HeldTokens held;
  HeldTokens attended;  // where a value of attention is wanted
  std::vector<std::pair<std::string, at::Tensor>> parts;
};

// The prompt. q: [H_q, n, D] of its last tokens; exact: [H_kv, T, D]
void add_layer_values(const at::Tensor& q, const KeyValue& exact, const LookedAt& looked_at, const LayerInfo& layer,
                      ProbeOutput& out);

// The end of decoding. given: all that the cache was given.
void add_end_values(int64_t layer, const KeyValue& given, const HeldTokens& held, ProbeOutput& out);

}  // namespace kvc
