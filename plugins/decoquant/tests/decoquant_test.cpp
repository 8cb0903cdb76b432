// DecoQuant against its rule written again with LAPACK's SVD. The public code's records are in the census.
#include "../factors.h"  // the plugin's own, to see the gauge
#include "method.h"

namespace kvc::conformance {
namespace {

Method decoquant_with(const nlohmann::json& options) { return Method("decoquant", options); }

at::Tensor random_matrix(int64_t m, int64_t n) {
  at::manual_seed(static_cast<uint64_t>(m * 1000 + n));
  return at::randn({m, n}, at::kDouble) * at::randn({1, n}, at::kDouble).exp();
}

TEST(DecoQuantFactors, EachSideOfABondHoldsTheSquareRootOfTheSpectrum) {
  for (const auto& [m, n] : {std::pair{300, 16}, {7, 16}, {1, 5}, {5, 1}, {64, 64}}) {
    const auto x = random_matrix(m, n);
    const auto f = ::decoquant::balanced(x);
    const auto spectrum = at::diag(std::get<1>(at::linalg_svd(x, false)));
    const double size = spectrum.max().item<double>();
    EXPECT_LE((at::matmul(f.a, f.b) - x).abs().max().item<double>(), 1e-12 * size) << m << " x " << n;
    EXPECT_LE((at::matmul(f.a.t(), f.a) - spectrum).abs().max().item<double>(), 1e-7 * size) << m << " x " << n;
    EXPECT_LE((at::matmul(f.b, f.b.t()) - spectrum).abs().max().item<double>(), 1e-7 * size) << m << " x " << n;
  }
}

TEST(DecoQuantFactors, ChainsMultiplyBackAndStayBounded) {
  for (const int64_t m : {1, 3, 500}) {
    auto x = random_matrix(m, 128);
    x.narrow(1, 40, 30).zero_();  // a spectrum with zeros
    const auto f = ::decoquant::balanced(x);
    for (const auto& factors : {std::vector<int64_t>{128}, {16, 8}, {8, 4, 4}}) {
      const auto tensors = ::decoquant::chain(f, factors);
      const auto product = ::decoquant::multiplied(tensors).to(at::kDouble);
      EXPECT_LE((at::matmul(f.a, product) - x).abs().max().item<double>(), 1e-5 * x.abs().max().item<double>());
      for (size_t i = 0; i + 1 < tensors.size(); ++i) EXPECT_LE(tensors[i].abs().max().item<double>(), 1 + 1e-9);
    }
  }
}

// Symmetric rounding in float64, one step a row; 16 bits: none.
at::Tensor rounded_rows(const at::Tensor& x, int64_t bits) {
  if (bits == 16) return x;
  const auto rows = x.flatten(1);
  const auto step = rows.abs().amax(1, true).clamp_min(1e-5) / (std::exp2(bits - 1) - 1);
  return ((rows / step).round() * step).reshape(x.sizes());
}

// T_S = b [r, 64] of 3 tensors as [r, 8, r'] and [r', 8]: b with its bond's weight, decomposed, the weight taken out.
at::Tensor rounded_pair(const at::Tensor& b, const at::Tensor& spectrum, int64_t bits) {
  const int64_t r = b.size(0);
  const auto root = spectrum.sqrt().unsqueeze(1);
  const auto [u, s, vt] = at::linalg_svd((root * b).reshape({r * 8, 8}), false);
  const auto left = ((u * s.sqrt()).reshape({r, -1}) / root).reshape({r, 8, -1});
  return at::matmul(rounded_rows(left, bits).flatten(0, 1), rounded_rows(s.sqrt().unsqueeze(1) * vt, bits))
      .reshape({r, 64});
}

// The rule with LAPACK's SVD in float64: X [T, C] as [T*C/c, c], U sqrt(S) rounded by rows of X, sqrt(S) V^T by its
// own.
at::Tensor by_the_rule(const at::Tensor& x, int64_t c, int64_t bits, int64_t small_bits = 16) {
  const int64_t h = x.size(0), n = x.size(1), d = x.size(2);
  const auto [u, s, vt] = at::linalg_svd(x.transpose(0, 1).reshape({n * h * d / c, c}).to(at::kDouble), false);
  const auto large = rounded_rows((u * s.sqrt()).reshape({n, -1}), bits).reshape(u.sizes());
  const auto b = s.sqrt().unsqueeze(1) * vt;
  const auto small = c == 64 && small_bits < 16 ? rounded_pair(b, s, small_bits) : rounded_rows(b, small_bits);
  return at::matmul(large, small).reshape({n, h, d}).transpose(0, 1);
}

// Form svd: the factor with more numbers is the large one; B is rounded by channel then, and by its row where it is
// small.
at::Tensor svd_by_the_rule(const at::Tensor& x, int64_t bits, int64_t small_bits) {
  const int64_t h = x.size(0), n = x.size(1), d = x.size(2);
  const auto [u, s, vt] = at::linalg_svd(x.transpose(0, 1).reshape({n, h * d}).to(at::kDouble), false);
  const auto a = u * s.sqrt(), b = s.sqrt().unsqueeze(1) * vt;
  const auto product = n < h * d ? at::matmul(rounded_rows(a, small_bits), rounded_rows(b.t(), bits).t())
                                 : at::matmul(rounded_rows(a, bits), rounded_rows(b, small_bits));
  return product.reshape({n, h, d}).transpose(0, 1);
}

// Where a code falls on a border, it may be rounded to the other side.
void expect_same(const at::Tensor& expected, const at::Tensor& held, const std::string& what) {
  const auto difference = (expected - held).abs();
  EXPECT_LE(difference.gt(1e-4).to(at::kDouble).mean().item<double>(), 1e-2) << what;
  EXPECT_LE(difference.max().item<double>(), 0.2) << what;  // a few codes at half a step
}

TEST(DecoQuantRule, SmallTensorsAreRoundedByTheirRows) {
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 64};
  for (const int64_t n : {50, 200}) {
    const auto input = ordinary_input(model, n);
    for (const int64_t small_bits : {2, 4, 8}) {
      for (const auto& [tensors, c] : {std::pair{2, 16}, {3, 64}}) {
        const auto method =
            decoquant_with({{"tensors", tensors}, {"bits", 8}, {"small_bits", small_bits}, {"precision", "exact"}});
        const auto held = method.cache(model, input, n)->dequantize();
        const auto what = concat(tensors, " tensors, ", n, " tokens, small_bits ", small_bits);
        expect_same(by_the_rule(input.k, c, 8, small_bits), held.k, what);
        expect_same(by_the_rule(input.v, c, 8, small_bits), held.v, what);
        EXPECT_GT((by_the_rule(input.v, c, 8) - held.v).abs().gt(1e-3).to(at::kDouble).mean().item<double>(), 0.5)
            << what;
      }
      const auto svd =
          decoquant_with({{"form", "svd"}, {"bits", 8}, {"small_bits", small_bits}, {"precision", "exact"}});
      expect_same(svd_by_the_rule(input.v, 8, small_bits), svd.cache(model, input, n)->dequantize().v,
                  concat("svd, ", n, " tokens, small_bits ", small_bits));
    }
  }
}

TEST(DecoQuantRule, DecodingOneByOneFollowsTheFormula) {
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 64};
  constexpr int64_t kPrompt = 45, kBuffer = 64, kTokens = 345;  // chunks of 45, 64, 64, 64, 64; 44 wait
  const auto input = ordinary_input(model, kTokens);
  for (const auto& [tensors, c] : {std::pair{2, 16}, {3, 64}, {4, 128}}) {
    const auto method =
        decoquant_with({{"tensors", tensors}, {"buffer", kBuffer}, {"bits", 8}, {"precision", "exact"}});
    const auto cache = method.cache(model, input, kPrompt);
    EXPECT_EQ(cache->n_encoded_tokens(), 45 + 4 * 64);
    std::vector<at::Tensor> parts = {by_the_rule(input.v.narrow(1, 0, kPrompt), c, 8)};
    for (int64_t t = kPrompt; t + kBuffer < kTokens; t += kBuffer)
      parts.push_back(by_the_rule(input.v.narrow(1, t, kBuffer), c, 8));
    parts.push_back(input.v.narrow(1, 301, 44).to(at::kDouble));
    expect_same(at::cat(parts, 1), cache->dequantize().v, concat(tensors, " tensors"));
  }
}

// Softmax in float64 over what is held, against the path that takes the query through the small tensors.
TEST(DecoQuantRule, AttentionInTheCodesBasisIsAttentionOverTheMatrix) {
  for (const auto& [heads, d] : {std::pair{4, 32}, {2, 64}, {8, 16}, {2, 128}}) {
    const ModelShape model{.n_heads = 2 * heads, .n_kv_heads = heads, .head_dim = d};
    const auto input = ordinary_input(model, 120);
    for (const int64_t tensors : {2, 3, 4}) {
      const auto method = decoquant_with({{"tensors", tensors}, {"buffer", 30}, {"small_bits", d == 64 ? 4 : 16}});
      const auto cache = method.cache(model, input, 40);
      SCOPED_TRACE(concat(heads, " heads of ", d, ", ", tensors, " tensors"));
      expect_attends(*cache, input.q.narrow(1, 119, 1), 0.2);
    }
  }
}

// Powers of two scale steps and small tensors, never codes.
TEST(DecoQuantRule, ScalingTheInputScalesTheOutput) {
  const ModelShape model{.n_heads = 2, .n_kv_heads = 2, .head_dim = 32};
  auto input = ordinary_input(model, 50);
  const auto method = decoquant_with({{"bits", 4}, {"precision", "exact"}});
  const auto one = method.cache(model, input, 50)->dequantize();
  input.k.mul_(16), input.v.mul_(16);  // its square root is a power of two, too
  const auto scaled = method.cache(model, input, 50)->dequantize();
  EXPECT_TRUE(at::equal(scaled.k, 16 * one.k) && at::equal(scaled.v, 16 * one.v));
}

// Table 2: LLaMA-7B on LAMBADA, 89 tokens, 46.7 MB at 16 bits; 23.3, 11.7, 5.8 at 8, 4, 2.
TEST(DecoQuantBytes, OfThePaperArePrintedAsThePaperPrintsThem) {
  const ModelShape model{.n_layers = 32, .n_heads = 32, .n_kv_heads = 32, .head_dim = 128};
  for (const auto& [bits, printed] : {std::pair{8, 23.3}, {4, 11.7}, {2, 5.8}}) {
    EXPECT_NEAR(32 * decoquant_with({{"bits", bits}}).compressor().paper_bytes(model, 89, 0) / 1e6, printed, 0.05);
  }
}

}  // namespace
}  // namespace kvc::conformance
