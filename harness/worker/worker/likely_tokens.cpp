#include "worker/likely_tokens.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <numbers>

namespace kvc {
namespace {

constexpr int64_t kComputed = 128;  // tokens that the model reads: of a large one some seconds
constexpr int64_t kAtOnce = 2048;
constexpr uint64_t kIdSeed = 20;

// x: [H, n, D]; its channels i and i + R/2 are rotated by the angle of each of n positions; those from R on stay.
at::Tensor turned(const at::Tensor& x, const at::Tensor& frequencies, const at::Tensor& positions) {
  const auto angles = positions.to(at::kDouble).unsqueeze(1) * frequencies.unsqueeze(0);
  const auto cos = angles.cos().to(at::kFloat), sin = angles.sin().to(at::kFloat);
  const int64_t half = frequencies.size(0);
  const auto a = x.narrow(2, 0, half), b = x.narrow(2, half, half);
  return at::cat({a * cos - b * sin, b * cos + a * sin, x.narrow(2, 2 * half, x.size(2) - 2 * half)}, 2);
}

}  // namespace

LikelyTokens::LikelyTokens(const Transformer& model) {
  const auto& config = model.config();
  const int64_t n = std::min(kComputed, config.max_position_embeddings - 1);
  const auto drawn = at::randint(config.vocab_size, {n}, at::detail::createCPUGenerator(kIdSeed), at::kLong);
  std::vector<int64_t> ids(drawn.const_data_ptr<int64_t>(), drawn.const_data_ptr<int64_t>() + n);
  if (!config.bos_token_ids.empty()) ids.front() = config.bos_token_ids.front();
  const int64_t chosen = model.shape().n_layers / 2;
  model.prefill(ids, [&](int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    if (layer != chosen) return;
    type_ = k.scalar_type();
    const auto kept = [](const at::Tensor& x) { return x.to(at::kCPU).to(at::kFloat, false, true); };
    q_ = kept(q), k_ = kept(k), v_ = kept(v);
  });
  const auto info = model.layer_info(chosen, 0);
  if (info.rope_frequencies.empty()) return;
  frequencies_ = at::empty({static_cast<int64_t>(info.rope_frequencies.size())}, at::kDouble);
  std::copy(info.rope_frequencies.begin(), info.rope_frequencies.end(), frequencies_.mutable_data_ptr<double>());
}

NewTokens LikelyTokens::tokens(int64_t n, uint64_t seed) const {
  return {mixed(q_, true, n, seed), mixed(k_, true, n, seed), mixed(v_, false, n, seed), 0};
}

// The first token, which all others attend to, is like no other: it is in no mixture.
at::Tensor LikelyTokens::mixed(const at::Tensor& x, bool turns, int64_t n, uint64_t seed) const {
  const int64_t n_computed = x.size(1), n_first = std::min(n, n_computed);
  auto out = at::empty({x.size(0), n, x.size(2)}, type_);
  out.narrow(1, 0, n_first).copy_(x.narrow(1, 0, n_first));
  if (n == n_first || n_computed < 2) return n == n_first ? out : out.copy_(x.narrow(1, 0, 1).expand(out.sizes()));
  turns &= frequencies_.defined();
  const auto plain = turns ? turned(x, frequencies_, -at::arange(n_computed)) : x;
  const auto mean = plain.narrow(1, 1, n_computed - 1).mean(1, true), spread = plain - mean;
  auto generator = at::detail::createCPUGenerator(seed);
  for (int64_t first = n_first; first < n; first += kAtOnce) {
    const int64_t m = std::min(kAtOnce, n - first);
    const auto row = [&] { return spread.index_select(1, at::randint(1, n_computed, {m}, generator, at::kLong)); };
    const auto angle = at::rand({m, 1}, generator, at::TensorOptions(at::kFloat)) * (2 * std::numbers::pi);
    const auto one = row(), other = row();
    auto tokens = mean + one * angle.cos() + other * angle.sin();
    if (turns) tokens = turned(tokens, frequencies_, at::arange(first, first + m));
    out.narrow(1, first, m).copy_(tokens);
  }
  return out;
}

}  // namespace kvc
