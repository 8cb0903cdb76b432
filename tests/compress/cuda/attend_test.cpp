// Attention to codes as caches hold them, thread by thread on the CPU or by a GPU's kernels, against fp64 attention to
// what the formats' definitions say that the codes stand for.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "../cuda_emulator/schedules.h"
#include "cuda/attend_codes.h"
#include "kvc/check.h"
#include "tested_device.h"

namespace kvc::cuda_emulated::attended {
namespace {

using cuda_attend::AttentionShape;
using cuda_attend::Norm;
using cuda_attend::Segment;
using cuda_attend::Sequence;
using cuda_products::Kind;
using cuda_products::Matrix;
using tested::Vector;

constexpr Order kOrders[] = {Order::forward, Order::reverse, Order::random, Order::warp_ahead};

struct Random {
  std::mt19937 engine;
  int below(int n) { return static_cast<int>(engine() % static_cast<unsigned>(n)); }
  int one_of(std::initializer_list<int> x) { return x.begin()[below(static_cast<int>(x.size()))]; }
  bool chance(int one_in) { return below(one_in) == 0; }
  double uniform(double low, double high) { return std::uniform_real_distribution(low, high)(engine); }
  float normal() { return std::normal_distribution<float>()(engine); }
};

double of_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double size = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return bits >> 15 ? -size : size;
}
uint16_t to_half(double x) {
  const int exponent = x == 0 ? -14 : std::max(std::ilogb(x), -14);
  const auto mantissa = static_cast<int>(std::nearbyint(std::ldexp(std::abs(x), 10 - exponent)));
  const int bits = exponent == -14 ? mantissa : ((exponent + 14) << 10) + mantissa;
  return static_cast<uint16_t>(bits | (x < 0 ? 0x8000 : 0));
}

struct Format {
  int bits = 16;
  bool along_tokens = false, symmetric = false, bf16 = false;
};

// K or V of a segment as a cache holds it, and the numbers that it stands for.
struct Stored {
  Matrix m;
  Vector<uint32_t> words;
  Vector<uint16_t> scale, zero;

  Stored(Random& random, const Format& format, int n_heads, int n_tokens, int dim, int group, bool shared) {
    m.n_heads = n_heads, m.n_tokens = n_tokens, m.n_channels = dim, m.bits = format.bits;
    m.rows_are_channels = format.along_tokens;
    const int n_rows = format.along_tokens ? dim : n_tokens, length = format.along_tokens ? n_tokens : dim;
    m.row_bytes = (int64_t{length} * format.bits + 31) / 32 * 4, m.head_bytes = n_rows * m.row_bytes;
    words.resize(static_cast<size_t>(n_heads * m.head_bytes / 4));
    for (auto& word : words) word = static_cast<uint32_t>(random.engine());
    m.kind = format.bits == 8 ? Kind::byte : format.bits < 8 ? Kind::level : format.bf16 ? Kind::bf16 : Kind::f16;
    m.group_size = group > 0 ? group : length, m.n_groups = length / m.group_size;
    if (format.bits == 16) {
      for (auto& word : words) word = number16(random) | static_cast<uint32_t>(number16(random)) << 16;
    } else {
      draw_scales(random, format, shared ? 1 : n_heads, int64_t{n_rows} * m.n_groups);
      m.head_scales = shared ? 0 : int64_t{n_rows} * m.n_groups;
    }
    m.rows = {words.data(), NumberType::f32, static_cast<int64_t>(words.size() * 4)};
  }

  double at(int h, int t, int c) const {
    const bool along_tokens = m.rows_are_channels;
    const int row = along_tokens ? c : t, entry = along_tokens ? t : c,
              n_rows = along_tokens ? m.n_channels : m.n_tokens;
    const int n_words = static_cast<int>(m.row_bytes / 4), per_word = 32 / m.bits;
    const int64_t word = h * m.head_bytes / 4 + place(row, entry / per_word, n_rows, n_words);
    const uint32_t code =
        words[static_cast<size_t>(word)] >> entry % per_word * m.bits & static_cast<uint32_t>((1 << m.bits) - 1);
    if (m.kind == Kind::f16) return of_half(static_cast<uint16_t>(code));
    if (m.kind == Kind::bf16) return std::bit_cast<float>(code << 16);
    const auto at_scale = static_cast<size_t>(h * m.head_scales + place(row, entry / m.group_size, n_rows, m.n_groups));
    const double number = code - static_cast<double>(m.centre);
    return of_half(scale[at_scale]) * number + (zero.empty() ? 0 : of_half(zero[at_scale]));
  }

 private:
  uint16_t number16(Random& random) const {
    const float x = random.normal();
    return m.kind == Kind::f16 ? to_half(x) : static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
  }
  // Groups whose numbers lie around zero, of sizes around 1.
  void draw_scales(Random& random, const Format& format, int n_heads, int64_t of_head) {
    const double largest = (1 << format.bits) - 1;
    if (format.symmetric) m.centre = static_cast<float>((1 << (format.bits - 1)) - 1);
    for (int64_t i = 0; i < n_heads * of_head; ++i) {
      const double range = random.uniform(0.5, 4);
      scale.push_back(to_half(range / largest));
      if (!format.symmetric) zero.push_back(to_half(-range * random.uniform(0.35, 0.65)));
    }
    for (size_t i = 0; i < 16; ++i) m.levels[i] = static_cast<float>(i) - m.centre;
    m.scale = {scale.data(), NumberType::f16, static_cast<int64_t>(scale.size())};
    m.zero = {zero.empty() ? nullptr : zero.data(), NumberType::f16, static_cast<int64_t>(zero.size())};
  }
  // Rows of entries, in tiles of 16 entries of all rows where rows are channels.
  int64_t place(int row, int entry, int n_rows, int n) const {
    if (!m.rows_are_channels) return int64_t{row} * n + entry;
    const int first = entry / 16 * 16;
    return int64_t{first} * n_rows + int64_t{row} * std::min(16, n - first) + entry % 16;
  }
};

struct SegmentData {
  Stored k, v;
  int n, n_hidden;
  Vector<float> scores;  // [H_q, stride]: what was given; after attend: what was written
  int64_t stride;
};

// A sequence, what the kernels gave, and what they should have given.
struct Case {
  std::vector<std::unique_ptr<SegmentData>> data;
  std::vector<Segment> segments;
  Vector<float> q, other_out, out;
  Vector<Norm> other_norms, norms;
  bool norms_of_all = false;
  std::vector<double> exact, exact_norms;         // outputs; log of the sum of e^score
  std::vector<std::vector<double>> exact_scores;  // a segment's

  Sequence sequence() {
    return {.segments = segments,
            .q = q.data(),
            .other_out = other_out.empty() ? nullptr : other_out.data(),
            .other_norms = other_norms.empty() ? nullptr : other_norms.data(),
            .norms_of_all = norms_of_all,
            .out = out.data(),
            .norms = norms.data()};
  }
};

struct Shape {
  Format k, v;
  int dim = 128, group = 1, n_kv = 1, k_group = 32, v_group = 32;
  AttentionShape heads() const { return {n_kv * group, n_kv, dim}; }
};

// What has been planted beside plain attention.
struct Extras {
  bool scores = false, others = false, shared = false, norms_of_all = false;
};

void add_segment(Case& to, Random& random, const Shape& shape, int n, int n_hidden, const Extras& extras) {
  const int codes = 32 / shape.k.bits, unit = shape.k_group > 0 ? shape.k_group : 1;
  const int k_tokens = shape.k.along_tokens ? (n + unit - 1) / unit * unit : n + random.below(3);
  auto& segment = *to.data.emplace_back(std::make_unique<SegmentData>(SegmentData{
      Stored(random, shape.k, shape.n_kv, k_tokens, shape.dim, shape.k_group, extras.shared && !shape.k.along_tokens),
      Stored(random, shape.v, shape.n_kv, n + random.below(3), shape.dim, shape.v_group, extras.shared),
      n,
      n_hidden,
      {},
      n + codes}));
  if (extras.scores) {
    for (int64_t i = 0; i < shape.heads().n_query * segment.stride; ++i) segment.scores.push_back(random.normal());
  }
  to.segments.push_back({.k = segment.k.m,
                         .v = segment.v.m,
                         .n_tokens = n,
                         .n_hidden = n_hidden,
                         .scores = extras.scores ? segment.scores.data() : nullptr,
                         .scores_stride = segment.stride});
}

struct Accumulated {
  double score;
  const float* other;  // a vector of floats, or
  const SegmentData* segment;
  int token;
};

void attend_exactly(Case& to, const Shape& shape, const std::vector<std::vector<float>>& others_scores,
                    const std::vector<std::vector<float>>& others) {
  to.exact_scores.resize(to.data.size());
  for (int h = 0; h < shape.heads().n_query; ++h) {
    std::vector<Accumulated> all;
    for (size_t b = 0; b < to.data.size(); ++b) {
      const auto& segment = *to.data[b];
      for (int t = 0; t < segment.n; ++t) {
        double score = segment.scores.empty() ? 0 : segment.scores[static_cast<size_t>(h * segment.stride + t)];
        for (int c = 0; c < shape.dim; ++c) {
          score += to.q[static_cast<size_t>(h * shape.dim + c)] * segment.k.at(h / shape.group, t, c);
        }
        to.exact_scores[b].push_back(t < segment.n_hidden ? -1e30 : score);
        if (t >= segment.n_hidden) all.push_back({score, nullptr, &segment, t});
      }
    }
    for (size_t i = 0; i < others.size(); ++i) {
      all.push_back({others_scores[static_cast<size_t>(h)][i], others[i].data(), nullptr, 0});
    }
    double largest = -1e300, total = 0;
    for (const auto& x : all) largest = std::max(largest, x.score);
    std::vector<double> sum(static_cast<size_t>(shape.dim));
    for (const auto& x : all) {
      const double weight = std::exp(x.score - largest);
      total += weight;
      for (int c = 0; c < shape.dim; ++c) {
        sum[static_cast<size_t>(c)] += weight * (x.other ? x.other[c] : x.segment->v.at(h / shape.group, x.token, c));
      }
    }
    for (const double x : sum) to.exact.push_back(all.empty() ? 0 : x / total);
    to.exact_norms.push_back(all.empty() ? -1e30 : largest + std::log(total));
  }
}

// The softmax and mixture of `others`, as another kernel would give them.
void attend_others(Case& to, const Shape& shape, const std::vector<std::vector<float>>& scores,
                   const std::vector<std::vector<float>>& others) {
  for (const auto& row : scores) {
    const float largest = *std::max_element(row.begin(), row.end());
    double total = 0;
    std::vector<double> sum(static_cast<size_t>(shape.dim));
    for (size_t i = 0; i < row.size(); ++i) {
      const double weight = std::exp(static_cast<double>(row[i]) - largest);
      total += weight;
      for (size_t c = 0; c < sum.size(); ++c) sum[c] += weight * others[i][c];
    }
    for (const double x : sum) to.other_out.push_back(static_cast<float>(x / total));
    to.other_norms.push_back({largest, static_cast<float>(total)});
  }
}

// The others' part of the whole mixture, and all tokens' norms, as a softmax of the scores written back gives them.
void weight_others_by_all(Case& to, const std::vector<std::vector<float>>& scores,
                          const std::vector<std::vector<float>>& others) {
  to.norms_of_all = true;
  to.other_out.assign(to.q.size(), 0.f), to.other_norms.clear();
  const size_t n_query = to.exact_norms.size(), dim = to.q.size() / n_query;
  for (size_t h = 0; h < n_query; ++h) {
    for (size_t c = 0; c < dim; ++c) {
      double sum = 0;
      for (size_t i = 0; i < others.size(); ++i) sum += std::exp(scores[h][i] - to.exact_norms[h]) * others[i][c];
      to.other_out[h * dim + c] = static_cast<float>(sum);
    }
    const bool nothing = to.exact_norms[h] == -1e30;
    to.other_norms.push_back({static_cast<float>(to.exact_norms[h] - std::log(3.)), nothing ? 0.f : 3.f});
  }
}

Case draw_case(Random& random, const Shape& shape, const std::vector<std::pair<int, int>>& tokens,
               const Extras& extras) {
  Case drawn;
  for (const auto& [n, n_hidden] : tokens) add_segment(drawn, random, shape, n, n_hidden, extras);
  const int n_query = shape.heads().n_query;
  for (int i = 0; i < n_query * shape.dim; ++i) {
    drawn.q.push_back(random.normal() * 2 / std::sqrt(static_cast<float>(shape.dim)));
  }
  std::vector<std::vector<float>> others, scores;
  if (extras.others) {
    const int n = 1 + random.below(5);
    for (int i = 0; i < n; ++i) {
      auto& row = others.emplace_back();
      for (int c = 0; c < shape.dim; ++c) row.push_back(random.normal());
    }
    for (int h = 0; h < n_query; ++h) {
      auto& row = scores.emplace_back();
      for (int i = 0; i < n; ++i) row.push_back(3 * random.normal());
    }
    attend_others(drawn, shape, scores, others);
  }
  drawn.out.assign(drawn.q.size(), NAN);
  drawn.norms.assign(static_cast<size_t>(n_query), {NAN, NAN});
  attend_exactly(drawn, shape, scores, others);
  if (extras.norms_of_all) weight_others_by_all(drawn, scores, others);
  return drawn;
}

void run(std::vector<Case>& batch, const AttentionShape& heads) {
  std::vector<Sequence> sequences;
  for (auto& one : batch) sequences.push_back(one.sequence());
  Vector<float> workspace(static_cast<size_t>(cuda_attend::workspace_floats(sequences, heads)), NAN);
  tested::attend_kernels().attend(sequences, heads, workspace.data(), nullptr);
  tested::attend_kernels().join(sequences, heads, workspace.data(), nullptr);
}

// Normalized mean squared errors.
struct Errors {
  double wrong = 0, all = 0;
  void add(double got, double exact) { wrong += (got - exact) * (got - exact), all += exact * exact; }
  double normalized() const { return all > 0 ? wrong / all : wrong; }
};

struct Found {
  Errors outputs, scores;
  double norms = 0;  // the largest error of a logarithm
};

Found errors_of(const std::vector<Case>& batch) {
  Found found;
  for (const auto& one : batch) {
    for (size_t i = 0; i < one.exact.size(); ++i) found.outputs.add(one.out[i], one.exact[i]);
    for (size_t h = 0; h < one.norms.size(); ++h) {
      const auto [largest, sum] = one.norms[h];
      const double got = sum > 0 ? largest + std::log(static_cast<double>(sum)) : -1e30;
      found.norms = std::max(found.norms, std::abs(got - one.exact_norms[h]));
    }
    for (size_t b = 0; b < one.data.size(); ++b) {
      const auto& segment = *one.data[b];
      for (size_t i = 0; !segment.scores.empty() && i < one.exact_scores[b].size(); ++i) {
        const auto head = static_cast<int64_t>(i) / segment.n, t = static_cast<int64_t>(i) % segment.n;
        const double got = segment.scores[static_cast<size_t>(head * segment.stride + t)],
                     exact = one.exact_scores[b][i];
        if (exact == -1e30) {
          EXPECT_EQ(got, static_cast<double>(-1e30f));
        } else {
          found.scores.add(got, exact);
        }
      }
    }
  }
  return found;
}

// What rounding of K, V, q and weights to 16 bits makes of outputs (docs/cuda.md).
constexpr double kRounded = 4e-6, kRoundedBf16 = 4e-5;

std::vector<std::pair<int, int>> draw_tokens(Random& random, int most) {
  std::vector<std::pair<int, int>> tokens;
  const int n_segments = random.chance(4) ? 2 : 1;
  for (int b = 0; b < n_segments; ++b) {
    const int drawn = static_cast<int>(std::exp(random.uniform(0, std::log(most))));
    const int n = random.chance(3) ? random.one_of({1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 257}) : drawn;
    tokens.emplace_back(n, random.chance(3) ? random.below(n) : 0);
  }
  return tokens;
}

void expect_exact(const std::vector<Case>& batch, double bound) {
  const auto found = errors_of(batch);
  ASSERT_LE(found.outputs.normalized(), bound);
  ASSERT_LE(found.scores.normalized(), bound);
  ASSERT_LE(found.norms, 3 * std::sqrt(bound));
}

// `n` drawn batches, the orders of threads in turn.
void expect_attended(Shape shape, std::initializer_list<int> groups, double bound, int n = 16, int most = 600) {
  Random random{std::mt19937(static_cast<unsigned>(shape.dim * 100 + shape.k.bits))};
  Found worst;
  for (int i = 0; i < n; ++i) {
    const WithOptions scheduled({.order = kOrders[i % 4], .seed = static_cast<uint64_t>(i)});
    shape.group = random.one_of(groups), shape.n_kv = shape.group > 8 ? 1 : 1 + random.below(2);
    const Extras extras{random.chance(2), random.chance(2), random.chance(4)};
    std::vector<Case> batch;
    const int n_sequences = 1 + random.below(i % 4 == 0 ? 5 : 2);
    for (int s = 0; s < n_sequences; ++s) {
      batch.push_back(draw_case(random, shape, draw_tokens(random, i % 8 == 0 ? most : 100), extras));
      for (const auto& segment : batch.back().segments) ASSERT_TRUE(cuda_attend::serves(segment.k, segment.v));
    }
    run(batch, shape.heads());
    SCOPED_TRACE(concat("batch ", i, ": head_dim ", shape.dim, ", ", shape.n_kv, " x ", shape.group, " heads, ",
                        batch.size(), " sequences, first of ", batch[0].segments[0].n_tokens, " tokens, ",
                        batch[0].segments[0].n_hidden, " hidden"));
    const auto found = errors_of(batch);
    ASSERT_LE(found.outputs.normalized(), bound);
    ASSERT_LE(found.scores.normalized(), bound);
    ASSERT_LE(found.norms, 3 * std::sqrt(bound));
    worst.outputs.wrong = std::max(worst.outputs.wrong, found.outputs.normalized());
  }
  testing::Test::RecordProperty(concat("worst_", shape.k.bits, "_", shape.dim), concat(worst.outputs.wrong));
}

// Every format, K's and V's, with every head_dim that is served: whether by groups of channels or of tokens.
std::vector<Shape> served_shapes() {
  std::vector<Shape> all;
  for (const int dim : {64, 96, 128, 256}) {
    for (const bool bf16 : {false, true}) all.push_back({{.bf16 = bf16}, {.bf16 = bf16}, dim});
    for (const int bits : {2, 4, 8}) {
      for (const bool along_tokens : {false, true}) {
        if ((along_tokens && bits == 8) || (dim == 96 && (bits == 2 || along_tokens))) continue;
        for (const bool symmetric : {false, true}) {
          all.push_back({{bits, along_tokens, symmetric}, {.bits = bits, .symmetric = symmetric}, dim});
        }
      }
    }
  }
  return all;
}

// A group size that is served, of a row of `length` channels or, 0 as well, of all tokens.
int draw_group(Random& random, const Format& format, int length) {
  if (random.chance(4)) return 0;
  if (format.along_tokens) return 32 / format.bits << random.below(4);
  return random.chance(2) && length % 64 == 0 ? 64 : 32;
}

struct DrawnBatch {
  Shape shape;
  std::vector<Case> batch;
};

// Batch i of a fixed sequence: 1 to 5 sequences of 1 to 2,000 tokens, most of them short.
DrawnBatch draw_batch(int i) {
  static const auto shapes = served_shapes();
  Random random{std::mt19937(1000 + static_cast<unsigned>(i))};
  DrawnBatch drawn{.shape = shapes[static_cast<size_t>(i) % shapes.size()], .batch = {}};
  auto& shape = drawn.shape;
  shape.group = random.one_of({1, 4, 8}), shape.n_kv = 1 + random.below(2);
  shape.k_group = draw_group(random, shape.k, shape.dim), shape.v_group = draw_group(random, shape.v, shape.dim);
  Extras extras{.scores = random.chance(2), .others = random.chance(2), .shared = random.chance(4)};
  extras.norms_of_all = extras.scores && random.chance(2);
  const int n_sequences = 1 + random.below(5);
  for (int s = 0; s < n_sequences; ++s) {
    const auto tokens = draw_tokens(random, s == 0 && i % 4 == 0 ? 2000 : 200);
    drawn.batch.push_back(draw_case(random, shape, tokens, extras));
    for (const auto& segment : drawn.batch.back().segments) EXPECT_TRUE(cuda_attend::serves(segment.k, segment.v));
  }
  return drawn;
}

constexpr int kDrawnBatches = 200;

// Batches i under the orders of threads, one after another or all of them; their bits are the same.
void expect_drawn_attended(bool all_orders) {
  for (int i = 0; i < kDrawnBatches && !testing::Test::HasFailure(); ++i) {
    std::vector<Vector<float>> first;
    for (int o = 0; o < (all_orders ? 4 : 1); ++o) {
      auto [shape, batch] = draw_batch(i);
      SCOPED_TRACE(concat("batch ", i, ", order ", o, ": ", shape.k.bits, " bits, head_dim ", shape.dim, ", ",
                          shape.n_kv, " x ", shape.group, " heads, ", batch.size(), " sequences"));
      const WithOptions scheduled({.order = kOrders[(i + o) % 4], .seed = static_cast<uint64_t>(i)});
      run(batch, shape.heads());
      expect_exact(batch, shape.k.bf16 ? kRoundedBf16 : kRounded);
      std::vector<Vector<float>> outs;
      for (const auto& one : batch) outs.push_back(one.out);
      if (o == 0) first = outs;
      EXPECT_EQ(outs, first);
    }
  }
}

TEST(AttendCodes, DrawnBatchesEqualTheReference) { expect_drawn_attended(false); }
TEST(AttendCodes, DrawnBatchesEqualTheReferenceInFourOrders) { expect_drawn_attended(true); }

TEST(AttendCodes, SixteenBitsEqualTheReference) {
  for (const int dim : {64, 96, 128, 256}) {
    expect_attended({.k = {}, .v = {}, .dim = dim}, {1, 3, 4, 8, 16, 20}, kRounded);
    const Format bf16{.bf16 = true};
    expect_attended({.k = bf16, .v = bf16, .dim = dim}, {1, 4, 8, 16}, kRoundedBf16);
  }
}

// Codes of each token's channels, asymmetric and symmetric.
void expect_rows_of_codes(int bits, int dim, int group) {
  const Format format{.bits = bits}, symmetric{.bits = bits, .symmetric = true};
  expect_attended({format, format, dim, 1, 1, group, group}, {1, 3, 4, 8, 16}, kRounded);
  expect_attended({symmetric, symmetric, dim, 1, 1, group, 0}, {1, 4, 8, 12}, kRounded, 8);
}

TEST(AttendCodes, RowsOf2BitsEqualTheReference) {
  for (const int dim : {64, 128, 256}) expect_rows_of_codes(2, dim, dim == 64 ? 64 : 32);
}
TEST(AttendCodes, RowsOf4BitsEqualTheReference) {
  for (const int dim : {64, 96, 128, 256}) expect_rows_of_codes(4, dim, dim == 128 ? 64 : 32);
}
TEST(AttendCodes, RowsOf8BitsEqualTheReference) {
  for (const int dim : {64, 96, 128, 256}) expect_rows_of_codes(8, dim, 32);
}

// K's codes of each channel's tokens: groups of several, of one word, and of the whole segment.
void expect_columns_of_codes(int bits, int dim) {
  const Format k{.bits = bits, .along_tokens = true}, v{.bits = bits};
  for (const int group : {32, 32 / bits, 128, 0}) {
    expect_attended({k, v, dim, 1, 1, group, 32}, {1, 3, 4, 8, 16}, kRounded, 8);
  }
}

TEST(AttendCodes, ColumnsOf2BitsEqualTheReference) {
  for (const int dim : {64, 128, 256}) expect_columns_of_codes(2, dim);
}
TEST(AttendCodes, ColumnsOf4BitsEqualTheReference) {
  for (const int dim : {64, 128, 256}) expect_columns_of_codes(4, dim);
}

// Lengths of several splits, tokens hidden in the first and beyond it, many tiles of words and of scales.
TEST(AttendCodes, LongSequencesAreJoinedFromTheirSplits) {
  Random random{std::mt19937(1)};
  for (const bool along_tokens : {false, true}) {
    for (const bool scores : {false, true}) {
      const Shape shape{{.bits = 4, .along_tokens = along_tokens}, {.bits = 4}, 64, 2, 1, along_tokens ? 8 : 32, 32};
      std::vector<Case> batch;
      for (const auto& tokens : {std::pair(2000, 0), std::pair(1537, 700), std::pair(1025, 512), std::pair(600, 599)}) {
        batch.push_back(draw_case(random, shape, {tokens}, {.scores = scores, .others = scores}));
      }
      run(batch, shape.heads());
      const auto found = errors_of(batch);
      EXPECT_LE(found.outputs.normalized(), kRounded);
      EXPECT_LE(found.scores.normalized(), kRounded);
      EXPECT_LE(found.norms, 3e-3);  // scores are off by their size times 2^-11
    }
  }
}

TEST(AttendCodes, ManyTokensMakeLongerSplits) {
  Random random{std::mt19937(2)};
  const Shape shape{{.bits = 2, .along_tokens = true}, {.bits = 2}, 64, 1, 1, 64, 64};
  std::vector<Case> batch;
  batch.push_back(draw_case(random, shape, {{17000, 0}}, {}));
  EXPECT_EQ(cuda_attend::n_splits(batch[0].segments[0]), 17);
  run(batch, shape.heads());
  EXPECT_LE(errors_of(batch).outputs.normalized(), kRounded);
}

// The largest score moves from token to token, by little and by much.
TEST(AttendCodes, GrowingScoresEqualTheReference) {
  Random random{std::mt19937(3)};
  for (const float step : {0.01f, 0.5f, -0.5f, 20.f}) {
    const Shape shape{{.bits = 4}, {.bits = 4}, 64, 4, 1, 64, 64};
    std::vector<Case> batch;
    auto& one = batch.emplace_back(draw_case(random, shape, {{300, 0}}, {.scores = true}));
    auto& segment = *one.data[0];
    for (int h = 0; h < 4; ++h) {
      for (int t = 0; t < 300; ++t)
        segment.scores[static_cast<size_t>(h * segment.stride + t)] = step * static_cast<float>(t);
    }
    one.exact.clear(), one.exact_norms.clear(), one.exact_scores.clear();
    attend_exactly(one, shape, {}, {});
    run(batch, shape.heads());
    EXPECT_LE(errors_of(batch).outputs.normalized(), kRounded);
  }
}

TEST(AttendCodes, WhatHasNoVisibleTokenGivesTheOthersOrZeros) {
  Random random{std::mt19937(4)};
  const Shape shape{{.bits = 4}, {.bits = 4}, 64, 2, 1, 64, 64};
  for (const bool others : {false, true}) {
    std::vector<Case> batch;
    batch.push_back(draw_case(random, shape, {}, {.others = others}));
    batch.push_back(draw_case(random, shape, {{30, 30}}, {.scores = true, .others = others}));
    batch.push_back(draw_case(random, shape, {{600, 600}, {5, 0}}, {.scores = true, .others = others}));
    run(batch, shape.heads());
    const auto found = errors_of(batch);
    EXPECT_LE(found.outputs.normalized(), kRounded);
    for (size_t i = 0; i < 128; ++i) EXPECT_FLOAT_EQ(batch[0].out[i], others ? batch[0].other_out[i] : 0.f);
  }
}

// A sequence's bits are its own: alone, in a batch of more than one launch, and whichever threads go first.
TEST(AttendCodes, NeitherTheBatchNorTheOrderOfThreadsChangesABit) {
  const Shape shape{{.bits = 4, .along_tokens = true}, {.bits = 4}, 64, 4, 1, 32, 64};
  std::vector<Vector<float>> outs;
  for (const Order order : kOrders) {
    const WithOptions scheduled({.order = order});
    Random random{std::mt19937(5)};
    std::vector<Case> batch;
    batch.push_back(draw_case(random, shape, {{700, 3}}, {}));
    run(batch, shape.heads());
    outs.push_back(batch[0].out);
    if (order != Order::forward) continue;
    for (int i = 0; i < 70; ++i) {
      Shape other = shape;
      if (i == 40) other.k.along_tokens = false, other.k_group = 64;
      batch.push_back(draw_case(random, other, {{1 + i % 9, 0}}, {}));
    }
    std::rotate(batch.begin(), batch.begin() + 1, batch.end());
    run(batch, shape.heads());
    outs.push_back(batch.back().out);
    EXPECT_LE(errors_of(batch).outputs.normalized(), kRounded);
  }
  for (const auto& out : outs) EXPECT_EQ(out, outs[0]);
}

// Scales from almost nothing to almost the largest that is served.
TEST(AttendCodes, ScalesOfAnySizeEqualTheReference) {
  Random random{std::mt19937(6)};
  for (const double factor : {1e-3, 1e-2, 50., 250.}) {
    for (const int bits : {2, 4, 8}) {
      const Shape shape{{.bits = bits}, {.bits = bits}, 128, 2, 1, 32, 32};
      std::vector<Case> batch;
      auto& one = batch.emplace_back(draw_case(random, shape, {{40, 0}}, {}));
      for (auto* halves : {&one.data[0]->v.scale, &one.data[0]->v.zero, &one.data[0]->k.scale, &one.data[0]->k.zero}) {
        for (auto& bits16 : *halves) bits16 = to_half(of_half(bits16) * factor);
      }
      for (auto& x : one.q) x /= static_cast<float>(factor);
      one.exact.clear(), one.exact_norms.clear(), one.exact_scores.clear();
      attend_exactly(one, shape, {}, {});
      run(batch, shape.heads());
      EXPECT_LE(errors_of(batch).outputs.normalized(), 1e-5) << factor << ", " << bits << " bits";
    }
  }
}

TEST(AttendCodes, ServeWhatTheirHeadSays) {
  Random random{std::mt19937(7)};
  const auto codes = [&](Format format, int dim, int group) {
    return Stored(random, format, 2, 64, dim, group, false);
  };
  const auto k = codes({.bits = 4}, 128, 32);
  EXPECT_TRUE(cuda_attend::serves(k.m, k.m));
  const auto refuses = [&](auto change) {
    Matrix m = k.m;
    change(m);
    return !cuda_attend::serves(k.m, m) && !cuda_attend::serves(m, k.m);
  };
  EXPECT_TRUE(refuses([](Matrix& m) { m.levels[3] = 2.5f; }));
  EXPECT_TRUE(refuses([](Matrix& m) { m.scale.type = NumberType::f32; }));
  EXPECT_TRUE(refuses([](Matrix& m) { m.zero.type = NumberType::bf16; }));
  EXPECT_TRUE(refuses([](Matrix& m) { m.order = GroupOrder::flat; }));
  EXPECT_TRUE(refuses([](Matrix& m) { m.bits = 3; }));
  EXPECT_TRUE(refuses([](Matrix& m) { m.n_heads = 1; }));
  EXPECT_TRUE(refuses([](Matrix& m) { m.group_size = 16, m.n_groups = 8; }));
  EXPECT_TRUE(refuses([](Matrix& m) { m.row_bytes += 16; }));
  EXPECT_TRUE(refuses([](Matrix& m) { m.rows.data = static_cast<const char*>(m.rows.data) + 8; }));
  const auto other = codes({.bits = 8}, 128, 32), along_tokens = codes({.bits = 4, .along_tokens = true}, 128, 32);
  EXPECT_FALSE(cuda_attend::serves(k.m, other.m));
  EXPECT_TRUE(cuda_attend::serves(along_tokens.m, k.m));
  EXPECT_FALSE(cuda_attend::serves(k.m, along_tokens.m));
  const auto small = codes({.bits = 4, .along_tokens = true}, 128, 4);
  EXPECT_FALSE(cuda_attend::serves(small.m, k.m));
  const auto short_rows = codes({.bits = 4}, 80, 80), two = codes({.bits = 2}, 96, 32);
  EXPECT_FALSE(cuda_attend::serves(short_rows.m, short_rows.m));
  EXPECT_FALSE(cuda_attend::serves(two.m, two.m));
  const auto exact = codes({}, 128, 0), bf16 = codes({.bf16 = true}, 128, 0);
  EXPECT_TRUE(cuda_attend::serves(exact.m, exact.m));
  EXPECT_FALSE(cuda_attend::serves(exact.m, bf16.m));
  EXPECT_FALSE(cuda_attend::serves(exact.m, k.m));
}

TEST(AttendCodes, SplitsCoverWhatIsVisible) {
  for (const int n : {1, 511, 512, 513, 5000, 16384, 16385, 40000, 1000000}) {
    for (const int hidden : {0, 1, 511, 512, n / 2, n - 1, n}) {
      if (hidden > n) continue;
      const Segment segment{.k = {}, .v = {}, .n_tokens = n, .n_hidden = hidden};
      const int first = cuda_attend::first_token(segment), splits = cuda_attend::n_splits(segment);
      const int each = cuda_attend::split_tokens(n - first);
      EXPECT_LE(first, hidden);
      EXPECT_GE(splits, 1);
      EXPECT_LE(splits, cuda_attend::kMostSplits);
      EXPECT_GE(first + splits * int64_t{each}, n);
      if (splits > 1) {
        EXPECT_LT(first + (splits - 1) * int64_t{each}, n);
      }
    }
  }
  EXPECT_EQ(cuda_attend::n_splits({}), 0);
}

}  // namespace
}  // namespace kvc::cuda_emulated::attended
