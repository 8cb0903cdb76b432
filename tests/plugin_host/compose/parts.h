// Plugins as parts of compositions, and caches filled by hand, for tests.
#pragma once

#include <ATen/ATen.h>

#include "compose/compose.h"
#include "conformance/inputs.h"
#include "kvc/joint_prefill.h"
#include "plugin_loader/plugin_library.h"
#include "support/message_of.h"

namespace kvc::test {

inline const ModelShape kModel{.n_layers = 4, .n_heads = 4, .n_kv_heads = 2, .head_dim = 64};
inline constexpr char kKivi[] = R"({"bits": 2, "group_size": 32, "recent": 32})";

inline Part plugin_part(const std::string& name, const std::string& options = "{}") {
  const PluginLibrary library(std::filesystem::path(KVC_BINARY_DIR) / "plugins" / (name + ".so"));
  auto compressor = library.make(nlohmann::json::parse(options));
  return {name, std::move(compressor), library.descriptor().capabilities};
}

inline std::vector<Part> parts(Part a, Part b) {
  std::vector<Part> both;
  both.push_back(std::move(a));
  both.push_back(std::move(b));
  return both;
}

inline std::vector<Part> parts(Part a, Part b, Part c) {
  auto all = parts(std::move(a), std::move(b));
  all.push_back(std::move(c));
  return all;
}

inline LayerInfo info_of(int64_t layer, Holds holds = Holds::both) {
  auto info = layer_info(kModel, layer, 7, {});
  info.holds = holds;
  return info;
}

// The prompt at once, the rest one by one.
inline std::unique_ptr<LayerCache> filled(const Compressor& compressor, const LayerInfo& info,
                                          const conformance::Input& input, int64_t n_prompt) {
  auto cache = compressor.make_cache(info);
  const auto prompt = conformance::tokens_of(input, 0, n_prompt);
  cache->append(prompt);
  observe_itself(compressor, *cache, prompt);
  finish_prefill(compressor, std::to_array({cache.get()}));
  for (int64_t t = n_prompt; t < input.k.size(1); ++t) cache->append(conformance::tokens_of(input, t, 1));
  return cache;
}

inline bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || at::equal(a, b));
}
inline bool same(const KeyValue& a, const KeyValue& b) { return same(a.k, b.k) && same(a.v, b.v); }

inline double squares(const at::Tensor& x) { return x.to(at::kDouble).square().sum().item<double>(); }

inline int64_t bytes_of(const LayerCache& cache, CacheTensor tensor) {
  int64_t sum = 0;
  const auto footprint = cache.footprint();
  for (const auto& row : footprint.rows()) sum += row.tensor == tensor ? row.bytes : 0;
  return sum;
}

inline std::vector<int64_t> stage_bytes(const LayerCache& cache) {
  std::vector<int64_t> bytes;
  for (const auto& use : dynamic_cast<const ComposedCache&>(cache).stages()) bytes.push_back(use.bytes.total_bytes());
  return bytes;
}

// The message of the Error that `action` throws, or "no error".
}  // namespace kvc::test
