#include "../expander.h"
#include "oracle.h"
#include "slow_reference.h"

namespace kvc::conformance {
namespace {

const ModelShape kModel{.n_layers = 2, .n_heads = 4, .n_kv_heads = 2, .head_dim = 64};  // m = 128

KeyValue decoded(const nlohmann::json& options, const Tokens& tokens, int64_t n_prompt) {
  return Method("gearx", options).cache(kModel, tokens, n_prompt)->dequantize();
}

// Where y is x to the rounding of D^ + (x - D^), [H, T, D] -> merged [T, H*D].
at::Tensor exact_entries(const at::Tensor& y, const at::Tensor& x) {
  return (y - x).abs().le(1e-5).transpose(0, 1).reshape({x.size(1), -1});
}

TEST(Gearx, TheMasksEntriesAreExact) {
  const auto tokens = random_tokens(kModel, 256);
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

int64_t chunk_bytes(const std::string& backbone, int64_t n, int64_t b, int64_t g, int64_t rank, int64_t d_t) {
  const int64_t h = kModel.n_kv_heads, d = kModel.head_dim;
  const auto packed = [&](int64_t len) { return 4 * ((len * b + 31) / 32); };
  const int64_t per_token = h * n * (packed(d) + 4 * d / g), r = std::min({rank, n, d});
  const int64_t codes = backbone == "kcvt"   ? h * d * (packed(n) + 4) + n * (h * packed(d) + 4)
                        : backbone == "kivi" ? h * d * (packed(n) + 4 * n / g) + per_token
                                             : 2 * per_token;
  return codes + 2 * 2 * h * r * (n + d) + 2 * 2 * n * d_t;
}

// m 128: 2 of 128 in prompts of 128 tokens and more, 4 in blocks and in a prompt of 64.
TEST(Gearx, BytesAreThePencilFormula) {
  const auto tokens = random_tokens(kModel, 300);
  for (const std::string backbone : {"token_group", "kcvt", "kivi"}) {
    for (const std::string stream : {"grouped", "whole"}) {
      for (const int64_t n_prompt : {1, 2, 63, 64, 65, 130, 191, 256, 300}) {
        const int64_t unit = stream == "grouped" ? 64 : backbone == "kivi" ? 32 : 1;
        const int64_t prompt = n_prompt - n_prompt % unit;
        int64_t rest = 300 - prompt, expected = 0;
        if (prompt > 0) expected += chunk_bytes(backbone, prompt, 4, 32, 4, prompt <= 64 ? 4 : 2);
        for (; rest > 64; rest -= 64) expected += chunk_bytes(backbone, 64, 4, 32, 2, 4);
        const Method method("gearx", {{"backbone", backbone}, {"stream", stream}, {"group_size", 32}});
        EXPECT_EQ(method.cache(kModel, tokens, n_prompt)->footprint().total_bytes(),
                  expected + 4 * kModel.n_kv_heads * kModel.head_dim * rest)
            << backbone << " " << stream << " " << n_prompt;
      }
    }
  }
}

TEST(Gearx, StreamGroupingKeepsTheRemainderExact) {
  const auto tokens = random_tokens(kModel, 150);
  const auto grouped = decoded({{"precision", "exact"}}, tokens, 150);
  EXPECT_TRUE(at::equal(grouped.k.narrow(1, 128, 22), tokens.k.narrow(1, 128, 22)));
  EXPECT_FALSE(at::equal(grouped.k.narrow(1, 127, 1), tokens.k.narrow(1, 127, 1)));
  const auto whole = decoded({{"precision", "exact"}, {"stream", "whole"}}, tokens, 150);
  EXPECT_FALSE(at::equal(whole.k.narrow(1, 149, 1), tokens.k.narrow(1, 149, 1)));
  const Tokens first{tokens.q.narrow(1, 0, 95), tokens.k.narrow(1, 0, 95), tokens.v.narrow(1, 0, 95)};
  const auto short_prompt = decoded({{"precision", "exact"}, {"buffer", 96}}, first, 95);
  EXPECT_TRUE(at::equal(short_prompt.k, tokens.k.narrow(1, 0, 95)));
}

TEST(Gearx, LowRankNeverAddsError) {
  const auto tokens = random_tokens(kModel, 192);
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

TEST(Gearx, ModelsWithoutASparseMaskAreRefused) {
  const Method method("gearx", nlohmann::json::object());
  EXPECT_NO_THROW(method.compressor().check_model({1, 1, 1, 16}));
  EXPECT_THROW(method.compressor().check_model({1, 1, 1, 3}), Error);   // 64 tokens x 3 channels: only all of them
  EXPECT_THROW(method.compressor().check_model({1, 1, 1, 49}), Error);  // odd: every channel
  EXPECT_THROW(Method("gearx", {{"backbone", "kivi"}, {"buffer", 96}}), Error);
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

class GearxOracle : public Oracle {};

// On the public code's inputs A ([4, 256, 64], m = n = 256), at 3.125 %, relative errors known for random masks:
// they remove little more than their own share, and with the paper's zeros K becomes worse than without a mask.
TEST_F(GearxOracle, ErrorsAreThoseOfRandomMasks) {
  struct Case {
    const char* tensor;
    int64_t bits;
    const char* fill;
    double expected;
  };
  int n_compared = 0;
  for (const Case& c : {Case{"K_A", 2, "masked", .1866}, Case{"V_A", 2, "masked", .7401}, Case{"K_A", 2, "zero", .2115},
                        Case{"K_A", 4, "zero", .0422}}) {
    const auto record = std::find_if(records_.begin(), records_.end(), [&](const auto& r) {
      return r.method == "gear.KCVT" && r.tensor == c.tensor && r.fields.at("bits") == c.bits;
    });
    if (record == records_.end() || record->x.sizes() != at::IntArrayRef({4, 256, 64})) continue;
    const auto error = [&](const char* plugin, nlohmann::json options) {
      options["bits"] = c.bits, options["precision"] = "exact";
      return relative_error(run(*record, {plugin, options, c.tensor[0] == 'K' ? 'k' : 'v', 0, 0})[0], record->x);
    };
    const double ours = error("gearx", {{"rank", 0}, {"prompt_density", 0.03125}, {"fill", c.fill}});
    const double none = error("kcvt", nlohmann::json::object());
    const double largest = error("outlier", {{"backbone", "kcvt"}, {"sparsity", 0.03125}, {"fill", "masked"}});
    std::printf("%s, %ld bits, fill %s: without %.4f, magnitude %.4f, expander %.4f (known %.4f)\n", c.tensor,
                static_cast<long>(c.bits), c.fill, none, largest, ours, c.expected);
    EXPECT_NEAR(ours, c.expected, 0.01 * c.expected);
    EXPECT_LT(largest, ours);
    EXPECT_EQ(ours < none, std::string(c.fill) == "masked");
    ++n_compared;
  }
  if (n_compared == 0) GTEST_SKIP() << "the oracle has no inputs A";
}

struct Spectrum {
  double first, second;
  double gap() const { return first - second; }
};

Spectrum spectrum(const at::Tensor& mask) {  // [n, m] bool
  const auto singular = at::linalg_svdvals(mask.to(at::kDouble));
  return {singular[0].item<double>(), singular[1].item<double>()};
}

// The k smallest and k largest of each row of x [rows, len].
at::Tensor ends_of_rows(const at::Tensor& x, double density) {
  const auto k = static_cast<int64_t>(std::nearbyint(density * static_cast<double>(x.size(1)) / 2));
  auto mask = at::zeros(x.sizes(), at::kBool);
  mask.scatter_(1, std::get<1>(x.topk(k, 1)), true);
  return mask.scatter_(1, std::get<1>(x.topk(k, 1, false)), true);
}

// x [H, n, D]: the two largest singular values of an expander and of magnitude masks of as many entries.
void report_gaps(const std::string& what, const at::Tensor& x, double density) {
  const auto merged = x.transpose(0, 1).reshape({x.size(1), -1});  // [n, m]
  const int64_t n = merged.size(0), m = merged.size(1);
  const gearx::MaskKey key{m, n, gearx::token_degree(m, n, density), 0};
  const auto mask = gearx::make_mask(key);
  auto expander = at::zeros({n, m}, at::kBool);
  for (int64_t e = 0; e < key.n_edges(); ++e) expander[e / key.token_degree][mask[e]] = true;
  const auto ours = spectrum(expander);
  std::printf("%s, %ld channels x %ld tokens, %.4f %%\n", what.c_str(), static_cast<long>(m), static_cast<long>(n),
              100 * density);
  const auto line = [&](const char* name, const Spectrum& s) {
    std::printf("  %-16s sigma_1 %6.2f  sigma_2 %6.2f  gap %6.2f\n", name, s.first, s.second, s.gap());
    EXPECT_GE(s.first, ours.first * (1 - 1e-9));  // the mean of all entries, n m d / sqrt(n m), bounds it from below
    EXPECT_GE(s.second, 0.98 * ours.second);
    EXPECT_GE(s.gap(), 0.97 * ours.gap());
  };
  line("expander", ours);
  line("of each channel", spectrum(ends_of_rows(merged.t().contiguous(), density)));
  line("of each token", spectrum(ends_of_rows(merged, density)));
  line("of the matrix", spectrum(ends_of_rows(merged.reshape({1, n * m}), density).view({n, m})));
}

// Section 4.5 says that magnitude masks have the smaller gap. By these numbers they do not (2.78 and 2.84 at best):
// what regularity gives is the smallest sigma_1 and sigma_2 of all masks with as many entries.
TEST_F(GearxOracle, SpectralGaps) {
  for (const auto& [name, x] : inputs_) {
    if (name[0] != 'q') report_gaps(name, x[0].to(at::kFloat), 0.03125);
  }
  const auto tokens = random_tokens({1, 8, 8, 128}, 896);  // 1024 channels
  report_gaps("synthetic keys", tokens.k, 0.015625);
  report_gaps("synthetic values", tokens.v, 0.015625);
}

}  // namespace
}  // namespace kvc::conformance
