// `plugin NAME ...`: what a plugin holds of a prompt that comes with its queries; zeros where it evicts. A record with
// a `lead_in` is of a method that acts at the prompt's end: on two layers, whose second has K for V and V for K; the
// pass over a chunk reads the `lead_in` tokens before it and the chunk, with V for its own keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "kvc/joint_prefill.h"
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

void observe(const ObservationPass& pass, LayerCache& cache, const NewTokens& prompt, int64_t lead_in) {
  const int64_t n = prompt.k.size(1), step = pass.observation().chunk_tokens;
  for (int64_t first = 0; first < n; first += step) {
    const int64_t n_chunk = std::min(step, n - first), begin = std::max<int64_t>(0, first - lead_in);
    const auto read = [&](const at::Tensor& x) { return x.narrow(1, begin, first + n_chunk - begin); };
    pass.observe(cache, {read(prompt.q), read(prompt.v), prompt.k, first, n_chunk});
  }
}

void end_prompt(const Compressor& compressor, LayerCache& first, const LayerInfo& info, const NewTokens& prompt,
                int64_t lead_in) {
  const auto& pass = dynamic_cast<const ObservationPass&>(compressor);
  auto of_second = info;
  of_second.layer = 1;
  const auto second = compressor.make_cache(of_second);
  const NewTokens swapped = {.q = prompt.q, .k = prompt.v, .v = prompt.k};
  second->append(swapped);
  observe(pass, first, prompt, lead_in);
  observe(pass, *second, swapped, lead_in);
  finish_prefill(compressor, std::to_array({&first, second.get()}));
}

}  // namespace

void reproduce_plugin(const OracleSet& set, const Record& record) {
  const auto k = set.input("K_" + record.tag), v = set.input("V_" + record.tag), q = set.input("Q_" + record.tag);
  const auto frequencies = record.fields.value("rope_frequencies", std::vector<float>{});
  const auto name = record.fields.at("plugin").get<std::string>();
  const auto compressor = conformance::plugin(name).make(record.fields.at("options"));
  const auto info = layer_of(record, k, frequencies);
  const auto cache = compressor->make_cache(info);
  const NewTokens prompt = {.q = q, .k = k, .v = v};
  cache->append(prompt);
  if (record.fields.contains("lead_in")) {
    end_prompt(*compressor, *cache, info, prompt, record.fields.at("lead_in").get<int64_t>());
  }
  const auto held = cache->dequantize();
  const auto y = at_their_places(record.of_keys() ? held.k : held.v, cache->positions(), record.of_keys() ? k : v);
  expect_reproduced(set, record, y, {.samples = 1e-5, .n_beyond = 0, .rel_fro = 1e-5, .max_abs = 1e-5}, name);
}

}  // namespace kvc::census
