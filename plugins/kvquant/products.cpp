#include "products.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <kvc/quant/rotated_scores.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sparse.h"

namespace kvquant {
namespace {

constexpr int64_t kSparseTokens = 256;  // whose outliers one thread scores, or at least as many mixes

// Some tokens' outliers and the first of their entries, behind those of the tokens before.
struct Run {
  sparse::Entries entries;
  int64_t first;  // token
};

// A block's outliers in runs of n tokens. values: fp32
std::vector<Run> runs_of(const Matrix::Block& block, const at::Tensor& values, int64_t n) {
  std::vector<Run> runs;
  const auto* counts = block.counts.const_data_ptr<int16_t>();
  int64_t entry = 0;
  for (int64_t t = 0; t < block.n_tokens(); ++t) {
    if (t % n == 0) {
      runs.push_back({{.values = values.const_data_ptr<float>() + entry,
                       .index = block.index.const_data_ptr<int16_t>() + entry,
                       .counts = counts + t,
                       .n_tokens = std::min(n, block.n_tokens() - t)},
                      t});
    }
    entry += static_cast<uint16_t>(counts[t]);
  }
  return runs;
}

template <class F>
void share(int64_t n, F f) {
  at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

void score_outliers(const Matrix::Block& block, const sparse::Keys& keys, int64_t position, at::Tensor& scores) {
  const auto values = block.values.to(at::kFloat);
  const auto runs = runs_of(block, values, kSparseTokens);
  float* to = scores.data_ptr<float>();
  share(static_cast<int64_t>(runs.size()), [&](int64_t i) {
    const auto& run = runs[static_cast<size_t>(i)];
    keys.score(run.entries, position + run.first, to + run.first, scores.size(1));
  });
}

// The codes of one block: integers have loops of their own, which add zeros, too.
void accumulate_codes(kvc::CompressedAttention& attention, const Matrix::Block& block, const kvc::CodeBook& book,
                      const Format& format, int64_t head_dim, int64_t first) {
  const int64_t n = block.n_tokens(), n_heads = block.codes.size(0);
  const auto scale = block.scale.view({1, n, 1});
  if (format.uniform) {
    attention.accumulate_v(kvc::GroupCodes{.codes = block.codes,
                                           .scale = scale,
                                           .zero = block.zero.view({1, n, 1}),
                                           .format = {.bits = format.bits},
                                           .n_heads = n_heads,
                                           .n_tokens = n,
                                           .head_dim = head_dim},
                           first);
    return;
  }
  attention.accumulate_v(kvc::LevelCodes{.codes = block.codes, .scale = scale, .book = book, .head_dim = head_dim},
                         first);
}

// Blocks whose outliers are mixed together, [begin, end), the first of token `first`: at least kSparseTokens each.
struct Part {
  size_t begin, end;
  int64_t first;
};

std::vector<Part> parts_of(const std::vector<Matrix::Block>& blocks) {
  std::vector<Part> parts;
  int64_t first = 0, n = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (n == 0) parts.push_back({i, i, first});
    parts.back().end = i + 1;
    first += blocks[i].n_tokens(), n += blocks[i].n_tokens();
    if (n >= 4 * kSparseTokens) n = 0;
  }
  return parts;
}

}  // namespace

bool has_products(const Format& format, int64_t head_dim) { return kvc::RotatedScores::takes(format.bits, head_dim); }

void score(kvc::CompressedAttention& attention, const Matrix& k, const Range& channels, const Levels& levels,
           const Format& format, std::span<const float> frequencies, int64_t first, int64_t position) {
  if (k.blocks().empty()) return;
  const auto& q = attention.q();
  const int64_t d = q.size(1), n_heads = channels.scale.numel() / d;
  const std::vector<float> still(static_cast<size_t>(d / 2), 0.f);  // without RoPE
  if (frequencies.empty()) frequencies = still;
  const auto level = values_of(levels, format);
  const auto base = channels.zero + channels.scale * level[0];
  const sparse::Keys outliers({n_heads, q.size(0) / n_heads, d}, q.const_data_ptr<float>(),
                              base.const_data_ptr<float>(), frequencies);
  kvc::RotatedScores codes(q, {level.data(), format.bits}, channels.scale, channels.zero, frequencies, position);
  for (const auto& block : k.blocks()) {
    auto scores = codes.next(block.codes);
    if (block.values.numel() > 0) score_outliers(block, outliers, position, scores);
    attention.add_scores(scores, first);
    first += block.n_tokens(), position += block.n_tokens();
  }
}

void accumulate_v(kvc::CompressedAttention& attention, const Matrix& v, const Levels& levels, const Format& format,
                  int64_t n_heads, int64_t head_dim, int64_t first) {
  const auto level = values_of(levels, format);
  const auto& blocks = v.blocks();
  int64_t token = first;
  for (const auto& block : blocks) {
    accumulate_codes(attention, block, {level.data(), format.bits}, format, head_dim, token);
    token += block.n_tokens();
  }
  if (format.uniform && v.n_outliers() == 0) return;
  const auto& weights = attention.weights();
  const sparse::Shape shape{n_heads, weights.size(0) / n_heads, head_dim};
  const auto parts = parts_of(blocks);
  const auto mixed = at::zeros({static_cast<int64_t>(parts.size()), weights.size(0), head_dim}, at::kFloat);
  float* out = mixed.mutable_data_ptr<float>();
  share(static_cast<int64_t>(parts.size()), [&](int64_t i) {
    const auto& part = parts[static_cast<size_t>(i)];
    const float* from = weights.const_data_ptr<float>() + first + part.first;
    for (size_t b = part.begin; b < part.end; from += blocks[b++].n_tokens()) {
      const auto values = blocks[b].values.to(at::kFloat), zero = blocks[b].zero.to(at::kFloat);
      const auto base = zero + blocks[b].scale.to(at::kFloat) * level[0];
      sparse::accumulate_v(shape, runs_of(blocks[b], values, blocks[b].n_tokens()).front().entries,
                           base.const_data_ptr<float>(), format.uniform ? nullptr : zero.const_data_ptr<float>(), from,
                           weights.size(1), out + i * shape.n_queries() * head_dim);
    }
  });
  for (int64_t i = 0; i < mixed.size(0); ++i) attention.add_out(mixed[i]);
}

}  // namespace kvquant
