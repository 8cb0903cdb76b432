#include "kernels/code_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/plain_codes.h"
#include "machines.h"

namespace kvc::kernels {
namespace {

constexpr double kClose = 1e-6;  // of the sum of the terms' sizes

// Random codes of one head with the tokens as rows, or the channels, and their values in double.
struct Head {
  std::vector<int32_t> words;
  std::vector<float> levels;
  std::vector<uint8_t> byte_scales;
  std::vector<uint16_t> half_scale_zero[2];
  std::vector<float> float_scale_zero[2];
  Codes codes;
  std::vector<double> x;  // [T, D]
  std::vector<double>
      size;  // [T, D]: of what x is the sum of; of whole codes the largest, to whose factor others round
};

struct Shape {
  int64_t bits = 4, n_tokens = 1, head_dim = 64, group_size = 64;
  bool along_tokens = false, half = true, one_scale = false;
  CodeKind kind = CodeKind::number;
  NumberType byte_scales = NumberType::f32;  // e8m0, e4m3: what scales are instead
  int64_t n_q = 1;
};

std::string told(const Shape& s) {
  return "bits " + std::to_string(s.bits) + ", " + std::to_string(s.n_tokens) + " tokens of " +
         std::to_string(s.head_dim) + ", groups of " + std::to_string(s.group_size) +
         (s.along_tokens ? " tokens" : " channels") + (s.half ? ", fp16" : ", fp32") + ", kind " +
         std::to_string(static_cast<int>(s.kind)) + ", scales " + std::to_string(static_cast<int>(s.byte_scales)) +
         (s.one_scale ? ", one scale" : "") + ", " + std::to_string(s.n_q) + " queries";
}

// OCP FP8: sign, exponent, fraction; of e4m3 4 bits of exponent with bias 7, of e5m2 5 with bias 15
float float8(int code, int fraction_bits, int bias) {
  const int one = 1 << fraction_bits, exponent = (code & 0x7f) >> fraction_bits, fraction = code & (one - 1);
  const int least = 1 - bias - fraction_bits;
  const double size = exponent ? std::ldexp(one + fraction, exponent - 1 + least) : std::ldexp(fraction, least);
  return static_cast<float>(code >> 7 ? -size : size);
}
float e4m3(int code) { return float8(code, 3, 7); }

double value_of(const Head& head, int32_t code) {
  switch (head.codes.kind) {
    case CodeKind::number:
      return code;
    case CodeKind::centred:
      return code - ((1 << (head.codes.bits - 1)) - 1);
    case CodeKind::level:
      return head.levels[static_cast<size_t>(code)];
    case CodeKind::e4m3:
      return e4m3(code);
    case CodeKind::e5m2:
      return float8(code, 2, 15);
  }
  return 0;
}

// Where entry i of a row of n stands: in tiles of 16 entries of all rows where rows are channels.
size_t place(bool tiles, int64_t row, int64_t i, int64_t n_rows, int64_t n) {
  const int64_t tile = i / 16 * 16;
  return static_cast<size_t>(tiles ? tile * n_rows + row * std::min<int64_t>(16, n - tile) + i - tile : row * n + i);
}

void fill(Head& head, const Shape& s, std::mt19937& random) {
  const int64_t len = s.along_tokens ? s.n_tokens : s.head_dim, n_rows = s.along_tokens ? s.head_dim : s.n_tokens;
  const int64_t n_words = (len * s.bits + 31) / 32, n_groups = len / s.group_size;
  const bool has_zero = s.kind == CodeKind::number;
  const int64_t n_scales = s.one_scale ? 1 : n_rows * n_groups;
  head.words.assign(static_cast<size_t>(n_rows * n_words), 0);
  for (int which = 0; which < 2; ++which) {
    for (int64_t i = 0; i < (which == 0 ? n_scales : n_rows * n_groups); ++i) {
      const auto value = static_cast<_Float16>(static_cast<float>(random() % 2001) / 1000.f - (which ? 1.f : 0.f));
      head.half_scale_zero[which].push_back(__builtin_bit_cast(uint16_t, value));
      head.float_scale_zero[which].push_back(static_cast<float>(value));
    }
  }
  if (s.byte_scales != NumberType::f32) {
    for (float& scale : head.float_scale_zero[0]) {
      const auto byte = static_cast<uint8_t>(s.byte_scales == NumberType::e8m0 ? 120 + random() % 12 : random() % 0x7f);
      head.byte_scales.push_back(byte);
      scale = s.byte_scales == NumberType::e8m0 ? std::ldexp(1.f, byte - 127) : e4m3(byte);
    }
  }
  for (int64_t l = 0; l < 1 << s.bits && s.kind == CodeKind::level; ++l) {
    head.levels.push_back(static_cast<float>(random() % 2001) / 1000.f - 1.f);
  }
  const auto numbers = [&](int which) {
    if (which == 0 && !head.byte_scales.empty()) {
      return NumberArray{.data = head.byte_scales.data(), .type = s.byte_scales, .n = n_scales};
    }
    const void* data =
        s.half ? static_cast<const void*>(head.half_scale_zero[which].data()) : head.float_scale_zero[which].data();
    return NumberArray{.data = data,
                       .type = s.half ? NumberType::f16 : NumberType::f32,
                       .n = static_cast<int64_t>(head.float_scale_zero[which].size())};
  };
  head.codes = {.words = head.words.data(),
                .n_words = n_words,
                .scale = numbers(0),
                .zero = has_zero ? numbers(1) : NumberArray{},
                .n_groups = n_groups,
                .group_size = s.group_size,
                .bits = s.bits,
                .n_tokens = s.n_tokens,
                .head_dim = s.head_dim,
                .kind = s.kind,
                .levels = head.levels.data()};
  head.x.resize(static_cast<size_t>(s.n_tokens * s.head_dim));
  head.size = head.x;
  for (int64_t row = 0; row < n_rows; ++row) {
    for (int64_t e = 0; e < len; ++e) {
      auto code = static_cast<int32_t>(random() >> 8 & ((1u << s.bits) - 1));
      if (s.kind == CodeKind::e4m3 && (code & 0x7f) == 0x7f) code = 0;  // no number
      if (s.kind == CodeKind::e5m2 && (code & 0x7f) >= 0x7c) code = 0;  // infinite, or no number
      head.words[place(s.along_tokens, row, e * s.bits / 32, n_rows, n_words)] |=
          static_cast<int32_t>(static_cast<uint32_t>(code) << e * s.bits % 32);
      const auto at = place(s.along_tokens, row, e / s.group_size, n_rows, n_groups);
      const double scale = head.float_scale_zero[0][s.one_scale ? 0 : at],
                   zero = has_zero ? head.float_scale_zero[1][at] : 0;
      const int64_t t = s.along_tokens ? e : row, j = s.along_tokens ? row : e;
      const double value = value_of(head, code);
      head.x[static_cast<size_t>(t * s.head_dim + j)] = scale * value + zero;
      const bool whole = s.kind == CodeKind::number || s.kind == CodeKind::centred;
      const double largest = whole ? (1 << s.bits) - 1 : std::abs(value);
      head.size[static_cast<size_t>(t * s.head_dim + j)] = scale * largest + std::abs(zero);
    }
  }
}

std::vector<float> random_floats(int64_t n, std::mt19937& random) {
  std::vector<float> x(static_cast<size_t>(n));
  for (float& value : x) value = static_cast<float>(random() % 2001) / 1000.f - 1.f;
  return x;
}

Shape random_shape(std::mt19937& random, bool along_tokens) {
  const auto one_of = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  Shape s;
  s.bits = one_of({2, 4, 8});
  s.head_dim = one_of({8, 20, 64, 80, 96, 128, 240, 256, 1024});
  s.along_tokens = along_tokens;
  s.n_tokens = random() % 8 == 0 ? static_cast<int64_t>(random() % 3000) + 1 : static_cast<int64_t>(random() % 200) + 1;
  s.half = random() % 4 != 0;
  if (!along_tokens) {
    s.kind = static_cast<CodeKind>(random() % 5);
    if (s.kind == CodeKind::level) s.bits = one_of({1, 2, 4});
    if (s.kind == CodeKind::e4m3 || s.kind == CodeKind::e5m2) s.bits = 8;
    s.one_scale = s.kind != CodeKind::number && random() % 3 == 0;
    if (random() % 3 == 0) s.byte_scales = random() % 2 ? NumberType::e8m0 : NumberType::e4m3;
  }
  s.n_q = static_cast<int64_t>(random() % 9) + 1;
  if (along_tokens) {
    s.group_size = one_of({16, 32, 96, 0});
    if (s.group_size * s.bits % 32 != 0) s.group_size = 0;
    if (s.group_size > 0) s.n_tokens = (s.n_tokens + s.group_size - 1) / s.group_size * s.group_size;
    if (s.group_size == 0) s.group_size = s.n_tokens;
  } else {
    s.group_size = one_of({4, 8, 16, 32, 64, s.head_dim});
    if (s.head_dim % s.group_size != 0) s.group_size = s.head_dim;
  }
  return s;
}

// Holds y [n_q, n], which began at `began`, against sums in double: term(i, o, e) is a factor and the place of what it
// multiplies in x, whose rounding errors are of `size`.
template <class F>
void expect_sums(const std::vector<float>& y, const std::vector<float>& began, int64_t n_q, int64_t n, int64_t k,
                 const std::vector<double>& x, const std::vector<double>& size, F term, const std::string& what) {
  for (int64_t i = 0; i < n_q; ++i) {
    for (int64_t o = 0; o < n; ++o) {
      double sum = began[static_cast<size_t>(i * n + o)], all = std::abs(sum);
      for (int64_t e = 0; e < k; ++e) {
        const auto [factor, at] = term(i, o, e);
        sum += factor * x[static_cast<size_t>(at)], all += std::abs(factor) * size[static_cast<size_t>(at)];
      }
      ASSERT_LE(std::abs(sum - y[static_cast<size_t>(i * n + o)]), kClose * all + 1e-30)
          << what << ": " << i << ", " << o;
    }
  }
}

double at(const std::vector<float>& x, int64_t i) { return x[static_cast<size_t>(i)]; }

class EveryMachine : public testing::TestWithParam<const CodeLoops*> {};

TEST_P(EveryMachine, ScoresAndAccumulatesAsFloat64Does) {
  std::mt19937 random(7);
  for (int run = 0; run < 500; ++run) {
    const Shape s = random_shape(random, run % 3 == 0);
    Head head;
    fill(head, s, random);
    const int64_t n = s.n_tokens, d = s.head_dim;
    const bool has_loop = s.along_tokens || s.group_size * s.bits % 32 == 0;
    const auto q = random_floats(s.n_q * d, random), scores = random_floats(s.n_q * n, random);
    auto y = scores;
    const ConstRows queries{q.data(), d, s.n_q};
    const Rows out{y.data(), n, s.n_q};
    if (s.along_tokens) {
      GetParam()->score_token_groups(head.codes, queries, out);
    } else {
      (has_loop ? GetParam()->score_channel_groups : score_channel_groups)(head.codes, queries, out);
    }
    expect_sums(
        y, scores, s.n_q, n, d, head.x, head.size,
        [&](int64_t i, int64_t t, int64_t j) { return std::pair(at(q, i * d + j), t * d + j); }, "scores, " + told(s));
    if (s.along_tokens || HasFatalFailure()) continue;
    auto mixed = q;
    const ConstRows weights{scores.data(), n, s.n_q};
    (has_loop ? GetParam()->accumulate_channel_groups : accumulate_channel_groups)(head.codes, weights,
                                                                                   {mixed.data(), d, s.n_q});
    expect_sums(
        mixed, q, s.n_q, d, n, head.x, head.size,
        [&](int64_t i, int64_t j, int64_t t) { return std::pair(at(scores, i * n + t), t * d + j); },
        "accumulated, " + told(s));
  }
}

// The example of whole_loops.h, with its numbers.
TEST_P(EveryMachine, ScoresTheExampleExactly) {
  const int32_t words[8] = {static_cast<int32_t>(0x90C4A735)};
  const float scale = 0.5f;
  const Codes codes{.words = words,
                    .n_words = 8,
                    .scale = {&scale, NumberType::f32, 1},
                    .zero = {},
                    .n_groups = 1,
                    .group_size = 64,
                    .bits = 4,
                    .n_tokens = 1,
                    .head_dim = 64};
  const float q[64] = {0.3f, 0.7f, -1, 0, 1.5f};
  float score = 0;
  GetParam()->score_channel_groups(codes, {q, 64, 1}, {&score, 1, 1});
  EXPECT_EQ(score, 10905190 * 0x1p-23f);
  EXPECT_EQ(score_plain(codes, q, 0), score);
}

// Rows of one word, whose sums are rounded once: equal to the plain reference bit for bit.
TEST_P(EveryMachine, ScoresWholeCodesAsThePlainReferenceDoes) {
  std::mt19937 random(13);
  for (const int64_t bits : {2, 4}) {
    const int64_t d = 32 / bits, n = 150;
    Head head;
    fill(head, {.bits = bits, .n_tokens = n, .head_dim = d, .group_size = d, .kind = CodeKind::centred}, random);
    const auto q = random_floats(d, random);
    std::vector<float> scores(n, 0.f);
    GetParam()->score_channel_groups(head.codes, {q.data(), d, 1}, {scores.data(), n, 1});
    for (int64_t t = 0; t < n; ++t) {
      ASSERT_EQ(scores[static_cast<size_t>(t)], score_plain(head.codes, q.data(), t)) << bits << ", " << t;
    }
  }
}

// A head of codes of 2, 4 or 8 bits, all of them the same.
Head same_codes(CodeKind kind, int64_t bits, uint32_t code, int64_t n_tokens) {
  std::mt19937 random(11);
  Shape s{.bits = bits, .n_tokens = n_tokens, .head_dim = 64, .group_size = 32, .kind = kind};
  Head head;
  fill(head, s, random);
  for (int32_t& word : head.words) {
    word = 0;
    for (int64_t bit = 0; bit < 32; bit += bits) word |= static_cast<int32_t>(code << bit);
  }
  return head;
}

// A symmetric code's middle is zero, whatever the query and the scale.
TEST_P(EveryMachine, CentredZerosAddExactlyNothing) {
  std::mt19937 random(10);
  for (const int64_t bits : {2, 4, 8}) {
    const Head head = same_codes(CodeKind::centred, bits, (1u << (bits - 1)) - 1, 150);
    const auto q = random_floats(64, random), weights = random_floats(150, random);
    std::vector<float> scores(150), out(64);
    GetParam()->score_channel_groups(head.codes, {q.data(), 64, 1}, {scores.data(), 150, 1});
    GetParam()->accumulate_channel_groups(head.codes, {weights.data(), 150, 1}, {out.data(), 64, 1});
    EXPECT_EQ(scores, std::vector<float>(150)) << bits;
    EXPECT_EQ(out, std::vector<float>(64)) << bits;
  }
}

// What is no number shows, and spoils no other query; factors near the ends of fp32 keep their size.
TEST_P(EveryMachine, FactorsThatAreNoNumbersShowAndTinyAndHugeOnesKeepTheirSize) {
  const Head head = same_codes(CodeKind::number, 4, 3, 40);
  const float nan = std::nanf("");
  std::vector<float> weights(3 * 40, 0.f), out(3 * 64);
  weights[17] = nan, weights[40] = 1e-30f, weights[80 + 39] = 1e30f;
  GetParam()->accumulate_channel_groups(head.codes, {weights.data(), 40, 3}, {out.data(), 64, 3});
  const auto value = [&](int64_t token, int64_t j) {
    const auto group = static_cast<size_t>(token * 2 + j / 32);
    return 3 * head.float_scale_zero[0][group] + head.float_scale_zero[1][group];
  };
  for (int64_t j = 0; j < 64; ++j) {
    EXPECT_TRUE(std::isnan(out[static_cast<size_t>(j)]));
    EXPECT_NEAR(at(out, 64 + j) / 1e-30, value(0, j), 1e-5);
    EXPECT_NEAR(at(out, 128 + j) / 1e30, value(39, j), 1e-5);
  }
}

TEST_P(EveryMachine, SumsFactorsAsFloat64Does) {
  std::mt19937 random(8);
  for (const int64_t rank : {1, 2, 3, 4, 7, 8, 16, 24}) {
    for (const int64_t n : {1, 5, 16, 17, 300, 3001}) {
      std::vector<uint16_t> halves;
      std::vector<double> a, size;
      for (int64_t i = 0; i < n * rank; ++i) {
        const auto value = static_cast<_Float16>(static_cast<float>(random() % 2001) / 1000.f - 1.f);
        halves.push_back(__builtin_bit_cast(uint16_t, value));
        a.push_back(static_cast<double>(value));
        size.push_back(std::abs(a.back()));
      }
      const Factors factors{.entries = {halves.data(), NumberType::f16, n * rank}, .n_tokens = n, .rank = rank};
      const auto down = random_floats(rank, random), weights = random_floats(n, random);
      const bool has_loop = 16 % rank == 0;
      auto scores = weights, mixed = down;
      (has_loop ? GetParam()->score_factors : score_factors)(factors, down.data(), scores.data());
      (has_loop ? GetParam()->accumulate_factors : accumulate_factors)(factors, weights.data(), mixed.data());
      const std::string what = "rank " + std::to_string(rank) + ", " + std::to_string(n) + " tokens";
      expect_sums(
          scores, weights, 1, n, rank, a, size,
          [&](int64_t, int64_t t, int64_t l) { return std::pair(at(down, l), t * rank + l); }, what);
      expect_sums(
          mixed, down, 1, rank, n, a, size,
          [&](int64_t, int64_t l, int64_t t) { return std::pair(at(weights, t), t * rank + l); }, what);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(CodeLoops, EveryMachine, testing::ValuesIn(machines()),
                         [](const auto& info) { return machine_name(info.param); });

// Sums of 70,000 tokens keep their accuracy: parts are summed before they are added up.
TEST(CodeProducts, AccumulatesOverSeventyThousandTokens) {
  std::mt19937 random(9);
  Shape s;
  s.n_tokens = 70000, s.group_size = 32, s.n_q = 3;
  Head head;
  fill(head, s, random);
  const auto weights = random_floats(s.n_q * s.n_tokens, random);
  std::vector<float> out(static_cast<size_t>(s.n_q * s.head_dim)), zeros = out;
  accumulate_channel_groups(head.codes, {weights.data(), s.n_tokens, s.n_q}, {out.data(), s.head_dim, s.n_q});
  expect_sums(
      out, zeros, s.n_q, s.head_dim, s.n_tokens, head.x, head.size,
      [&](int64_t i, int64_t j, int64_t t) { return std::pair(at(weights, i * s.n_tokens + t), t * s.head_dim + j); },
      told(s));
}

}  // namespace
}  // namespace kvc::kernels
