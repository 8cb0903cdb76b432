// The first tokens of a prompt, as its prefill handed them out, for the prompts after it that begin alike.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "kvc/layer_cache.h"

namespace kvc {

class SharedPrefix {
 public:
  // The layers to give to Transformer::prefill, where exactly the first n_tokens of these ids are kept; else none.
  std::span<const NewTokens> find(std::span<const int64_t> ids, int64_t n_tokens) const;

  // Forgets what is kept; the layers of these tokens are to come, in order.
  void start(std::span<const int64_t> ids);
  void clear() { start({}); }
  // q, k, v of at least these tokens; copied.
  void add_layer(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

 private:
  std::vector<int64_t> ids_;
  std::vector<NewTokens> layers_;
};

}  // namespace kvc
