// The caches of the shared quantizers, decoded for 300 steps one token at a time, against the methods written again in
// float64: which tokens are encoded together when, each group's minimum and step, softmax. Nothing of a cache is used.
#include <algorithm>
#include <functional>

#include "kvc/quant/keyed_generator.h"
#include "kvc/quant/low_rank.h"
#include "method.h"

namespace kvc::conformance {
namespace {

const ModelShape kModel{.n_layers = 3, .n_heads = 4, .n_kv_heads = 2, .head_dim = 32};
constexpr int64_t kPrompt = 75, kSteps = 300;

// Runs of g entries of the last axis, min-max with b bits.
at::Tensor slow_groups(const at::Tensor& x, int64_t g, int64_t bits) {
  const auto runs = x.to(at::kDouble).contiguous().view({-1, g});
  auto out = at::empty_like(runs);
  const double* in = runs.const_data_ptr<double>();
  double* to = out.data_ptr<double>();
  for (int64_t i = 0; i < runs.numel(); i += g) {
    const auto [low, high] = std::minmax_element(in + i, in + i + g);
    const double step = (*high - *low) / ((1 << bits) - 1);
    for (int64_t j = i; j < i + g; ++j) to[j] = step == 0 ? *low : *low + step * std::nearbyint((in[j] - *low) / step);
  }
  return out.view(x.sizes());
}
// x [H, T, D]: along the tokens of a channel, along the channels of a head, along all channels of a token.
at::Tensor by_channel(const at::Tensor& x, int64_t g, int64_t bits) {
  return slow_groups(x.transpose(1, 2).contiguous(), g, bits).transpose(1, 2);
}
at::Tensor by_token(const at::Tensor& x, int64_t g, int64_t bits) { return slow_groups(x, g, bits); }
at::Tensor by_whole_token(const at::Tensor& x, int64_t bits) {
  const auto merged = x.transpose(0, 1).contiguous();
  return slow_groups(merged.flatten(1), x.size(0) * x.size(2), bits).view(merged.sizes()).transpose(0, 1);
}

struct Slow {
  at::Tensor k, v;  // [H, T, D] double
};
// What is held after the first n tokens of x, kPrompt of them the prompt.
using SlowMethod = std::function<Slow(const Input& x, int64_t n)>;

void expect_decoding(const char* name, const nlohmann::json& options, const SlowMethod& slow) {
  const auto compressor = plugin(name).make(options);
  const auto input = ordinary_input(kModel, kPrompt + kSteps, 11);
  const auto cache = compressor->make_cache(layer_info(kModel, 2, 5, {}));
  cache->append(tokens_of(input, 0, kPrompt));
  for (int64_t n = kPrompt; n <= kPrompt + kSteps; ++n) {
    if (n > kPrompt) cache->append(tokens_of(input, n - 1, 1));
    if (n % 10 != 0 && (n - kPrompt) % 20 > 1 && n % 32 > 1) continue;  // on and after each border, and between
    const auto expected = slow(input, n);
    const auto held = cache->dequantize();
    ASSERT_LT((held.k - expected.k).abs().max().item<double>(), 2e-5) << name << options.dump() << " K at " << n;
    ASSERT_LT((held.v - expected.v).abs().max().item<double>(), 2e-5) << name << options.dump() << " V at " << n;
    const auto q = input.q.narrow(1, n - 1, 1);
    const auto attended = cache->attend(q, 1 / std::sqrt(32.0));
    ASSERT_LT((attended - attention_f64(q, {expected.k, expected.v}, 1 / std::sqrt(32.0))).abs().max().item<double>(),
              2e-5)
        << name << n;
  }
}

// Chunks: [0, prompt), then every `buffer` tokens once one more has come; `chunk` of each, the rest as it is.
Slow by_chunks(const Input& x, int64_t n, int64_t prompt, int64_t buffer,
               const std::function<Slow(const at::Tensor& k, const at::Tensor& v, int64_t block)>& chunk) {
  std::vector<at::Tensor> k, v;
  int64_t first = 0, block = 0, size = prompt;
  while (size > 0 && (block == 0 ? n >= size : n > first + size)) {
    auto part = chunk(x.k.narrow(1, first, size), x.v.narrow(1, first, size), block++);
    k.push_back(part.k), v.push_back(part.v);
    first += size, size = buffer;
  }
  k.push_back(x.k.narrow(1, first, n - first).to(at::kDouble)),
      v.push_back(x.v.narrow(1, first, n - first).to(at::kDouble));
  return {at::cat(k, 1), at::cat(v, 1)};
}

TEST(SlowReference, TokenGroupDecodes300Steps) {
  for (const int64_t bits : {2, 4, 8}) {
    expect_decoding("token_group", {{"bits", bits}, {"group_size", 16}, {"precision", "exact"}},
                    [&](const Input& x, int64_t n) {
                      return Slow{by_token(x.k.narrow(1, 0, n), 16, bits), by_token(x.v.narrow(1, 0, n), 16, bits)};
                    });
  }
}

TEST(SlowReference, KcvtDecodes300Steps) {
  expect_decoding("kcvt", {{"bits", 4}, {"buffer", 20}, {"precision", "exact"}}, [](const Input& x, int64_t n) {
    return by_chunks(x, n, kPrompt, 20, [](const at::Tensor& k, const at::Tensor& v, int64_t) {
      return Slow{by_channel(k, k.size(1), 4), by_whole_token(v, 4)};
    });
  });
}

// K in runs of `recent` from position 0, V beyond the newest `recent`; a step encodes what the one before left full.
TEST(SlowReference, KiviDecodes300Steps) {
  expect_decoding("kivi", {{"bits", 2}, {"group_size", 16}, {"recent", 32}, {"precision", "exact"}},
                  [](const Input& x, int64_t n) {
                    const int64_t due = n == kPrompt ? n : n - 1, n_k = due / 32 * 32;
                    const int64_t n_v = std::max<int64_t>(due - 32, 0);
                    const auto rest = [n](const at::Tensor& y, int64_t from) {
                      return y.narrow(1, from, n - from).to(at::kDouble);
                    };
                    return Slow{at::cat({by_channel(x.k.narrow(1, 0, n_k), 16, 2), rest(x.k, n_k)}, 1),
                                at::cat({by_token(x.v.narrow(1, 0, n_v), 16, 2), rest(x.v, n_v)}, 1)};
                  });
}

// The projection of what the backbone leaves, in float64 from the start that the block's key draws: with a Q whose
// columns are orthonormal, L = Q Q^T R.
TEST(SlowReference, GearWithoutOutliersDecodes300Steps) {
  const nlohmann::json options = {{"bits", 2}, {"rank", 3},      {"decode_rank", 2}, {"loops", 2},
                                  {"seed", 9}, {"sparsity", 0.}, {"buffer", 20},     {"precision", "exact"}};
  expect_decoding("gear", options, [](const Input& x, int64_t n) {
    return by_chunks(x, n, kPrompt, 20, [](const at::Tensor& k, const at::Tensor& v, int64_t block) {
      auto generator = keyed_generator(9, 5, 2, block);
      const auto corrected = [&](const at::Tensor& original, const at::Tensor& dense) {
        const auto left = original.to(at::kDouble) - dense;
        const int64_t rank = block == 0 ? 3 : 2;
        auto p = low_rank_start(generator, left.size(0), left.size(1), left.size(2), rank).to(at::kDouble);
        p = at::matmul(left.transpose(1, 2), at::matmul(left, p));
        p = std::get<0>(at::linalg_qr(p));
        const auto q = std::get<0>(at::linalg_qr(at::matmul(left, p)));
        return dense + at::matmul(q, at::matmul(q.transpose(1, 2), left));
      };
      const auto k_part = corrected(k, by_channel(k, k.size(1), 2));
      return Slow{k_part, corrected(v, by_whole_token(v, 2))};
    });
  });
}

// Fed one by one or at once, K's runs lie on the same borders and V's window on the same token.
TEST(SlowReference, KiviHoldsTheSameHoweverItIsFed) {
  const auto compressor = plugin("kivi").make({{"bits", 2}, {"group_size", 16}, {"recent", 32}});
  const auto input = ordinary_input(kModel, 200, 3);
  for (const int64_t n : {33, 97, 161, 193}) {  // one token past a border, which encodes what it left full
    const auto at_once = compressor->make_cache(layer_info(kModel, 0, 0, {}));
    const auto one_by_one = compressor->make_cache(layer_info(kModel, 0, 0, {}));
    at_once->append(tokens_of(input, 0, n));
    for (int64_t t = 0; t < n; ++t) one_by_one->append(tokens_of(input, t, 1));
    EXPECT_TRUE(at::equal(at_once->dequantize().k, one_by_one->dequantize().k)) << n;
    const auto v = at_once->dequantize().v, w = one_by_one->dequantize().v;  // V's newest waits one step longer
    EXPECT_TRUE(at::equal(v.narrow(1, 0, n - 33), w.narrow(1, 0, n - 33))) << n;
    EXPECT_TRUE(at::equal(v.narrow(1, n - 32, 32), w.narrow(1, n - 32, 32))) << n;
  }
}

}  // namespace
}  // namespace kvc::conformance
