// For the tests of single plugins: keys and values, a cache filled with them, and attention in float64.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "compressors/plugin_library.h"

namespace kvc::conformance {

struct Tokens {
  at::Tensor q, k, v;  // [H_q, T, D], [H_kv, T, D] fp32
  NewTokens part(int64_t first, int64_t n) const {
    return {q.narrow(1, first, n), k.narrow(1, first, n), v.narrow(1, first, n), first};
  }
};

// Keys have a bias and a spread of their own for each channel, as real ones do.
inline Tokens random_tokens(const ModelShape& model, int64_t n, uint64_t seed = 1) {
  auto generator = at::detail::createCPUGenerator(seed);
  const auto normal = [&](at::IntArrayRef sizes) { return at::randn(sizes, generator, at::kFloat); };
  const int64_t h = model.n_kv_heads, d = model.head_dim;
  const auto bias = 2 * normal({h, 1, d}), spread = normal({h, 1, d}).exp();
  return {normal({model.n_heads, n, d}), normal({h, n, d}) * spread + bias, normal({h, n, d})};
}

class Method {
 public:
  Method(const std::string& name, const nlohmann::json& options)
      : library_(std::filesystem::path(KVC_BINARY_DIR) / "plugins" / (name + ".so")),
        compressor_(library_.make(options)) {}

  const Compressor& compressor() const { return *compressor_; }

  // The first n_prompt tokens at once, the rest one by one.
  std::unique_ptr<LayerCache> cache(const ModelShape& model, const Tokens& tokens, int64_t n_prompt) const {
    compressor_->check_model(model);
    auto cache = compressor_->make_cache(layer_info(model, 1, 7, {}));
    cache->append(tokens.part(0, n_prompt));
    for (int64_t t = n_prompt; t < tokens.k.size(1); ++t) cache->append(tokens.part(t, 1));
    return cache;
  }

 private:
  PluginLibrary library_;
  std::unique_ptr<Compressor> compressor_;
};

// softmax(q k^T scale) v in float64, one query after all tokens: q [H_q, 1, D] -> [H_q, 1, D]
inline at::Tensor attention_f64(const at::Tensor& q, const KeyValue& kv, double scale) {
  const int64_t group = q.size(0) / kv.k.size(0);
  const auto k = kv.k.to(at::kDouble).repeat_interleave(group, 0), v = kv.v.to(at::kDouble).repeat_interleave(group, 0);
  return at::matmul(at::softmax(at::matmul(q.to(at::kDouble), k.transpose(1, 2)) * scale, -1), v);
}

inline double relative_error(const at::Tensor& x, const at::Tensor& exact) {
  const auto e = exact.to(at::kDouble);
  return ((x.to(at::kDouble) - e).norm() / e.norm()).item<double>();
}

// Decodes one token at a time; attend must equal float64 attention over attended() at every fifth step.
inline void expect_decoding_holds(const Method& method, const ModelShape& model, int64_t n_prompt, int64_t n_steps) {
  const auto tokens = random_tokens(model, n_prompt + n_steps, 3);
  const double scale = 1 / std::sqrt(static_cast<double>(model.head_dim));
  const auto cache = method.compressor().make_cache(layer_info(model, 1, 7, {}));
  cache->append(tokens.part(0, n_prompt));
  for (int64_t t = n_prompt; t < n_prompt + n_steps; ++t) {
    cache->append(tokens.part(t, 1));
    if (t % 5 != 4) continue;
    const auto q = tokens.q.narrow(1, t, 1);
    const auto expected = attention_f64(q, cache->attended(), scale);
    const auto got = cache->attend(q, scale).to(at::kDouble);
    ASSERT_LT((got - expected).abs().max().item<double>(), 2e-5 * expected.abs().max().item<double>()) << "step " << t;
  }
}

}  // namespace kvc::conformance
