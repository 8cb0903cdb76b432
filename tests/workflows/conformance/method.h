// For the tests of single plugins: a compressor by its name, caches of it, and attention in float64.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>

#include "inputs.h"
#include "plugin_loader/plugin_library.h"

namespace kvc::conformance {

// Opened once. Options of a plugin go in as JSON, none for its defaults.
inline const PluginLibrary& plugin(const std::string& name) {
  static std::map<std::string, PluginLibrary> libraries;
  return libraries.try_emplace(name, std::filesystem::path(KVC_BINARY_DIR) / "plugins" / (name + ".so")).first->second;
}

class Method {
 public:
  explicit Method(const std::string& name, const nlohmann::json& options = nullptr)
      : compressor_(plugin(name).make(options)) {}

  const Compressor& compressor() const { return *compressor_; }

  // The first n_prompt tokens at once, the rest one by one.
  std::unique_ptr<LayerCache> cache(const ModelShape& model, const Input& input, int64_t n_prompt) const {
    compressor_->check_model(model);
    auto cache = compressor_->make_cache(layer_info(model, 1, 7, {}));
    cache->append(tokens_of(input, 0, n_prompt));
    for (int64_t t = n_prompt; t < input.k.size(1); ++t) cache->append(tokens_of(input, t, 1));
    return cache;
  }

 private:
  std::unique_ptr<Compressor> compressor_;
};

// A cache that a test appends to.
struct OpenCache {
  OpenCache(const std::string& name, const nlohmann::json& options, const LayerInfo& info)
      : compressor(plugin(name).make(options)), cache(compressor->make_cache(info)) {}
  LayerCache* operator->() const { return cache.get(); }
  void append(const at::Tensor& k, const at::Tensor& v) const {
    cache->append({.q = {}, .k = k, .v = v, .first_position = cache->length()});
  }

  std::unique_ptr<Compressor> compressor;
  std::unique_ptr<LayerCache> cache;
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

// cache.attend of one query after all tokens, against attention over what the cache gives back.
inline void expect_attends(const LayerCache& cache, const at::Tensor& q, double scale) {
  const auto expected = attention_f64(q, cache.attended(), scale);
  const auto error = (cache.attend(q, scale).to(at::kDouble) - expected).abs().max().item<double>();
  ASSERT_LE(error, 2e-5 * expected.abs().max().item<double>());
}

// Decodes one token at a time; attend must equal float64 attention over attended() at every fifth step.
inline void expect_decoding_holds(const Method& method, const ModelShape& model, int64_t n_prompt, int64_t n_steps) {
  const auto input = ordinary_input(model, n_prompt + n_steps, 3);
  const double scale = 1 / std::sqrt(static_cast<double>(model.head_dim));
  const auto cache = method.compressor().make_cache(layer_info(model, 1, 7, {}));
  cache->append(tokens_of(input, 0, n_prompt));
  for (int64_t t = n_prompt; t < n_prompt + n_steps; ++t) {
    cache->append(tokens_of(input, t, 1));
    if (t % 5 != 4) continue;
    SCOPED_TRACE(t);
    expect_attends(*cache, input.q.narrow(1, t, 1), scale);
  }
}

}  // namespace kvc::conformance
