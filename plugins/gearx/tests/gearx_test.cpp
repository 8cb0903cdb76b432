#include "../expander.h"
#include "method.h"

namespace kvc::conformance {
namespace {

const ModelShape kModel{.n_layers = 2, .n_heads = 4, .n_kv_heads = 2, .head_dim = 64};  // m = 128

KeyValue decoded(const nlohmann::json& options, const Input& tokens, int64_t n_prompt) {
  return Method("gearx", options).cache(kModel, tokens, n_prompt)->dequantize();
}

// Where y is x to the rounding of D^ + (x - D^), [H, T, D] -> merged [T, H*D].
at::Tensor exact_entries(const at::Tensor& y, const at::Tensor& x) {
  return (y - x).abs().le(1e-5).transpose(0, 1).reshape({x.size(1), -1});
}

TEST(Gearx, TheMasksEntriesAreExact) {
  const auto tokens = ordinary_input(kModel, 256);
  for (const std::string slice : {"merged", "head"}) {
    for (const std::string fill : {"masked", "zero"}) {
      const auto kv =
          decoded({{"rank", 0}, {"bits", 2}, {"slice", slice}, {"fill", fill}, {"precision", "exact"}}, tokens, 256);
      // degrees of a 256-token prompt: 2 of 128 channels (d_c 4), or 2 of the 64 of each head (d_c 8)
      const int64_t d_t = slice == "merged" ? 2 : 4, d_c = slice == "merged" ? 4 : 8;
      const gearx::MaskKey key{slice == "merged" ? 128 : 64, 256, 2, 0};
      const auto mask = gearx::make_mask(key);
      auto expected = at::zeros({256, 128}, at::kBool);
      for (int64_t e = 0; e < key.n_edges(); ++e) {
        expected[e / 2][mask[e]] = true;
        if (slice == "head") expected[e / 2][mask[e] + 64] = true;
      }
      EXPECT_TRUE(expected.sum(1).eq(d_t).all().item<bool>() && expected.sum(0).eq(d_c).all().item<bool>());
      const auto k = exact_entries(kv.k, tokens.k), v = exact_entries(kv.v, tokens.v);
      EXPECT_TRUE(k.logical_or(expected.logical_not()).all().item<bool>()) << slice << " " << fill;
      EXPECT_TRUE(v.logical_or(expected.logical_not()).all().item<bool>()) << slice << " " << fill;
      EXPECT_LT(k.to(at::kDouble).mean().item<double>(), 0.1);  // the rest is quantized
    }
  }
}

TEST(Gearx, StreamGroupingKeepsTheRemainderExact) {
  const auto tokens = ordinary_input(kModel, 150);
  const auto grouped = decoded({{"precision", "exact"}}, tokens, 150);
  EXPECT_TRUE(at::equal(grouped.k.narrow(1, 128, 22), tokens.k.narrow(1, 128, 22)));
  EXPECT_FALSE(at::equal(grouped.k.narrow(1, 127, 1), tokens.k.narrow(1, 127, 1)));
  const auto whole = decoded({{"precision", "exact"}, {"stream", "whole"}}, tokens, 150);
  EXPECT_FALSE(at::equal(whole.k.narrow(1, 149, 1), tokens.k.narrow(1, 149, 1)));
  const Input first{"", tokens.q.narrow(1, 0, 95), tokens.k.narrow(1, 0, 95), tokens.v.narrow(1, 0, 95)};
  const auto short_prompt = decoded({{"precision", "exact"}, {"buffer", 96}}, first, 95);
  EXPECT_TRUE(at::equal(short_prompt.k, tokens.k.narrow(1, 0, 95)));
}

TEST(Gearx, LowRankNeverAddsError) {
  const auto tokens = ordinary_input(kModel, 192);
  double last_k = INFINITY, last_v = INFINITY;
  for (const int64_t rank : {0, 2, 8, 64}) {
    const auto kv = decoded({{"bits", 2}, {"rank", rank}, {"loops", 8}, {"precision", "exact"}}, tokens, 192);
    const double k = relative_error(kv.k, tokens.k), v = relative_error(kv.v, tokens.v);
    EXPECT_LT(k, last_k) << rank;
    EXPECT_LT(v, last_v) << rank;
    last_k = k, last_v = v;
  }
}

TEST(Gearx, Decodes300StepsAsFloat64Does) {
  for (const std::string stream : {"grouped", "whole"}) {
    for (const std::string slice : {"merged", "head"}) {
      SCOPED_TRACE(stream + " " + slice);
      expect_decoding_holds(Method("gearx", {{"bits", 2}, {"stream", stream}, {"slice", slice}}), kModel, 75, 300);
    }
  }
}

// Table 1 prints 32.1: GEAR-L's 29.0, GEAR's mean over three models (LLaMA3-8B charged as rank 5) and three datasets,
// and 3.12 on top. Here both before rounding.
TEST(Gearx, PaperBytesAreTable1) {
  double mean = 0;
  for (const auto& [model, rank] : {std::pair{ModelShape{32, 32, 8, 128}, 5}, std::pair{ModelShape{40, 40, 40, 128}, 4},
                                    std::pair{ModelShape{32, 32, 8, 128}, 4}}) {
    const Method method("gearx", {{"rank", rank}});
    for (const int64_t n : {900, 1304, 1021}) {
      const auto fp16 = 4. * static_cast<double>(n * model.n_kv_heads * model.head_dim);
      mean += 100 * method.compressor().paper_bytes(model, n, 0) / fp16 / 9;
    }
  }
  EXPECT_NEAR(mean, 29.04 + 3.125, 0.005);
}

}  // namespace
}  // namespace kvc::conformance
