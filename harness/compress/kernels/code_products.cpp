#include "kernels/code_products.h"

#include <cmath>

#include "kernels/code_books.h"
#include "kernels/code_machines.h"
#include "kernels/lanes.h"
#include "kernels/this_machine.h"
#include "kvc/check.h"

namespace kvc::kernels {
namespace {

const CodeLoops& loops() {
  static const CodeLoops& loops = of_this_machine(kCodeLoopsOfV4, kCodeLoopsOfV3, kCodeLoopsOfAny);
  return loops;
}

void check_bits(const Codes& codes) {
  const bool number = codes.kind == CodeKind::number || codes.kind == CodeKind::centred;
  if (codes.kind == CodeKind::e4m3) return;
  KVC_CHECK(number ? codes.bits == 2 || codes.bits == 4 || codes.bits == 8
                   : codes.bits == 1 || codes.bits == 2 || codes.bits == 4,
            "attention over codes of ", codes.bits, " bits, allowed: ", number ? "2, 4, 8" : "1, 2, 4");
}

// Groups that end within a word have no loop of their own: entry after entry.
bool has_whole_words(const Codes& codes) { return codes.group_size * codes.bits % 32 == 0; }

float e4m3(uint8_t code) {
  float value;
  from_e4m3(&code, 1, &value);
  return value;
}

float side(const NumberArray& x, int64_t at) {
  if (!x.data) return 0;
  at = x.n == 1 ? 0 : at;
  switch (x.type) {
    case NumberType::f32:
      return static_cast<const float*>(x.data)[at];
    case NumberType::f16:
      return half_value(static_cast<const uint16_t*>(x.data)[at]);
    case NumberType::e8m0:
      return std::ldexp(1.f, static_cast<const uint8_t*>(x.data)[at] - 127);
    case NumberType::e4m3:
      return e4m3(static_cast<const uint8_t*>(x.data)[at]);
  }
  return 0;
}

float value_of(const Codes& x, uint32_t code) {
  if (x.kind == CodeKind::level) return x.levels[code];
  if (x.kind == CodeKind::e4m3) return e4m3(static_cast<uint8_t>(code));
  const uint32_t middle = x.kind == CodeKind::centred ? (1u << (x.bits - 1)) - 1 : 0;
  return static_cast<float>(static_cast<int32_t>(code - middle));
}

float entry(const Codes& x, int64_t t, int64_t j) {
  const int64_t bit = j * x.bits, at = t * x.n_groups + j / x.group_size;
  const uint32_t word = static_cast<uint32_t>(x.words[t * x.n_words + bit / 32]);
  const uint32_t code = word >> bit % 32 & ((1u << x.bits) - 1);
  return side(x.scale, at) * value_of(x, code) + side(x.zero, at);
}

// f(token, channel, x^) for each entry.
template <class F>
void for_each_entry(const Codes& x, F f) {
  for (int64_t t = 0; t < x.n_tokens; ++t) {
    for (int64_t j = 0; j < x.head_dim; ++j) f(t, j, entry(x, t, j));
  }
}

}  // namespace

// What half_values makes 65536 and more of is infinite, or no number.
KVC_CLONES void to_float(const uint16_t* x, int64_t n, float* out) {
  constexpr int32_t kMagnitude = 0x7fffffff, kBeyond = 0x47800000, kExponent = 0x7f800000;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Ints bits = (Ints)half_values(load<Shorts>(x + i));
    store(bits | (((bits & kMagnitude) >= kBeyond) & kExponent), out + i);
  }
  for (; i < n; ++i) {
    const auto bits = std::bit_cast<int32_t>(half_value(x[i]));
    out[i] = std::bit_cast<float>(bits | ((bits & kMagnitude) >= kBeyond ? kExponent : 0));
  }
}

void score_token_groups(const Codes& k, ConstRows q, Rows scores) {
  check_bits(k);
  loops().score_token_groups(k, q, scores);
}

void score_channel_groups(const Codes& k, ConstRows q, Rows scores) {
  check_bits(k);
  if (has_whole_words(k)) return loops().score_channel_groups(k, q, scores);
  for_each_entry(k, [&](int64_t t, int64_t j, float x) {
    for (int64_t i = 0; i < q.n; ++i) scores.data[i * scores.stride + t] += q.data[i * q.stride + j] * x;
  });
}

void accumulate_channel_groups(const Codes& v, ConstRows weights, Rows out) {
  check_bits(v);
  if (has_whole_words(v)) return loops().accumulate_channel_groups(v, weights, out);
  for_each_entry(v, [&](int64_t t, int64_t j, float x) {
    for (int64_t i = 0; i < out.n; ++i) out.data[i * out.stride + j] += weights.data[i * weights.stride + t] * x;
  });
}

// A rank that does not divide a vector's lanes: entry after entry.
void score_factors(const Factors& a, const float* down, float* scores) {
  if (kLanes % a.rank == 0) return loops().score_factors(a, down, scores);
  for (int64_t t = 0; t < a.n_tokens; ++t) {
    float sum = 0;
    for (int64_t l = 0; l < a.rank; ++l) sum += down[l] * side(a.entries, t * a.rank + l);
    scores[t] += sum;
  }
}

void accumulate_factors(const Factors& a, const float* weights, float* down) {
  if (kLanes % a.rank == 0) return loops().accumulate_factors(a, weights, down);
  for (int64_t t = 0; t < a.n_tokens; ++t) {
    for (int64_t l = 0; l < a.rank; ++l) down[l] += weights[t] * side(a.entries, t * a.rank + l);
  }
}

}  // namespace kvc::kernels
