// `plugin NAME ...`: what a plugin holds of a prompt that comes with its queries; zeros where it evicts.
#include <gtest/gtest.h>

#include "method.h"
#include "records.h"

namespace kvc::census {
namespace {

LayerInfo layer_of(const Record& record, const at::Tensor& k, std::span<const float> frequencies) {
  return {.layer = record.fields.value("layer", int64_t{0}),
          .n_layers = record.fields.value("n_layers", int64_t{1}),
          .n_heads = record.fields.at("n_heads").get<int64_t>(),
          .n_kv_heads = k.size(0),
          .head_dim = k.size(2),
          .rope_frequencies = frequencies};
}

// Held tokens where they stood in the prompt.
at::Tensor at_their_places(const at::Tensor& held, const at::Tensor& positions, const at::Tensor& x) {
  auto y = at::zeros_like(x);
  for (int64_t h = 0; h < x.size(0); ++h) {
    const auto row = positions[h];
    const auto is_held = row.ge(0);
    const auto places = row.masked_select(is_held).to(at::kLong);
    y[h].index_copy_(0, places, held[h].index_select(0, is_held.nonzero().squeeze(1)));
  }
  return y;
}

}  // namespace

void reproduce_plugin(const OracleSet& set, const Record& record) {
  const auto k = set.input("K_" + record.tag), v = set.input("V_" + record.tag), q = set.input("Q_" + record.tag);
  const auto frequencies = record.fields.value("rope_frequencies", std::vector<float>{});
  const auto name = record.fields.at("plugin").get<std::string>();
  const auto compressor = conformance::plugin(name).make(record.fields.at("options"));
  const auto cache = compressor->make_cache(layer_of(record, k, frequencies));
  cache->append({.q = q, .k = k, .v = v});
  const auto held = cache->dequantize();
  const auto y = at_their_places(record.of_keys() ? held.k : held.v, cache->positions(), record.of_keys() ? k : v);
  expect_reproduced(set, record, y, {.samples = 1e-5, .n_beyond = 0, .rel_fro = 1e-5, .max_abs = 1e-5}, name);
}

}  // namespace kvc::census
