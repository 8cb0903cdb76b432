#include "plugin_loader/normal_tokens.h"

#include <ATen/ops/randn.h>

namespace kvc {

NewTokens normal_tokens(const ModelShape& model, int64_t n_tokens, at::Generator& generator) {
  const auto normal = [&](int64_t heads) {
    return at::randn({heads, n_tokens, model.head_dim}, generator, at::TensorOptions(at::kFloat));
  };
  return {normal(model.n_heads), normal(model.n_kv_heads), normal(model.n_kv_heads), 0};
}

}  // namespace kvc
