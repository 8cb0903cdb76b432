// Exact attention of prompts by LibTorch's fused kernel, as a GPU in 16 bits has it, against sums in float64.
#include "model/prefill_attention.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <gtest/gtest.h>

#include "cuda_emulator/emulated_device.h"

namespace kvc {
namespace {

constexpr int64_t kQueryHeads = 6, kKvHeads = 2, kDim = 64;

LayerInfo layer() { return {.n_heads = kQueryHeads, .n_kv_heads = kKvHeads, .head_dim = kDim, .attention_scale = 0.1}; }

// [T_q, H_q*D] fp64
at::Tensor expected(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t first) {
  const auto wide = [](const at::Tensor& x) { return x.to(at::kDouble); };
  const auto keys = wide(k).repeat_interleave(kQueryHeads / kKvHeads, 0), values = wide(v).repeat_interleave(3, 0);
  const auto hidden = at::ones({q.size(1), k.size(1)}, at::kBool).triu(first + 1);
  const auto scores = at::matmul(wide(q), keys.transpose(1, 2)).mul(0.1).masked_fill(hidden, -INFINITY);
  return at::matmul(scores.softmax(-1), values).transpose(0, 1).flatten(1);
}

TEST(PrefillAttention, OfAllQueriesAtOnceIsThatOfFloat64) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  at::manual_seed(5);
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    for (const auto& [first, n] : {std::pair<int64_t, int64_t>{0, 1}, {0, 320}, {64, 64}, {128, 1152}}) {
      SCOPED_TRACE(n);
      const auto q = at::randn({kQueryHeads, n, kDim}).to(type), k = at::randn({kKvHeads, first + n, kDim}).to(type),
                 v = at::randn({kKvHeads, first + n, kDim}).to(type);
      const auto there = [](const at::Tensor& x) { return x.to(emulated_device()); };
      const PrefillAttention attention(there(k), there(v), layer());
      ASSERT_TRUE(attention.has_all());
      const auto got = attention.attend_all(there(q), first).cpu().to(at::kDouble), right = expected(q, k, v, first);
      EXPECT_LE((got - right).norm().item<double>(), (type == at::kHalf ? 1e-3 : 8e-3) * right.norm().item<double>());
    }
  }
}

TEST(PrefillAttention, TakesBucketsWhereTheFusedKernelDoesNotServe) {
  const auto of = [](at::ScalarType type, at::Device device, auto change) {
    auto info = layer();
    change(info);
    const auto x = at::zeros({kKvHeads, 64, kDim}, at::TensorOptions(type).device(device));
    return PrefillAttention(x, x, info).has_all();
  };
  const auto none = [](LayerInfo&) {};
  EXPECT_FALSE(of(at::kHalf, at::kCPU, none));
  EXPECT_FALSE(of(at::kFloat, emulated_device(), none));
  EXPECT_FALSE(of(at::kHalf, emulated_device(), [](LayerInfo& info) { info.sliding_window = 32; }));
  EXPECT_FALSE(of(at::kHalf, emulated_device(), [](LayerInfo& info) { info.logit_softcap = 30; }));
  EXPECT_FALSE(of(at::kHalf, emulated_device(), [](LayerInfo& info) { info.sinks = at::zeros({kQueryHeads}); }));
}

}  // namespace
}  // namespace kvc
