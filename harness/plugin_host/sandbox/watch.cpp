#include "sandbox/watch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace kvc {
namespace {

constexpr double kAttentionTolerance =
    0.01;                                 // of attend() against attention over attended(): roundings of large scores
constexpr double kRoundings = 4;          // of the most that rounding to fp16 was seen to change, on a device
constexpr double kErrorThatShows = 1e-3;  // of attention: below it nothing tells exact from held
constexpr int64_t kTokensLookedAt = 128;

double length_of(const at::Tensor& x) { return at::linalg_vector_norm(x.to(at::kFloat)).item<double>(); }
double relative(const at::Tensor& x, const at::Tensor& exact) {
  return length_of(x.to(at::kFloat) - exact) / std::max(length_of(exact), 1e-30);
}

// The most that attention (of a query, over keys) changes when kernels round both to fp16. These do it in units of
// their own, and of large scores such roundings are amplified: so in several units.
template <class Attention>
double change_by_fp16(const at::Tensor& q, const at::Tensor& k, const Attention& attention) {
  const auto exact = attention(q, k);
  double most = 0;
  for (const double unit : {1.0, 1.09, 1.19, 1.30, 1.41, 1.54, 1.68, 1.83}) {
    const auto rounded = [&](const at::Tensor& x) {
      return (x.to(at::kFloat) * unit).to(at::kHalf).to(at::kFloat) / unit;
    };
    most = std::max(most, relative(attention(rounded(q), rounded(k)), exact));
  }
  return most;
}

// Of a token, all heads side by side, its principal components' variances among at most kTokensLookedAt tokens.
std::vector<double> principal_variances(const at::Tensor& x) {
  const int64_t n_tokens = x.size(1), step = (n_tokens + kTokensLookedAt - 1) / kTokensLookedAt;
  auto tokens = x.slice(1, 0, n_tokens, step).to(at::kCPU, at::kDouble).transpose(0, 1).flatten(1);
  tokens = tokens - tokens.mean(0, true);
  const auto gram = tokens.size(0) < tokens.size(1) ? tokens.matmul(tokens.t()) : tokens.t().matmul(tokens);
  if (!std::isfinite(gram.sum().item<double>())) return {};  // the compressor's to refuse
  const auto values = at::linalg_eigvalsh(gram).flip(0).contiguous() / static_cast<double>(tokens.size(0));
  std::vector<double> variances(values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel());
  std::erase_if(variances, [&](double v) { return !(v > 1e-12 * variances.front()); });
  return variances;
}

// The least mean square error of a Gaussian with these variances in so many bits: each component that is coded keeps
// the same error (Cover and Thomas, Elements of Information Theory, 2nd ed., theorem 10.3.3).
double least_square_error(const std::vector<double>& variances, double bits) {
  double log_sum = 0, rest = 0;
  for (const double v : variances) rest += v;
  double level = variances.empty() ? 0 : variances.front();
  for (size_t n = 1; n <= variances.size(); ++n) {  // the n largest are coded
    log_sum += std::log2(variances[n - 1]);
    rest -= variances[n - 1];
    level = std::exp2((log_sum - 2 * bits) / static_cast<double>(n));
    if (n == variances.size() || level >= variances[n]) return static_cast<double>(n) * level + std::max(0.0, rest);
  }
  return 0;
}

// x: [H_kv, T, D] at the positions that are held; positions: [H_kv, T_kept], -1 where a head keeps fewer
at::Tensor at_positions(const at::Tensor& x, const at::Tensor& positions) {
  if (positions.size(1) == x.size(1)) return x;
  return x.gather(1, positions.clamp_min(0).unsqueeze(2).expand({x.size(0), positions.size(1), x.size(2)}));
}

int64_t bits_of(const Footprint& footprint, CacheTensor tensor) {
  int64_t bytes = 0;
  for (const auto& row : footprint.rows()) {
    KVC_CHECK(row.bytes >= 0, "footprint() has ", row.bytes, " bytes of ", to_string(row.kind));
    if (row.tensor == tensor || row.tensor == CacheTensor::shared) bytes += row.bytes;
  }
  return 8 * bytes;
}

}  // namespace

void check_attention(const at::Tensor& attention, const at::Tensor& q) {
  KVC_CHECK(attention.defined(), "attend gave no tensor");
  KVC_CHECK(attention.sizes() == q.sizes() && attention.device() == q.device(), "attend gave sizes ", attention.sizes(),
            " on ", attention.device(), ", expected ", q.sizes(), " on ", q.device());
}

WatchedPrompt::WatchedPrompt(const LayerInfo& info, const at::Tensor& k, const at::Tensor& v, double bits_granted)
    : info_(info),
      given_{k.to(at::kFloat, false, true), v.to(at::kFloat, false, true)},
      bits_granted_(bits_granted),
      k_variances_(principal_variances(given_.k)),
      v_variances_(principal_variances(given_.v)) {}

double WatchedPrompt::least_error(const std::vector<double>& variances, const at::Tensor& x, int64_t bits) const {
  const auto n_tokens = static_cast<double>(x.size(1)), n_numbers = static_cast<double>(x.size(0) * x.size(2));
  const double square = length_of(x) * length_of(x) / n_tokens;
  if (variances.empty() || square <= 0) return 0;
  const double bits_a_token = static_cast<double>(bits) / n_tokens + bits_granted_ * n_numbers;
  return std::sqrt(least_square_error(variances, bits_a_token) / square);
}

void Watch::look_at_prompt(const LayerCache& cache, const at::Tensor& q) const {
  const auto& info = prompt_->info();
  const auto last = q.narrow(1, q.size(1) - 1, 1).to(at::kFloat);
  const auto held = compare(cache, last, cache.attend(last, info.attention_scale));

  const auto& given = prompt_->given();
  const auto positions = cache.positions();
  if (positions.size(1) != given.k.size(1)) return;  // what is evicted is error enough
  const auto footprint = cache.footprint();
  for (const bool is_k : {true, false}) {
    const int64_t bits = bits_of(footprint, is_k ? CacheTensor::k : CacheTensor::v);
    if (bits >= 16 * given.k.numel()) continue;  // as exact as what was given
    const double error = is_k ? relative(held.k, given.k) : relative(held.v, given.v);
    const double least = is_k ? prompt_->least_k_error(bits) : prompt_->least_v_error(bits);
    KVC_CHECK(error >= least, "layer ", info.layer, ": ", is_k ? "K" : "V", " comes back with a relative error of ",
              error, " from ", static_cast<double>(bits) / static_cast<double>(given.k.numel()),
              " bits/value, which cannot give less than ", least);
  }
}

bool Watch::add(const NewTokens& token) {
  k_.push_back(token.k.to(at::kFloat, false, true));
  v_.push_back(token.v.to(at::kFloat, false, true));
  if (k_.size() <= next_look_) return false;
  next_look_ = 4 * k_.size() + random_() % (8 * k_.size());
  return true;
}

KeyValue Watch::compare(const LayerCache& cache, const at::Tensor& q, const at::Tensor& attention) const {
  auto given = prompt_->given();
  if (!k_.empty()) {
    auto k = k_, v = v_;
    k.insert(k.begin(), given.k);
    v.insert(v.begin(), given.v);
    given = {at::cat(k, 1), at::cat(v, 1)};
  }
  check_attention(attention, q);
  const auto& info = prompt_->info();
  const int64_t n_tokens = given.k.size(1);
  const auto positions = cache.positions();
  const auto all = at::arange(n_tokens, positions.options()).expand({given.k.size(0), n_tokens});
  const auto attended = cache.attended();
  const auto over = [&](const at::Tensor& queries, const KeyValue& kv, const at::Tensor& at) {
    return reference_attention(queries, kv, at, n_tokens, info.attention_scale, info.sliding_window);
  };
  const auto exact = over(q, given, all), held = over(q, attended, positions);
  const double from_held = relative(attention, held), from_exact = relative(attention, exact);
  const double held_from_exact = relative(held, exact);
  KVC_CHECK(std::isfinite(from_held), "layer ", info.layer, ": attention over ", n_tokens, " tokens is not finite");
  double allowed = kAttentionTolerance;
  if (from_held > allowed && !q.is_cpu()) {
    const auto over_keys = [&](const auto& queries, const auto& k) {
      return over(queries, {k, attended.v}, positions);
    };
    allowed = std::max(allowed, kRoundings * change_by_fp16(q, attended.k, over_keys));
  }
  const bool is_nearer = held_from_exact > kErrorThatShows && from_exact < held_from_exact / 4;
  KVC_CHECK(from_held <= allowed && !is_nearer, "layer ", info.layer, ": attention over ", n_tokens, " tokens is ",
            from_held, " away from attention over the cache's own attended() (allowed: ", allowed, "), and ",
            from_exact, " from exact attention, but attended() is ", held_from_exact, " from it");

  auto nearest = cache.dequantize();
  for (const bool is_k : {true, false}) {
    const auto &x = is_k ? nearest.k : nearest.v, &y = is_k ? attended.k : attended.v;
    if (at::equal(x, y)) continue;
    const auto exact_kept = at_positions(is_k ? given.k : given.v, positions);
    const double nearest_error = relative(x, exact_kept), attended_error = relative(y, exact_kept);
    KVC_CHECK(attended_error >= 0.98 * nearest_error, "layer ", info.layer, ": attended() gives ", is_k ? "K" : "V",
              " with a relative error of ", attended_error, ", smaller than that of dequantize(), ", nearest_error,
              ", which must return the best reconstruction");
  }
  return nearest;
}

}  // namespace kvc
