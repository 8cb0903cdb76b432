#include "conformance/filled_cache.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "kvc/calibration.h"
#include "kvc/joint_prefill.h"
#include "kvc/split_attention.h"
#include "sandbox/device_writes.h"
#include "sandbox/private_tokens.h"
#include "sandbox/sandboxed_call.h"

namespace kvc::conformance {
namespace {

constexpr int kCheckAccount = ledger::kAccounts - 1;  // what a plugin opens is noted there

// Runs the plugin's code on copies of the tokens; on a device decoded ones are stored as in a generator's step.
template <class Body>
void on_copies(const NewTokens& tokens, const Body& body) {
  const auto device = (tokens.k.defined() ? tokens.k : tokens.v).device();
  std::optional<StepWrites> writes;
  if (!device.is_cpu() && tokens.kind == AppendKind::decoded) writes.emplace(device, 1, launch_of_writes(device));
  PrivateTokens copies;
  copies.copy_in(tokens);
  if (writes) writes->run();
  ledger::forget_opened(kCheckAccount);
  const HostState before;
  {
    const ledger::Scope scope(kCheckAccount);
    body(copies.tokens());
  }
  if (writes) writes->run();
  check_left_behind(before, kCheckAccount);
  copies.reclaim();
  copies.invalidate();
  if (writes) writes->run();
}

}  // namespace

std::span<const float> frequencies_of(const ModelShape& model) {
  if (!model.has_rope) return {};
  static std::map<int64_t, std::vector<float>> by_channels;
  const int64_t n = model.n_rotated_channels;
  auto& frequencies = by_channels[n];
  for (int64_t i = static_cast<int64_t>(frequencies.size()); i < n / 2; ++i) {
    frequencies.push_back(std::pow(1e4f, -2.f * static_cast<float>(i) / static_cast<float>(n)));
  }
  return frequencies;
}

at::Tensor sinks_of(const ModelShape& model) {
  if (!model.has_sinks) return {};
  static std::map<std::pair<int64_t, c10::DeviceType>, at::Tensor> made;
  auto& sinks = made[{model.n_heads, check_device().type()}];
  if (!sinks.defined()) sinks = at::linspace(-2, 4, model.n_heads, at::TensorOptions(at::kFloat)).to(check_device());
  return sinks;
}

LayerInfo info_of(const ModelShape& model, int64_t layer, uint64_t sequence_key) {
  return layer_info(model, layer, sequence_key, frequencies_of(model), check_device(), sinks_of(model));
}

std::unique_ptr<Compressor> make_compressor(const Subject& subject) {
  sinks_of(subject.model);  // the model's, not a cache's: allocated before a check counts bytes
  auto compressor = subject.plugin.make(subject.options);
  compressor->check_model(subject.model);
  auto* method = dynamic_cast<Calibrated*>(compressor.get());
  if (!method || method->calibration_file().empty()) return compressor;
  const auto calibrator = method->make_calibrator(subject.model);
  for (const uint64_t piece : {11, 12}) {
    for (int64_t layer = 0; layer < subject.model.n_layers; ++layer) {
      const auto input = ordinary_input(subject.model, 150, piece);
      calibrator->observe(layer_info(subject.model, layer, piece, frequencies_of(subject.model)),
                          {input.k.cpu(), input.v.cpu(), {}, {}, input.q.cpu()});  // where the program calibrates
    }
  }
  method->load(subject.model, calibrator->finish());
  return compressor;
}

Made make(const Subject& subject) {
  Made made{make_compressor(subject), nullptr};
  made.cache = make_cache(*made.compressor, subject);
  return made;
}

std::unique_ptr<LayerCache> make_cache(const Compressor& compressor, const Subject& subject) {
  return compressor.make_cache(info_of(subject.model, subject.model.n_layers - 1, 7));
}

void append(LayerCache& cache, const NewTokens& tokens) {
  on_copies(tokens, [&](const NewTokens& copies) { cache.append(copies); });
}

void observe_copied(const Compressor& compressor, LayerCache& cache, const NewTokens& prompt) {
  on_copies(prompt, [&](const NewTokens& copies) { observe_itself(compressor, cache, copies); });
}

void append_prompt(const Compressor& compressor, LayerCache& cache, const NewTokens& prompt) {
  append(cache, prompt);
  observe_copied(compressor, cache, prompt);
  finish_prefill(compressor, std::to_array({&cache}));
}

void fill(const Compressor& compressor, LayerCache& cache, const Input& input, int64_t n_prompt) {
  append_prompt(compressor, cache, tokens_of(input, 0, n_prompt));
  for (int64_t t = n_prompt; t < input.k.size(1); ++t) append(cache, tokens_of(input, t, 1));
}

Made filled(const Subject& subject, const Input& input, int64_t n_prompt) {
  auto made = make(subject);
  fill(*made.compressor, *made.cache, input, n_prompt);
  return made;
}

double relative_error(const at::Tensor& x, const at::Tensor& y) {
  const auto exact = y.to(at::kDouble);
  return (x.to(at::kDouble) - exact).norm().item<double>() / std::max(exact.norm().item<double>(), 1e-30);
}

bool equal(const KeyValue& a, const KeyValue& b) { return at::equal(a.k, b.k) && at::equal(a.v, b.v); }

bool is_finite(const KeyValue& kv) { return kv.k.isfinite().all().item<bool>() && kv.v.isfinite().all().item<bool>(); }

namespace {

// Its own scores, a softmax over what each query sees, its own weighted sum.
at::Tensor attention_in_halves(const SplitAttention& halves, const LayerCache& cache, const at::Tensor& q,
                               const LayerInfo& layer) {
  const auto positions = cache.positions();
  const int64_t n_heads = positions.size(0), n_queries = q.size(1), n_held = positions.size(1);
  const auto key = positions.unsqueeze(1);
  const auto query = at::arange(cache.length() - n_queries, cache.length(), positions.options()).view({1, -1, 1});
  auto hidden = key.gt(query).logical_or(key.lt(0));  // [H_kv, T_q, T_kept]
  if (layer.sliding_window > 0) hidden.logical_or_(key.le(query - layer.sliding_window));
  const auto scores = halves.scores(q, layer.attention_scale).view({n_heads, -1, n_queries, n_held});
  return halves.mix(attention_weights(scores, hidden.unsqueeze(1), layer).view({q.size(0), n_queries, n_held}));
}

}  // namespace

void compare_attention(const LayerCache& cache, const Input& input, const ModelShape& model, int64_t n_queries,
                       Outcome& outcome, int64_t layer) {
  const int64_t length = cache.length();
  const auto q = input.q.narrow(1, length - n_queries, n_queries);
  const auto got = cache.attend(q, model.attention_scale);
  if (got.sizes() != q.sizes() || got.scalar_type() != at::kFloat) {
    outcome.complaints.push_back(concat("attend gives ", got.sizes(), " ", got.scalar_type(), " for q ", q.sizes()));
    return;
  }
  const auto query = cache.attended_query(q);
  expect(query.sizes() == q.sizes() && relative_error(query, q) < 0.02, "attended_query() is far from the query",
         outcome);
  const auto expected = reference_attention(query, cache.attended(), cache.positions(), length, model.attention_scale,
                                            info_of(model, layer, 0));
  const auto compare = [&](const char* what, const at::Tensor& attention) {
    const double error = (attention - expected).abs().max().item<double>(), size = expected.abs().max().item<double>();
    expect(error <= 1e-4 * size,
           concat(what, " differs from the reference by ", error, " (largest entry ", size, ") at ", length,
                  " tokens, ", n_queries, " queries"),
           outcome);
  };
  compare("attend", got);
  const auto* halves = dynamic_cast<const SplitAttention*>(&cache);
  if (halves) compare("scores() and mix()", attention_in_halves(*halves, cache, q, info_of(model, layer, 0)));
}

}  // namespace kvc::conformance
