// One step's attention to sequences whose codes have low-rank parts and entries beside them, on a device,
// against fp64 attention to the numbers that all of them together stand for.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kvc/quant/compressed_attention.h"
#include "kvc/quant/corrected_codes.h"
#include "kvc/quant/keyed_generator.h"
#include "method.h"
#include "sandbox/audit.h"
#include "support/test_device.h"

namespace kvc {
namespace {

// Kernels in emulation look for races on global memory.
[[maybe_unused]] const int looks_for_races = ::setenv("KVC_EMULATED_RACES", "1", 0);

constexpr int64_t kQueryHeads = 4, kKvHeads = 2, kDim = 64;

// What K or V of a chunk has beside its codes.
struct Beside {
  int64_t rank = 0;
  double low_rank_share = 1, entries = 0;
};

// Codes of each chunk of a sequence, and exact tokens behind them.
struct Held {
  std::vector<CorrectedCodes> chunks;
  at::Tensor recent;  // [H_kv, n, D] fp16

  Held(std::initializer_list<int64_t> sizes, int64_t n_recent, GroupAxis axis, const Beside& beside) {
    auto generator = keyed_generator(1, 2, 3, 4);
    const CorrectionFormat format{.groups = GroupFormat{.bits = 4, .group_size = 32, .axis = axis},
                                  .fill = Fill::masked,
                                  .rank = beside.rank,
                                  .low_rank_share = beside.low_rank_share};
    for (const int64_t n : sizes) {
      const auto x = numbers(n);
      chunks.push_back(encode_corrected(x, find_outliers(x, beside.entries, axis), format, generator));
    }
    recent = numbers(n_recent).to(at::kHalf);
  }
  // Some channels are larger than others, so that what stands beside codes counts.
  static at::Tensor numbers(int64_t n) {
    const auto x = at::randn({kKvHeads, n, kDim}) * at::rand({kKvHeads, 1, kDim}).mul(3).exp() / 4;
    return x.to(test::device());
  }
  at::Tensor all() const {  // [H_kv, T, D] fp64
    std::vector<at::Tensor> parts;
    for (const auto& chunk : chunks) parts.push_back(chunk.dequantize().cpu().to(at::kDouble));
    parts.push_back(recent.cpu().to(at::kDouble));
    return at::cat(parts, 1);
  }
  template <class OfChunk, class OfRecent>
  void read(OfChunk of_chunk, OfRecent of_recent) const {
    int64_t first = 0;
    for (const auto& chunk : chunks) of_chunk(chunk, first), first += chunk.n_tokens;
    if (recent.size(1) > 0) of_recent(recent, first);
  }
};

struct Sequence {
  Held k, v;
  at::Tensor q;  // [H_q, 1, D]
  int64_t n_tokens() const { return k.all().size(1); }
};

constexpr double kScale = 0.05;

at::Tensor attend(const std::vector<const Sequence*>& sequences, const LayerInfo& info) {
  std::vector<at::Tensor> q;
  std::vector<int64_t> n_tokens;
  for (const auto* one : sequences) q.push_back(one->q), n_tokens.push_back(one->n_tokens());
  auto out = at::empty({static_cast<int64_t>(q.size()), kQueryHeads, kDim},
                       at::TensorOptions(at::kFloat).device(test::device()));
  auto batch = CompressedAttention::of_batch(q, kScale, info, n_tokens, out);
  const auto for_each = [&](auto f) {
    for (size_t b = 0; b < batch.size(); ++b) f(batch[b], *sequences[b]);
  };
  for_each([](CompressedAttention& a, const Sequence& one) {
    one.k.read([&](const auto& chunk, int64_t first) { chunk.score(a, first); },
               [&](const at::Tensor& recent, int64_t first) { a.score(recent, first); });
  });
  for_each([](CompressedAttention& a, const Sequence&) { a.softmax(); });
  for_each([](CompressedAttention& a, const Sequence& one) {
    one.v.read([&](const auto& chunk, int64_t first) { chunk.accumulate_v(a, first); },
               [&](const at::Tensor& recent, int64_t first) { a.accumulate_v(recent, first); });
  });
  batch.front().out();
  return out.cpu();
}

at::Tensor exactly(const Sequence& one, int64_t window) {  // [H_q, D]
  const auto repeated = [](const Held& x) { return x.all().repeat_interleave(kQueryHeads / kKvHeads, 0); };
  auto scores = at::matmul(one.q.cpu().to(at::kDouble) * kScale, repeated(one.k).transpose(1, 2));
  const int64_t n = scores.size(2);
  if (window > 0 && n > window) scores.narrow(2, 0, n - window).fill_(-INFINITY);
  return at::matmul(scores.softmax(-1), repeated(one.v)).squeeze(1);
}

double error_of(const at::Tensor& got, const at::Tensor& exact) {
  return (got.to(at::kDouble) - exact).square().sum().item<double>() / exact.square().sum().item<double>();
}

// A batch of which some sequences hold chunks that attend_codes reads, and one does not: it rounds to fp16, which is
// seen; and what a sequence gives is the same bits alone.
void expect_attended(const Beside& of_k, const Beside& of_v, GroupAxis axis_of_k, int64_t window) {
  at::manual_seed(1);
  const LayerInfo info{.n_heads = kQueryHeads,
                       .n_kv_heads = kKvHeads,
                       .head_dim = kDim,
                       .device = test::device(),
                       .sliding_window = window};
  std::vector<Sequence> all;
  const auto add = [&](std::initializer_list<int64_t> chunks, int64_t n_recent) {
    all.push_back({Held(chunks, n_recent, axis_of_k, of_k), Held(chunks, n_recent, GroupAxis::channels, of_v),
                   at::randn({kQueryHeads, 1, kDim}).to(at::kHalf).to(test::device())});
  };
  add({544, 512, 32}, 3), add({96}, 7), add({640}, 0);
  std::vector<const Sequence*> batch;
  for (const auto& one : all) batch.push_back(&one);
  const auto together = attend(batch, info);
  for (size_t b = 0; b < all.size(); ++b) {
    SCOPED_TRACE(b);
    const auto out = together[static_cast<int64_t>(b)];
    const double error = error_of(out, exactly(all[b], window));
    EXPECT_LE(error, b == 1 ? 1e-11 : 4e-6);
    if (b != 1 && window == 0) {
      EXPECT_GE(error, 1e-10);  // products alone give less
    }
  }
  EXPECT_TRUE(at::equal(together[0], attend({batch[0]}, info)[0]));
}

TEST(AttendsOnADevice, ToCodesWithALowRankPartAndEntriesBeside) {
  const Beside both{.rank = 4, .entries = 0.02};
  for (const auto axis : {GroupAxis::channels, GroupAxis::tokens}) expect_attended(both, both, axis, 0);
}
TEST(AttendsOnADevice, ToCodesOfWhichTheLastHaveALowRankPart) {
  expect_attended({.rank = 4, .low_rank_share = 0.4}, {.rank = 2, .low_rank_share = 0.6}, GroupAxis::tokens, 0);
}
TEST(AttendsOnADevice, ToCodesOfWhichKOrVAloneHasMore) {
  const Beside both{.rank = 4, .entries = 0.02}, entries{.entries = 0.05};
  expect_attended(both, {}, GroupAxis::tokens, 0);
  expect_attended({}, both, GroupAxis::tokens, 0);
  expect_attended({}, entries, GroupAxis::channels, 0);
}
TEST(AttendsOnADevice, ToCodesBehindASlidingWindow) {
  const Beside both{.rank = 4, .entries = 0.02};
  for (const int64_t window : {2, 400, 700}) expect_attended(both, both, GroupAxis::tokens, window);
}

// As where each stage stores the residual of the one before: both add to the same scores.
TEST(AttendsOnADevice, PartsOfOneShapeThatAddToTheSameScoresAreLaunchesOfTheirOwn) {
  at::manual_seed(2);
  const LayerInfo info{.n_heads = kQueryHeads, .n_kv_heads = kKvHeads, .head_dim = kDim, .device = test::device()};
  const auto random = [](int64_t heads, int64_t n) { return at::randn({heads, n, kDim}).to(at::kHalf); };
  const auto q = random(kQueryHeads, 1), k = random(kKvHeads, 40), rest = random(kKvHeads, 40),
             v = random(kKvHeads, 40);
  const auto there = [](const at::Tensor& x) { return x.to(test::device()); };
  auto out = at::empty({1, kQueryHeads, kDim}, at::TensorOptions(at::kFloat).device(test::device()));
  auto batch = CompressedAttention::of_batch(std::vector{there(q)}, kScale, info, std::vector<int64_t>{40}, out);
  batch[0].score(there(k), 0), batch[0].score(there(rest), 0);
  batch[0].softmax();
  batch[0].accumulate_v(there(v), 0);
  batch[0].out();
  const auto repeated = [](const at::Tensor& x) {
    return x.to(at::kDouble).repeat_interleave(kQueryHeads / kKvHeads, 0);
  };
  const auto scores = at::matmul(q.to(at::kDouble) * kScale, (repeated(k) + repeated(rest)).transpose(1, 2));
  EXPECT_LE(error_of(out[0].cpu(), at::matmul(scores.softmax(-1), repeated(v)).squeeze(1)), 1e-11);
}

// Scores in the hundreds, of which rounding queries and keys to fp16 makes other weights.
TEST(AttendsOnADevice, AWatchAllowsWhatFp16MakesOfLargeScoresAndNoMore) {
  at::manual_seed(1);
  const LayerInfo info{.n_heads = kQueryHeads, .n_kv_heads = kKvHeads, .head_dim = kDim, .device = test::device()};
  const auto compressor = conformance::plugin("token_group").make({{"bits", 2}, {"group_size", 32}});
  int n_beyond = 0;
  for (int draw = 0; draw < 12; ++draw) {
    const auto of_device = [](const at::Tensor& x) { return x.to(test::device()); };
    const auto q = of_device((at::randn({kQueryHeads, 1, kDim}) * 30).to(at::kHalf));
    const auto k = of_device(at::randn({kKvHeads, 700, kDim}) * 6), v = of_device(at::randn({kKvHeads, 700, kDim}));
    const auto cache = compressor->make_cache(info);
    cache->append({.q = {}, .k = k, .v = v});
    const LayerAudit audit(std::make_shared<AuditedPrompt>(info, k, v));
    const auto got = cache->attend(q, info.attention_scale);
    EXPECT_NO_THROW(audit.compare(*cache, q.to(at::kFloat), got)) << draw;
    EXPECT_THROW(audit.compare(*cache, q.to(at::kFloat), got * 1.5), Error) << draw;

    const auto held = cache->LayerCache::attend(q, info.attention_scale);
    n_beyond += std::sqrt(error_of(got.cpu(), held.cpu().to(at::kDouble))) > 0.01;
  }
  EXPECT_GT(n_beyond, 0);  // of one hundredth, which is what is allowed on the CPU
}

}  // namespace
}  // namespace kvc
