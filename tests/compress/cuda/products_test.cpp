// Products with a cache's parts, thread by thread on the CPU or by a GPU's kernels, against fp64 sums over what the
// formats' definitions say.
#include "cuda/products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "../cuda_emulator/schedules.h"
#include "kvc/check.h"
#include "tested_device.h"

namespace kvc::cuda_emulated {
namespace {

using namespace cuda_products;
using tested::product_kernels;
using tested::Vector;

constexpr Order kOrders[] = {Order::forward, Order::reverse, Order::random, Order::warp_ahead};
constexpr int kShapes = 200;
constexpr double kExact = 1e-10;  // normalized mean squared error of sums in fp32

struct Random {
  std::mt19937 engine;
  int below(int n) { return static_cast<int>(engine() % static_cast<unsigned>(n)); }
  int upto(int n) {  // as often short as long
    const double of_two = std::uniform_real_distribution(0.0, std::log2(n + 1.0))(engine);
    return std::clamp(static_cast<int>(std::exp2(of_two)), 1, n);
  }
  float normal() { return std::normal_distribution<float>()(engine); }
  Vector<float> normals(size_t n) {
    Vector<float> x(n);
    for (auto& number : x) number = normal();
    return x;
  }
};

// What the bytes of a number stand for, by the formats' definitions.
double value_of(NumberType type, const unsigned char* byte, int64_t i) {
  const auto bits16 = [&] { return byte[2 * i] | byte[2 * i + 1] << 8; };
  switch (type) {
    case NumberType::f32: {
      float number;
      std::memcpy(&number, byte + 4 * i, 4);
      return number;
    }
    case NumberType::f16: {
      const int bits = bits16(), exponent = bits >> 10 & 31, mantissa = bits & 1023;
      const double size = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
      return bits >> 15 ? -size : size;
    }
    case NumberType::bf16:
      return std::bit_cast<float>(static_cast<uint32_t>(bits16()) << 16);
    case NumberType::e8m0:
      return std::ldexp(1.0, byte[i] - 127);
    default: {
      const int exponent = byte[i] >> 3 & 15, mantissa = byte[i] & 7;
      const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
      return byte[i] >> 7 ? -size : size;
    }
  }
}

// Numbers of a type whose sizes are some powers of two around 1, zero and the smallest among them.
struct Stored {
  Vector<unsigned char> bytes;
  NumberArray array;

  Stored() = default;
  Stored(Random& random, NumberType type, int64_t n) {
    for (int64_t i = 0; i < n; ++i) add(random, type);
    array = {bytes.data(), type, n};
  }
  double at(int64_t i) const { return value_of(array.type, bytes.data(), i); }

 private:
  void add(Random& random, NumberType type) {
    const auto put = [&](uint32_t bits, int n) {
      for (int i = 0; i < n; ++i) bytes.push_back(static_cast<unsigned char>(bits >> 8 * i));
    };
    const auto sign = static_cast<uint32_t>(random.below(2)), any = static_cast<uint32_t>(random.engine());
    switch (type) {
      case NumberType::f32:
        return put(std::bit_cast<uint32_t>(random.normal()), 4);
      case NumberType::f16:
        return put(sign << 15 | (random.below(9) == 0 ? any & 3 : (12 + any % 6) << 10 | (any >> 8 & 1023)), 2);
      case NumberType::bf16:
        return put(sign << 15 | (124 + any % 6) << 7 | (any >> 8 & 127), 2);
      case NumberType::e8m0:
        return put(random.below(30) == 0 ? 0 : 122 + any % 8, 1);
      default:
        return put(sign << 7 | any % 0x7f, 1);  // 0x7f is no number
    }
  }
};

struct Format {
  Kind kind;
  int bits;
  NumberType scale_type = NumberType::f32;
  bool by_channel = false, has_zeros = false;
};

// A drawn matrix, and what it stands for: x[h][t][c].
struct Drawn {
  Matrix m;
  Stored rows, scale, zero;
  std::vector<double> x;

  Drawn(Random& random, const Format& format, int n_heads, int n_tokens, int n_channels) {
    m.kind = format.kind, m.bits = format.bits, m.rows_are_channels = format.by_channel;
    m.n_heads = n_heads, m.n_tokens = n_tokens, m.n_channels = n_channels;
    const int n_rows = format.by_channel ? n_channels : n_tokens, length = format.by_channel ? n_tokens : n_channels;
    draw_rows(random, n_rows, length);
    if (format.bits <= 8) draw_scales(random, format, n_rows, length);
    for (int h = 0; h < n_heads; ++h) {
      for (int t = 0; t < n_tokens; ++t) {
        for (int c = 0; c < n_channels; ++c) {
          x.push_back(format.by_channel ? number(h, c, t, n_rows) : number(h, t, c, n_rows));
        }
      }
    }
  }
  double at(int h, int t, int c) const { return x[(static_cast<size_t>(h) * m.n_tokens + t) * m.n_channels + c]; }

 private:
  void draw_rows(Random& random, int n_rows, int length) {
    m.row_bytes = m.bits >= 16 ? length * m.bits / 8 : (length * m.bits + 31) / 32 * 4;
    m.head_bytes = n_rows * m.row_bytes;
    const int64_t bytes = m.n_heads * m.head_bytes;
    const auto type = m.kind == Kind::f16 ? NumberType::f16 : m.kind == Kind::bf16 ? NumberType::bf16 : NumberType::f32;
    rows = m.bits >= 16 ? Stored(random, type, bytes * 8 / m.bits) : Stored(random, NumberType::e4m3, bytes);
    for (auto& byte : rows.bytes) {  // neither infinite nor no number
      if (m.kind == Kind::e5m2 && (byte & 0x7c) == 0x7c) byte ^= 0x40;
    }
    m.rows = {rows.bytes.data(), NumberType::f32, bytes};
    m.centre = random.below(2) ? static_cast<float>((1 << (std::min(m.bits, 8) - 1)) - 1) : 0.f;
    for (auto& level : m.levels) level = random.normal();
  }

  void draw_scales(Random& random, const Format& format, int n_rows, int length) {
    std::vector<int> sizes;
    for (int group = 1; group <= length; ++group) {
      if (length % group == 0) sizes.push_back(group);
    }
    m.group_size = sizes[static_cast<size_t>(random.below(static_cast<int>(sizes.size())))];
    m.n_groups = length / m.group_size;
    const bool shared = !format.by_channel && random.below(3) == 0, one = !format.by_channel && random.below(4) == 0;
    if (one) m.n_groups = 1, m.group_size = length;
    const int64_t of_head = one ? 1 : static_cast<int64_t>(n_rows) * m.n_groups;
    m.head_scales = shared ? 0 : of_head, m.one_scale = one;
    scale = Stored(random, format.scale_type, (shared ? 1 : m.n_heads) * of_head);
    if (format.has_zeros) zero = Stored(random, format.scale_type, (shared ? 1 : m.n_heads) * of_head);
    m.scale = scale.array, m.zero = zero.array;
    m.scale.data = scale.bytes.data(), m.zero.data = format.has_zeros ? zero.bytes.data() : nullptr;
  }

  // Entry `entry` of row `row` where 16 entries of each row stand together, row after row.
  static int64_t in_tiles(int row, int entry, int n_rows, int n) {
    int64_t place = 0;
    int first = 0;
    for (; first + 16 <= entry; first += 16) place += 16 * n_rows;
    return place + static_cast<int64_t>(row) * std::min(16, n - first) + (entry - first);
  }

  double number(int h, int row, int entry, int n_rows) const {
    const unsigned char* head = rows.bytes.data() + h * m.head_bytes;
    if (m.bits >= 16) return value_of(rows.array.type, head + row * m.row_bytes, entry);
    const int n_words = static_cast<int>(m.row_bytes / 4), first_bit = entry * m.bits;
    unsigned code = 0;
    for (int bit = first_bit; bit < first_bit + m.bits; ++bit) {
      const int64_t word = m.rows_are_channels ? in_tiles(row, bit / 32, n_rows, n_words)
                                               : static_cast<int64_t>(row) * n_words + bit / 32;
      code |= static_cast<unsigned>(head[4 * word + bit % 32 / 8] >> bit % 8 & 1) << (bit - first_bit);
    }
    const auto byte = static_cast<unsigned char>(code);
    const unsigned char upper[] = {0, byte};  // e5m2 is the upper byte of a half
    const double plain = m.kind == Kind::level  ? m.levels[code]
                         : m.kind == Kind::e4m3 ? value_of(NumberType::e4m3, &byte, 0)
                         : m.kind == Kind::e5m2 ? value_of(NumberType::f16, upper, 0)
                                                : code - static_cast<double>(m.centre);
    const int group = entry / m.group_size;
    const int64_t at_scale =
        h * m.head_scales + (m.one_scale           ? 0
                             : m.rows_are_channels ? in_tiles(row, group, n_rows, m.n_groups)
                                                   : static_cast<int64_t>(row) * m.n_groups + group);
    return scale.at(at_scale) * plain + (m.zero.data ? zero.at(at_scale) : 0);
  }
};

// Sums over what may cancel: against the size of their terms.
struct Errors {
  double squared = 0, size = 0;
  void add(double got, double expected, double terms) {
    squared += (got - expected) * (got - expected);
    size += terms;
  }
  double normalized() const { return size > 0 ? squared / size : squared; }
};

struct Shape {
  int n_heads, group, n_channels;
  std::vector<int> n_tokens;  // of parts that one launch reads
  int n_queries() const { return n_heads * group; }
};

Shape draw_shape(Random& random, int i, bool whole_words) {
  Shape shape{
      .n_heads = 1 + random.below(3), .group = 1 + random.below(i % 5 == 0 ? 9 : 4), .n_channels = 0, .n_tokens = {}};
  shape.n_tokens.push_back(random.upto(i % 20 == 0 ? 2000 : 150));
  const int dims[] = {8, 24, 64, 80, 96, 128, 256, 13, 300};
  shape.n_channels = dims[random.below(shape.n_tokens[0] > 500 ? 3 : whole_words ? 7 : 9)];
  const int n_parts = i == 7 ? 40 : 1 + random.below(3);  // 40: more than one launch takes
  while (static_cast<int>(shape.n_tokens.size()) < n_parts) shape.n_tokens.push_back(random.upto(150));
  return shape;
}

// One part's numbers, before and after.
struct Scored {
  Vector<float> q, scores, before;
  int width;

  Scored(Random& random, const Shape& shape, int n_tokens)
      : q(random.normals(static_cast<size_t>(shape.n_queries()) * shape.n_channels)),
        scores(random.normals(static_cast<size_t>(shape.n_queries()) * (n_tokens + 5))),
        before(scores),
        width(n_tokens + 5) {}  // numbers behind a part's tokens are others'
  Score part(const Drawn& x, const Shape& shape) {
    const int d = shape.n_channels, n = shape.n_queries();
    return {x.m, {q.data(), d, n, d}, {scores.data(), width, n, x.m.n_tokens}};
  }
  void check(const Drawn& x, const Shape& shape) const {
    const int d = shape.n_channels;
    Errors errors;
    for (size_t at = 0; at < scores.size(); ++at) {
      const int head = static_cast<int>(at) / width, t = static_cast<int>(at) % width;
      double sum = before[at], terms = sum * sum;
      for (int c = 0; t < x.m.n_tokens && c < d; ++c) {
        const double term = x.at(head / shape.group, t, c) * q[static_cast<size_t>(head) * d + c];
        sum += term, terms += term * term;
      }
      errors.add(scores[at], sum, terms);
    }
    ASSERT_LE(errors.normalized(), kExact) << x.m.n_tokens << " x " << d;
  }
};

struct Accumulated {
  Vector<float> weights, out, before, parts;

  Accumulated(Random& random, const Shape& shape, int n_tokens)
      : weights(random.normals(static_cast<size_t>(shape.n_queries()) * n_tokens)),
        out(random.normals(static_cast<size_t>(shape.n_queries()) * shape.n_channels)),
        before(out),
        parts(out.size() * static_cast<size_t>(n_splits(n_tokens)), NAN) {}
  AccumulateV part(const Drawn& x, const Shape& shape) {
    return {x.m, {weights.data(), x.m.n_tokens, shape.n_queries(), x.m.n_tokens}, parts.data()};
  }
  Sum sum(const Drawn& x) { return {parts.data(), out.data(), n_splits(x.m.n_tokens), static_cast<int>(out.size())}; }
  void check(const Drawn& x, const Shape& shape) const {
    const int d = shape.n_channels, n_tokens = x.m.n_tokens;
    Errors errors;
    for (size_t at = 0; at < out.size(); ++at) {
      const int head = static_cast<int>(at) / d, c = static_cast<int>(at) % d;
      double sum = before[at], terms = sum * sum;
      for (int t = 0; t < n_tokens; ++t) {
        const double term = x.at(head / shape.group, t, c) * weights[static_cast<size_t>(head) * n_tokens + t];
        sum += term, terms += term * term;
      }
      errors.add(out[at], sum, terms);
    }
    ASSERT_LE(errors.normalized(), kExact) << n_tokens << " x " << d;
  }
};

// All parts by one call; the last one's bits are those that it has alone.
void expect_scores(Random& random, const std::vector<Drawn>& all, const Shape& shape) {
  std::vector<Scored> numbers;
  std::vector<Score> parts;
  for (const auto& x : all) numbers.emplace_back(random, shape, x.m.n_tokens);
  auto alone = numbers.back();
  for (size_t i = 0; i < all.size(); ++i) parts.push_back(numbers[i].part(all[i], shape));
  product_kernels().score(parts, nullptr);
  for (size_t i = 0; i < all.size(); ++i) numbers[i].check(all[i], shape);
  parts = {alone.part(all.back(), shape)};
  product_kernels().score(parts, nullptr);
  ASSERT_EQ(alone.scores, numbers.back().scores);
}

void expect_mixture(Random& random, const std::vector<Drawn>& all, const Shape& shape) {
  std::vector<Accumulated> numbers;
  std::vector<AccumulateV> parts;
  std::vector<Sum> sums;
  for (const auto& x : all) numbers.emplace_back(random, shape, x.m.n_tokens);
  auto alone = numbers.back();
  for (size_t i = 0; i < all.size(); ++i) {
    parts.push_back(numbers[i].part(all[i], shape));
    sums.push_back(numbers[i].sum(all[i]));
  }
  product_kernels().accumulate_v(parts, nullptr);
  product_kernels().sum(sums, nullptr);
  for (size_t i = 0; i < all.size(); ++i) numbers[i].check(all[i], shape);
  parts = {alone.part(all.back(), shape)}, sums = {alone.sum(all.back())};
  product_kernels().accumulate_v(parts, nullptr);
  product_kernels().sum(sums, nullptr);
  ASSERT_EQ(alone.out, numbers.back().out);
}

void expect_products(const Format& format, uint32_t seed) {
  Random random{std::mt19937(seed)};
  for (int i = 0; i < kShapes && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(concat("shape ", i));
    const WithOptions scheduled({.order = kOrders[i % 4], .seed = static_cast<uint64_t>(i)});
    const auto shape = draw_shape(random, i, format.bits == 8);
    std::vector<Drawn> parts;
    parts.reserve(shape.n_tokens.size());
    for (const int n : shape.n_tokens) parts.emplace_back(random, format, shape.n_heads, n, shape.n_channels);
    expect_scores(random, parts, shape);
    if (!format.by_channel) expect_mixture(random, parts, shape);
  }
}

TEST(Products, CodesOfATokensChannelsEqualTheirDefinition) {
  for (const int bits : {1, 2, 3, 4}) expect_products({Kind::level, bits, NumberType::f16, false, true}, 1);
  expect_products({Kind::byte, 8, NumberType::f32, false, true}, 2);
}

TEST(Products, CodesOfAChannelsTokensEqualTheirDefinition) {
  for (const int bits : {2, 4}) expect_products({Kind::level, bits, NumberType::f16, true, true}, 3);
  expect_products({Kind::byte, 8, NumberType::f32, true, true}, 4);
}

TEST(Products, SmallFloatsEqualTheirDefinition) {
  expect_products({Kind::level, 4, NumberType::e8m0}, 5);
  expect_products({Kind::level, 4, NumberType::e4m3}, 6);
  expect_products({Kind::e4m3, 8, NumberType::f32}, 7);
  expect_products({Kind::e5m2, 8, NumberType::f32}, 14);
}

TEST(Products, ExactTokensEqualTheirDefinition) {
  expect_products({Kind::f16, 16}, 8);
  expect_products({Kind::bf16, 16}, 9);
  expect_products({Kind::f32, 32}, 10);
}

// Entries of channels at tokens, or of tokens at channels of all heads.
void expect_entries(bool of_channels, uint32_t seed) {
  Random random{std::mt19937(seed)};
  for (int i = 0; i < kShapes; ++i) {
    const WithOptions scheduled({.order = kOrders[i % 4], .seed = static_cast<uint64_t>(i)});
    const int n_kv = 1 + random.below(3), group = 1 + random.below(4), d = 8 * (1 + random.below(8));
    const int n_tokens = 2 + random.upto(i % 20 == 0 ? 1500 : 150), n_q = n_kv * group;
    const int n_vectors = of_channels ? n_kv * d : n_tokens, length = of_channels ? n_tokens : n_kv * d;
    const int each = std::min(length, 2 * (1 + random.below(4)));
    const bool wide = length > 256;
    Vector<unsigned char> index;
    std::vector<int> places;
    for (int v = 0; v < n_vectors; ++v) {
      std::vector<int> all(static_cast<size_t>(length));
      std::iota(all.begin(), all.end(), 0);
      std::shuffle(all.begin(), all.end(), random.engine);
      std::sort(all.begin(), all.begin() + each);
      for (int j = 0; j < each; ++j) {
        places.push_back(all[static_cast<size_t>(j)]);
        index.push_back(static_cast<unsigned char>(places.back()));
        if (wide) index.push_back(static_cast<unsigned char>(places.back() >> 8));
      }
    }
    Stored values(random, i % 2 ? NumberType::f16 : NumberType::f32, static_cast<int64_t>(places.size()));
    const Entries entries{values.array, {index.data(), NumberType::f32, static_cast<int64_t>(index.size())},
                          of_channels,  wide,
                          each,         n_vectors,
                          n_kv,         d};
    auto q = random.normals(static_cast<size_t>(n_q) * d), scores = random.normals(static_cast<size_t>(n_q) * n_tokens);
    std::vector<double> exact(scores.begin(), scores.end());
    Vector<float> out(q.size()), parts(out.size() * static_cast<size_t>(n_splits(n_vectors)), NAN);
    std::vector<double> mixed(out.size());
    const auto for_each = [&](auto f) {  // f(query head, token, channel, value)
      for (size_t e = 0; e < places.size(); ++e) {
        const int vector = static_cast<int>(e) / each, place = places[e], at = of_channels ? vector : place;
        for (int g = 0; g < group; ++g) {
          f(at / d * group + g, of_channels ? place : vector, at % d, values.at(static_cast<int64_t>(e)));
        }
      }
    };
    for_each([&](int head, int t, int c, double value) {
      exact[static_cast<size_t>(head) * n_tokens + t] += value * q[static_cast<size_t>(head) * d + c];
    });
    const QueryRows queries{q.data(), d, n_q, d}, given{scores.data(), n_tokens, n_q, n_tokens};
    const auto& kernels = product_kernels();
    kernels.score_entries(std::vector{ScoreEntries{entries, queries, given}}, nullptr);
    for_each([&](int head, int t, int c, double value) {
      mixed[static_cast<size_t>(head) * d + c] += value * scores[static_cast<size_t>(head) * n_tokens + t];
    });
    kernels.accumulate_entries(std::vector{AccumulateEntries{entries, given, parts.data()}}, nullptr);
    const std::vector sums{Sum{parts.data(), out.data(), n_parts(entries), static_cast<int>(out.size())}};
    kernels.sum(sums, nullptr);
    for (size_t e = 0; e < exact.size(); ++e) ASSERT_NEAR(scores[e], exact[e], 1e-4 * (1 + std::abs(exact[e])));
    for (size_t e = 0; e < mixed.size(); ++e) ASSERT_NEAR(out[e], mixed[e], 1e-3 * (1 + std::abs(mixed[e])));
  }
}

TEST(Products, EntriesOfChannelsEqualTheirSum) { expect_entries(true, 11); }
TEST(Products, EntriesOfTokensEqualTheirSum) { expect_entries(false, 12); }

TEST(Products, SoftmaxLeavesHiddenTokensOut) {
  Random random{std::mt19937(13)};
  for (int i = 0; i < kShapes; ++i) {
    const WithOptions scheduled({.order = kOrders[i % 4], .seed = static_cast<uint64_t>(i)});
    const int n_kv = 1 + random.below(4), group = 1 + random.below(4), n = random.upto(700), n_q = n_kv * group;
    std::vector<int> hidden;
    for (int h = 0; h < n_kv; ++h) hidden.push_back(random.below(n));
    auto scores = random.normals(static_cast<size_t>(n_q) * n);
    for (auto& score : scores) score *= i % 3 == 0 ? 100 : 1;
    const auto before = scores;
    std::vector<Softmax> parts;
    for (int h = 0; h < n_kv; ++h) {
      parts.push_back({{scores.data() + h * group * n, n, group, n}, hidden[static_cast<size_t>(h)]});
    }
    product_kernels().softmax(parts, nullptr);
    for (int head = 0; head < n_q; ++head) {
      const float* row = before.data() + static_cast<size_t>(head) * n;
      const int first = hidden[static_cast<size_t>(head / group)];
      const double largest = *std::max_element(row + first, row + n);
      double sum = 0;
      for (int t = first; t < n; ++t) sum += std::exp(row[t] - largest);
      for (int t = 0; t < n; ++t) {
        const double expected = t < first ? 0 : std::exp(row[t] - largest) / sum;
        ASSERT_NEAR(scores[static_cast<size_t>(head) * n + t], expected, 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace kvc::cuda_emulated
