#include "kernels/code_products.h"

#include "kernels/code_machines.h"
#include "kernels/lanes.h"
#include "kernels/plain_codes.h"
#include "kvc/check.h"

namespace kvc::kernels {
namespace {

void check_bits(const Codes& codes) {
  const bool number = codes.kind == CodeKind::number || codes.kind == CodeKind::centred;
  if (codes.kind == CodeKind::e4m3 || codes.kind == CodeKind::e5m2) return;
  KVC_CHECK(number ? codes.bits == 2 || codes.bits == 4 || codes.bits == 8
                   : codes.bits == 1 || codes.bits == 2 || codes.bits == 4,
            "attention over codes of ", codes.bits, " bits, allowed: ", number ? "2, 4, 8" : "1, 2, 4");
}

// Groups that end within a word have no loop of their own: entry after entry.
bool has_whole_words(const Codes& codes) { return codes.group_size * codes.bits % 32 == 0; }

// f(token, channel, x^) for each entry.
template <class F>
void for_each_entry(const Codes& x, F f) {
  for (int64_t t = 0; t < x.n_tokens; ++t) {
    for (int64_t j = 0; j < x.head_dim; ++j) f(t, j, entry_at(x, t, j));
  }
}

}  // namespace

// What half_values makes 65536 and more of is infinite, or no number.
KVC_CLONES void to_float(const uint16_t* x, int64_t n, float* out) {
  constexpr int32_t kMagnitude = 0x7fffffff, kBeyond = 0x47800000, kExponent = 0x7f800000;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Sixteen<int32_t> bits(half_values(load<Sixteen<uint16_t>>(x + i)));
    store(bits | (((bits & kMagnitude) > kBeyond - 1) & kExponent), out + i);
  }
  for (; i < n; ++i) {
    const auto bits = std::bit_cast<int32_t>(half_value(x[i]));
    out[i] = std::bit_cast<float>(bits | ((bits & kMagnitude) >= kBeyond ? kExponent : 0));
  }
}

void score_token_groups(const Codes& k, ConstRows q, Rows scores) {
  check_bits(k);
  code_loops().score_token_groups(k, q, scores);
}

void score_channel_groups(const Codes& k, ConstRows q, Rows scores) {
  check_bits(k);
  if (has_whole_words(k)) return code_loops().score_channel_groups(k, q, scores);
  for_each_entry(k, [&](int64_t t, int64_t j, float x) {
    for (int64_t i = 0; i < q.n; ++i) scores.data[i * scores.stride + t] += q.data[i * q.stride + j] * x;
  });
}

void accumulate_channel_groups(const Codes& v, ConstRows weights, Rows out) {
  check_bits(v);
  if (has_whole_words(v)) return code_loops().accumulate_channel_groups(v, weights, out);
  for_each_entry(v, [&](int64_t t, int64_t j, float x) {
    for (int64_t i = 0; i < out.n; ++i) out.data[i * out.stride + j] += weights.data[i * weights.stride + t] * x;
  });
}

// A rank that does not divide a vector's lanes: entry after entry.
void score_factors(const Factors& a, const float* down, float* scores) {
  if (kLanes % a.rank == 0) return code_loops().score_factors(a, down, scores);
  for (int64_t t = 0; t < a.n_tokens; ++t) {
    float sum = 0;
    for (int64_t l = 0; l < a.rank; ++l) sum += down[l] * number_at(a.entries, t * a.rank + l);
    scores[t] += sum;
  }
}

void accumulate_factors(const Factors& a, const float* weights, float* down) {
  if (kLanes % a.rank == 0) return code_loops().accumulate_factors(a, weights, down);
  for (int64_t t = 0; t < a.n_tokens; ++t) {
    for (int64_t l = 0; l < a.rank; ++l) down[l] += weights[t] * number_at(a.entries, t * a.rank + l);
  }
}

}  // namespace kvc::kernels
