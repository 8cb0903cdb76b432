#include "sandbox/audit.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace kvc {
namespace {

constexpr double kAttentionTolerance =
    0.01;                                 // of attend() against attention over attended(): roundings of large scores
constexpr double kQueryRounding = 0.02;   // of a query: 8 bits in blocks change it by less than 0.01
constexpr double kRoundings = 4;          // of the most that rounding to fp16 was seen to change, on a device
constexpr double kErrorThatShows = 1e-3;  // of attention: below it nothing tells exact from held
constexpr int64_t kTokensSampled = 128;

double length_of(const at::Tensor& x) { return at::linalg_vector_norm(x.to(at::kFloat)).item<double>(); }
double squares_of(const at::Tensor& x) { return length_of(x) * length_of(x); }
double relative(const at::Tensor& x, const at::Tensor& exact) {
  return length_of(x.to(at::kFloat) - exact) / std::max(length_of(exact), 1e-30);
}

// The most that attention (of a query, over keys) changes when kernels round both to fp16. Kernels scale before they
// round, and large scores amplify the rounding errors: so at several scales.
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

// Of a token, all heads concatenated, its principal components' variances among at most kTokensSampled tokens.
std::vector<double> principal_variances(const at::Tensor& x) {
  const int64_t n_tokens = x.size(1), step = (n_tokens + kTokensSampled - 1) / kTokensSampled;
  auto tokens = x.slice(1, 0, n_tokens, step).to(at::kCPU, at::kDouble).transpose(0, 1).flatten(1);
  tokens = tokens - tokens.mean(0, true);
  const auto gram = tokens.size(0) < tokens.size(1) ? tokens.matmul(tokens.t()) : tokens.t().matmul(tokens);
  if (!std::isfinite(gram.sum().item<double>())) return {};  // the compressor's to refuse
  const auto values = at::linalg_eigvalsh(gram).flip(0).contiguous() / static_cast<double>(tokens.size(0));
  std::vector<double> variances(values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel());
  std::erase_if(variances, [&](double v) { return !(v > 1e-12 * variances.front()); });
  return variances;
}

at::Tensor masked(const at::Tensor& x, const at::Tensor& positions) {
  const auto none = positions.lt(0);
  return none.any().item<bool>() ? x.masked_fill(none.unsqueeze(2), 0) : x;
}

// Heads that have equally many tokens, and the principal components of a token over all of them.
struct Components {
  int64_t n_tokens;
  std::vector<double> variances;
};

// The least square error of Gaussian tokens with these variances in `bits` bits: each component that is coded keeps
// the same error (Cover and Thomas, Elements of Information Theory, 2nd ed., theorem 10.3.3).
double least_square_error(const std::vector<Components>& groups, double bits) {
  std::vector<std::pair<double, double>> components;  // variance, tokens that have it
  double log_sum = 0, rest = 0, n_coded = 0;
  for (const auto& [n_tokens, variances] : groups) {
    for (const double v : variances) {
      components.emplace_back(v, static_cast<double>(n_tokens));
      rest += static_cast<double>(n_tokens) * v;
    }
  }
  std::sort(components.begin(), components.end(), std::greater<>());
  for (size_t i = 0; i < components.size(); ++i) {  // the first ones are coded
    const auto [variance, n_tokens] = components[i];
    log_sum += n_tokens * std::log2(variance);
    rest -= n_tokens * variance;
    n_coded += n_tokens;
    const double level = std::exp2((log_sum - 2 * bits) / n_coded);
    if (i + 1 == components.size() || level >= components[i + 1].first) return n_coded * level + std::max(0.0, rest);
  }
  return 0;
}

// The smallest relative error of x, whose components these are, in `bits` and those granted to each of its values.
double least_relative_error(const std::vector<Components>& groups, double squares, double bits) {
  return groups.empty() || squares <= 0 ? 0 : std::sqrt(least_square_error(groups, bits) / squares);
}

// x: [H_kv, T, D] at the positions that are held; positions: [H_kv, T_kept], -1 where a head keeps fewer: zeros there
at::Tensor at_positions(const at::Tensor& x, const at::Tensor& positions) {
  if (positions.size(1) == x.size(1)) return masked(x, positions);
  const auto rows = x.gather(1, positions.clamp_min(0).unsqueeze(2).expand({x.size(0), positions.size(1), x.size(2)}));
  return masked(rows, positions);
}

std::vector<int64_t> n_held(const at::Tensor& positions) {  // of each KV head
  const auto counts = positions.ge(0).sum(1).cpu();
  return {counts.const_data_ptr<int64_t>(), counts.const_data_ptr<int64_t>() + counts.numel()};
}

// x: [H_kv, T_kept, D]. Heads may keep different tokens: those that keep as many are taken together, row by row.
std::vector<Components> components_of(const at::Tensor& x, const at::Tensor& positions) {
  const auto n_of_head = n_held(positions);
  std::map<int64_t, std::vector<at::Tensor>> heads;
  for (size_t h = 0; h < n_of_head.size(); ++h) {
    if (n_of_head[h] == 0) continue;
    const auto head = static_cast<int64_t>(h);
    heads[n_of_head[h]].push_back(
        n_of_head[h] == x.size(1) ? x[head] : x[head].index_select(0, positions[head].ge(0).nonzero().squeeze(1)));
  }
  std::vector<Components> groups;
  for (const auto& [n_tokens, rows] : heads) groups.push_back({n_tokens, principal_variances(at::stack(rows))});
  return groups;
}

int64_t bits_of(const Footprint& footprint, CacheTensor tensor) {
  int64_t bytes = 0;
  for (const auto& row : footprint.rows()) {
    KVC_CHECK(row.bytes >= 0, "footprint() has ", row.bytes, " bytes of ", to_string(row.kind));
    if (row.kind == ByteKind::reserved) continue;  // what a size does not count cannot explain a small error
    if (row.tensor == tensor || row.tensor == CacheTensor::shared) bytes += row.bytes;
  }
  return 8 * bytes;
}

void check_rows(const char* name, const KeyValue& kv, const at::Tensor& positions) {
  for (const auto* x : {&kv.k, &kv.v}) {
    KVC_CHECK(x->defined() && x->dim() == 3 && x->size(0) == positions.size(0) && x->size(1) == positions.size(1), name,
              " gives ", x->defined() ? concat(x->sizes()) : "no tensor", ", expected a row for each of ",
              positions.sizes(), " positions");
  }
}

void check_length(const LayerCache& cache, int64_t n_tokens) {
  KVC_CHECK(cache.length() == n_tokens, "length() is ", cache.length(), " after ", n_tokens, " tokens were appended");
}

}  // namespace

CacheAnswer CacheAnswer::clone() const {
  const bool same = attended.k.is_same(nearest.k) && attended.v.is_same(nearest.v);
  const KeyValue copied{nearest.k.clone(), nearest.v.clone()};
  return {positions.clone(), same ? copied : KeyValue{attended.k.clone(), attended.v.clone()}, copied,
          query.to(at::kFloat, false, true), footprint};
}

CacheAnswer ask(const LayerCache& cache, const at::Tensor& q) {
  const auto* at_once = dynamic_cast<const AnswersAtOnce*>(&cache);
  const auto answer = at_once ? at_once->answer(q)
                              : CacheAnswer{cache.positions(), cache.attended(), cache.dequantize(),
                                            cache.attended_query(q), cache.footprint()};
  KVC_CHECK(answer.query.defined() && answer.query.sizes() == q.sizes(), "attended_query() gives ",
            answer.query.defined() ? concat(answer.query.sizes()) : "no tensor", " for ", q.sizes());
  KVC_CHECK(answer.positions.defined() && answer.positions.dim() == 2 && answer.positions.scalar_type() == at::kLong,
            "positions() gives no table of int64");
  check_rows("attended()", answer.attended, answer.positions);
  check_rows("dequantize()", answer.nearest, answer.positions);
  return answer;
}

void check_positions(const at::Tensor& positions, int64_t n_kv_heads, int64_t n_tokens, bool may_evict) {
  KVC_CHECK(positions.size(0) == n_kv_heads && positions.size(1) <= n_tokens, "positions() is ", positions.sizes(),
            ", expected ", n_kv_heads, " KV heads with at most ", n_tokens, " tokens");
  const auto table = positions.cpu().contiguous();
  const auto* position = table.const_data_ptr<int64_t>();
  for (int64_t head = 0; head < n_kv_heads; ++head) {
    int64_t last = -1, n_kept = 0;
    for (int64_t i = 0; i < positions.size(1); ++i, ++position) {
      if (*position == -1) continue;
      KVC_CHECK(*position > last && *position < n_tokens, "positions() of KV head ", head, " has ", *position,
                " behind ", last, ", expected ascending ones below ", n_tokens);
      last = *position, ++n_kept;
    }
    KVC_CHECK(may_evict || n_kept == n_tokens, "KV head ", head, " keeps ", n_kept, " of ", n_tokens,
              " tokens, and the plugin does not say that it evicts");
  }
}

void check_counts(const LayerCache& cache, int64_t n_tokens, int64_t n_values) {
  check_length(cache, n_tokens);
  const int64_t n_encoded = cache.n_encoded_tokens(), n_encoded_values = cache.n_encoded_numbers();
  KVC_CHECK(n_encoded >= 0 && n_encoded <= n_tokens, "n_encoded_tokens() is ", n_encoded, ", expected 0 to ", n_tokens);
  KVC_CHECK(n_encoded_values >= 0 && n_encoded_values <= n_values, "n_encoded_numbers() is ", n_encoded_values,
            ", expected 0 to ", n_values);
}

int64_t recent_bytes(const Footprint& footprint, int64_t n_values, int64_t n_encoded_values) {
  int64_t recent = 0;
  for (const auto& row : footprint.rows()) recent += row.kind == ByteKind::recent ? row.bytes : 0;
  return std::min(recent, 2 * (n_values - n_encoded_values));
}

void check_attention(const at::Tensor& attention, const at::Tensor& q) {
  KVC_CHECK(attention.defined(), "attend gave no tensor");
  KVC_CHECK(attention.sizes() == q.sizes() && attention.device() == q.device(), "attend gave sizes ", attention.sizes(),
            " on ", attention.device(), ", expected ", q.sizes(), " on ", q.device());
}

AuditedPrompt::AuditedPrompt(const LayerInfo& info, const at::Tensor& k, const at::Tensor& v, double bits_granted)
    : info_(info), given_{k.to(at::kFloat, false, true), v.to(at::kFloat, false, true)}, bits_granted_(bits_granted) {}

double AuditedPrompt::least_error(const at::Tensor& x, std::vector<double>& variances, int64_t bits) const {
  if (variances.empty()) variances = principal_variances(x);
  const double granted = bits_granted_ * static_cast<double>(x.numel());
  return least_relative_error({{x.size(1), variances}}, squares_of(x), static_cast<double>(bits) + granted);
}

void LayerAudit::add(at::Tensor k, at::Tensor v) {
  k_.push_back(std::move(k));
  v_.push_back(std::move(v));
}

void LayerAudit::audit_prompt(const LayerCache& cache, const at::Tensor& q) const {
  check_length(cache, prompt_->given().k.size(1));  // by which the inherited attend() goes
  const auto last = q.narrow(1, q.size(1) - 1, 1).to(at::kFloat);
  const auto attention = cache.attend(last, prompt_->info().attention_scale);
  compare(cache, last, attention);
}

void LayerAudit::check(const CacheAnswer& answer, const at::Tensor& q, const at::Tensor& attention) const {
  auto given = prompt_->given();
  if (!k_.empty()) {
    auto k = k_, v = v_;
    k.insert(k.begin(), given.k);
    v.insert(v.begin(), given.v);
    const auto left = [&](const std::vector<at::Tensor>& x) {
      const auto all = at::cat(x, 1);
      return all.narrow(1, n_dropped_, all.size(1) - n_dropped_);
    };
    given = {left(k), left(v)};
  }
  check_attention(attention, q);
  const auto& info = prompt_->info();
  const int64_t n_tokens = given.k.size(1);
  const auto& positions = answer.positions;
  const auto& attended = answer.attended;
  check_positions(positions, given.k.size(0), n_tokens, may_evict_);
  const auto all = at::arange(n_tokens, positions.options()).expand({given.k.size(0), n_tokens});
  const auto over = [&](const at::Tensor& queries, const KeyValue& kv, const at::Tensor& at) {
    return reference_attention(queries, kv, at, n_tokens, info.attention_scale, info);
  };
  const double changed = relative(answer.query, q.to(at::kFloat));
  KVC_CHECK(changed <= kQueryRounding, "layer ", info.layer, ": attended_query() is ", changed,
            " away from the query, allowed: ", kQueryRounding);
  const auto exact = over(q, given, all), held = over(answer.query, attended, positions);
  const double from_held = relative(attention, held), from_exact = relative(attention, exact);
  const double held_from_exact = relative(held, exact);
  KVC_CHECK(std::isfinite(from_held), "layer ", info.layer, ": attention over ", n_tokens, " tokens is not finite");
  double allowed = kAttentionTolerance;
  if (from_held > allowed && !q.is_cpu()) {
    const auto over_keys = [&](const auto& queries, const auto& k) {
      return over(queries, {k, attended.v}, positions);
    };
    allowed = std::max(allowed, kRoundings * change_by_fp16(answer.query, attended.k, over_keys));
  }
  const bool is_nearer = held_from_exact > kErrorThatShows && from_exact < held_from_exact / 4;
  KVC_CHECK(from_held <= allowed && !is_nearer, "layer ", info.layer, ": attention over ", n_tokens, " tokens is ",
            from_held, " away from attention over the cache's own attended() (allowed: ", allowed, "), and ",
            from_exact, " from exact attention, but attended() is ", held_from_exact, " from it");

  check_error(answer, given);
}

// Of the tokens that are held, in the bits that the footprint has for them.
void LayerAudit::check_error(const CacheAnswer& answer, const KeyValue& given) const {
  const auto& positions = answer.positions;
  const bool is_prompt = k_.empty() && positions.size(1) == given.k.size(1) && positions.ge(0).all().item<bool>();
  for (const bool is_k : {true, false}) {
    const auto exact = at_positions(is_k ? given.k : given.v, positions);
    const int64_t bits = bits_of(answer.footprint, is_k ? CacheTensor::k : CacheTensor::v);
    const int64_t n_values = positions.ge(0).sum().item<int64_t>() * exact.size(2);
    if (bits >= 16 * n_values) continue;  // as exact as what was given
    const auto error_of = [&](const KeyValue& kv) { return relative(masked(is_k ? kv.k : kv.v, positions), exact); };
    double error = error_of(answer.nearest);
    const auto &x = is_k ? answer.nearest.k : answer.nearest.v, &y = is_k ? answer.attended.k : answer.attended.v;
    if (!x.is_same(y) && !at::equal(x, y)) error = std::min(error, error_of(answer.attended));
    const double granted = prompt_->bits_granted() * static_cast<double>(n_values);
    const double least = is_prompt ? (is_k ? prompt_->least_k_error(bits) : prompt_->least_v_error(bits))
                                   : least_relative_error(components_of(exact, positions), squares_of(exact),
                                                          static_cast<double>(bits) + granted);
    KVC_CHECK(error >= least, "layer ", prompt_->layer(), ": ", is_k ? "K" : "V",
              " comes back with a relative error of ", error, " from ",
              static_cast<double>(bits) / static_cast<double>(n_values), " bits/value, which cannot give less than ",
              least);
  }
}

void Audit::keep(std::shared_ptr<const AuditedPrompt> prompt) {
  const int64_t layer = prompt->layer();
  layers_.insert_or_assign(layer, LayerAudit(std::move(prompt), may_evict_));
}

void Audit::begin_step() {
  inspects_ = ++n_steps_ > next_inspection_;
  if (inspects_) next_inspection_ = 4 * n_steps_ + random_() % (8 * n_steps_);
}

void Audit::add(int64_t layer, const NewTokens& token) {
  const auto kept = layers_.find(layer);
  if (kept == layers_.end() && !token.k.is_cpu()) return;  // a device's queue hides how long a copy takes
  auto k = token.k.to(at::kFloat, false, true), v = token.v.to(at::kFloat, false, true);
  if (kept != layers_.end()) kept->second.add(std::move(k), std::move(v));
}

void Audit::drop(int64_t layer, int64_t n_tokens) {
  if (const auto kept = layers_.find(layer); kept != layers_.end()) kept->second.drop(n_tokens);
}

void Audit::take(int64_t layer, const CacheAnswer& answer, const at::Tensor& q, const at::Tensor& attention) {
  Taken taken{layer, answer.clone(), q.to(at::kFloat, false, true), attention.unsqueeze(1).clone()};
  if (layers_.contains(layer)) taken_.push_back(std::move(taken));
}

void Audit::settle() {
  const auto taken = std::exchange(taken_, {});
  for (const auto& [layer, answer, q, attention] : taken) layers_.at(layer).check(answer, q, attention);
}

}  // namespace kvc
