#include "conformance/inputs.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace kvc::conformance {

at::Device& check_device() {
  static at::Device device = at::kCPU;
  return device;
}

Input ordinary_input(const ModelShape& model, int64_t n_tokens, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  const auto normal = [&](at::IntArrayRef sizes) { return at::randn(sizes, generator, at::kFloat).to(check_device()); };
  const int64_t h = model.n_kv_heads, d = model.head_dim;
  Input input{.name = "ordinary", .q = {}, .k = {}, .v = {}};
  input.q = normal({model.n_heads, n_tokens, d});
  input.k = normal({h, n_tokens, d}) * normal({h, 1, d}).exp() + 2 * normal({h, 1, d});
  input.v = normal({h, n_tokens, d});
  return input;
}

std::vector<Input> adversarial_inputs(const ModelShape& model, int64_t n_tokens) {
  const auto ordinary = ordinary_input(model, n_tokens, 2);
  const auto variant = [&](const char* name, const at::Tensor& k, const at::Tensor& v) {
    return Input{name, ordinary.q, k.contiguous(), v.contiguous()};
  };
  auto huge = ordinary.k.clone();
  huge.view(-1)[huge.numel() / 2] = 2e4f;
  const auto ones = at::ones_like(ordinary.k);
  return {variant("constant", 1.5f * ones, -0.3f * ones),
          variant("all negative", -ordinary.k.abs() - 1, -ordinary.v.abs() - 1),
          variant("one huge outlier", huge, huge), variant("zeros", 0 * ones, 0 * ones),
          variant("tiny", 1e-6f * ordinary.k, 1e-6f * ordinary.v)};
}

std::vector<Input> extreme_inputs(const ModelShape& model, int64_t n_tokens) {
  const auto ordinary = ordinary_input(model, n_tokens, 4);
  const auto variant = [&](const char* name, float largest) {
    return Input{name, ordinary.q, largest * ordinary.k.clamp(-1, 1), largest * ordinary.v.clamp(-1, 1)};
  };
  return {variant("all near fp16's largest", 6e4f), variant("beyond fp16's largest", 1e6f),
          variant("below fp16's smallest", 1e-30f)};
}

NewTokens tokens_of(const Input& input, int64_t first, int64_t n_tokens) {
  return {.q = input.q.narrow(1, first, n_tokens),
          .k = input.k.narrow(1, first, n_tokens),
          .v = input.v.narrow(1, first, n_tokens),
          .first_position = first};
}

}  // namespace kvc::conformance
