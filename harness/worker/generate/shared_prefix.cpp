#include "generate/shared_prefix.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace kvc {

std::span<const NewTokens> SharedPrefix::find(std::span<const int64_t> ids, int64_t n_tokens) const {
  const bool fits = n_tokens > 0 && static_cast<int64_t>(ids_.size()) == n_tokens && ids.size() >= ids_.size() &&
                    std::equal(ids_.begin(), ids_.end(), ids.begin());
  return fits ? layers_ : std::span<const NewTokens>();
}

void SharedPrefix::start(std::span<const int64_t> ids) {
  layers_.clear();
  ids_.assign(ids.begin(), ids.end());
}

void SharedPrefix::add_layer(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const auto first = [&](const at::Tensor& x) { return x.narrow(1, 0, static_cast<int64_t>(ids_.size())).clone(); };
  layers_.push_back({first(q), first(k), first(v), 0});
}

}  // namespace kvc
