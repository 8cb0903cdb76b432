// DecoQuant against its pencil formula and its rule written again with LAPACK's SVD. The public code's records are in
// the census.
#include <gtest/gtest.h>

#include <cmath>

#include "../factors.h"  // the plugin's own, to see the gauge
#include "compressors/plugin_library.h"
#include "inputs.h"

namespace kvc::conformance {
namespace {

std::unique_ptr<Compressor> decoquant_with(const nlohmann::json& options) {
  static const PluginLibrary library(std::filesystem::path(KVC_BINARY_DIR) / "plugins" / "decoquant.so");
  return library.make(options);
}

std::unique_ptr<LayerCache> filled(const Compressor& compressor, const ModelShape& model, const Input& input,
                                   int64_t n_prompt) {
  auto cache =
      compressor.make_cache({.n_heads = model.n_heads, .n_kv_heads = model.n_kv_heads, .head_dim = model.head_dim});
  cache->append(tokens_of(input, 0, n_prompt));
  for (int64_t t = n_prompt; t < input.k.size(1); ++t) cache->append(tokens_of(input, t, 1));
  return cache;
}

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
        const auto compressor =
            decoquant_with({{"tensors", tensors}, {"bits", 8}, {"small_bits", small_bits}, {"precision", "exact"}});
        const auto held = filled(*compressor, model, input, n)->dequantize();
        const auto what = concat(tensors, " tensors, ", n, " tokens, small_bits ", small_bits);
        expect_same(by_the_rule(input.k, c, 8, small_bits), held.k, what);
        expect_same(by_the_rule(input.v, c, 8, small_bits), held.v, what);
        EXPECT_GT((by_the_rule(input.v, c, 8) - held.v).abs().gt(1e-3).to(at::kDouble).mean().item<double>(), 0.5)
            << what;
      }
      const auto svd =
          decoquant_with({{"form", "svd"}, {"bits", 8}, {"small_bits", small_bits}, {"precision", "exact"}});
      expect_same(svd_by_the_rule(input.v, 8, small_bits), filled(*svd, model, input, n)->dequantize().v,
                  concat("svd, ", n, " tokens, small_bits ", small_bits));
    }
  }
}

TEST(DecoQuantRule, DecodingOneByOneFollowsTheFormula) {
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 64};
  constexpr int64_t kPrompt = 45, kBuffer = 64, kTokens = 345;  // chunks of 45, 64, 64, 64, 64; 44 wait
  const auto input = ordinary_input(model, kTokens);
  for (const auto& [tensors, c] : {std::pair{2, 16}, {3, 64}, {4, 128}}) {
    const auto compressor =
        decoquant_with({{"tensors", tensors}, {"buffer", kBuffer}, {"bits", 8}, {"precision", "exact"}});
    const auto cache = filled(*compressor, model, input, kPrompt);
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
      const auto compressor = decoquant_with({{"tensors", tensors}, {"buffer", 30}, {"small_bits", d == 64 ? 4 : 16}});
      const auto cache = filled(*compressor, model, input, 40);
      const auto kv = cache->dequantize();
      const auto k = kv.k.to(at::kDouble).repeat_interleave(2, 0), v = kv.v.to(at::kDouble).repeat_interleave(2, 0);
      const auto q = input.q.narrow(1, 119, 1);
      const auto weights = at::softmax(at::matmul(q.to(at::kDouble), k.transpose(1, 2)) * 0.2, -1);
      const auto error = (cache->attend(q, 0.2).to(at::kDouble) - at::matmul(weights, v)).abs().max().item<double>();
      EXPECT_LE(error, 2e-5 * v.abs().max().item<double>()) << heads << " heads of " << d << ", " << tensors;
    }
  }
}

// Powers of two scale steps and small tensors, never codes.
TEST(DecoQuantRule, ScalingTheInputScalesTheOutput) {
  const ModelShape model{.n_heads = 2, .n_kv_heads = 2, .head_dim = 32};
  auto input = ordinary_input(model, 50);
  const auto compressor = decoquant_with({{"bits", 4}, {"precision", "exact"}});
  const auto one = filled(*compressor, model, input, 50)->dequantize();
  input.k.mul_(16), input.v.mul_(16);  // its square root is a power of two, too
  const auto scaled = filled(*compressor, model, input, 50)->dequantize();
  EXPECT_TRUE(at::equal(scaled.k, 16 * one.k) && at::equal(scaled.v, 16 * one.v));
}

TEST(DecoQuantRule, RefusesAFactorThatDoesNotDivide) {
  EXPECT_THROW(decoquant_with({{"factor", 48}})->check_model({.n_kv_heads = 2, .head_dim = 64}), Error);
  EXPECT_THROW(decoquant_with({{"tensors", 4}})->check_model({.n_kv_heads = 1, .head_dim = 64}), Error);
  EXPECT_THROW(decoquant_with({{"tensors", 3}, {"form", "qr"}}), Error);
  decoquant_with({{"factor", 48}})->check_model({.n_kv_heads = 3, .head_dim = 64});
}

int64_t words(int64_t n, int64_t bits) { return 4 * ((n * bits + 31) / 32); }

// `rows` rows of `width` numbers of a small tensor.
int64_t small_rows(int64_t rows, int64_t width, int64_t bits) {
  return bits == 16 ? 2 * rows * width : rows * (words(width, bits) + 2);
}

// A chunk of n tokens of one tensor, 2 heads of 64; parts: those of a head, or blocks of c channels.
int64_t icl_chunk(int64_t n, int64_t bits, int64_t tensors, int64_t small_bits) {
  const int64_t c = tensors == 2 ? 16 : tensors == 3 ? 64 : 128, r = std::min(n * 128 / c, c);
  const int64_t parts = tensors == 4 ? 1 : 2, r1 = std::min<int64_t>(8 * r, tensors == 3 ? 8 : 16);
  const int64_t large = n * parts * words(128 / c * r / parts, bits) + 2 * n;
  if (tensors == 2) return large + small_rows(r, c, small_bits);
  const int64_t r2 = std::min<int64_t>(4 * r1, 4), first = small_rows(r, 8 * r1, small_bits);
  return large + first +
         (tensors == 3 ? small_rows(r1, 8, small_bits)
                       : small_rows(r1, 4 * r2, small_bits) + small_rows(r2, 4, small_bits));
}

TEST(DecoQuantBytes, FollowThePencilOnAndOffTheBorders) {
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 64};
  for (const auto& [tensors, small_bits] : {std::pair{2, 16}, {3, 16}, {4, 16}, {2, 2}, {3, 4}, {4, 8}}) {
    const auto compressor = decoquant_with({{"tensors", tensors}, {"buffer", 32}, {"small_bits", small_bits}});
    for (const int64_t n_prompt : {1, 3, 64, 129}) {
      for (const int64_t n_new : {0, 1, 31, 32, 33, 64, 65}) {
        const auto cache = filled(*compressor, model, ordinary_input(model, n_prompt + n_new), n_prompt);
        const int64_t n_chunks = n_new == 0 ? 0 : (n_new - 1) / 32;
        EXPECT_EQ(cache->footprint().total_bytes(),
                  2 * (icl_chunk(n_prompt, 4, tensors, small_bits) + n_chunks * icl_chunk(32, 4, tensors, small_bits) +
                       2 * 128 * (n_new - 32 * n_chunks)))
            << tensors << " tensors, small_bits " << small_bits << ", " << n_prompt << " + " << n_new;
      }
    }
  }
}

TEST(DecoQuantBytes, OfOtherFormsAreThoseOfTheirFactors) {
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 64};
  for (const std::string form : {"lm", "svd", "qr"}) {
    for (const int64_t n : {1, 100, 128, 200}) {
      for (const int64_t small_bits : {16, 4}) {
        const auto compressor = decoquant_with({{"form", form}, {"bits", 2}, {"small_bits", small_bits}});
        const int64_t r = std::min<int64_t>(n, 128);
        const bool channels = form == "lm" || n < 128;  // B is the quantized factor, A [n, r] the small one
        EXPECT_EQ(filled(*compressor, model, ordinary_input(model, n), n)->footprint().total_bytes(),
                  2 * ((channels ? 128 : n) * (words(r, 2) + 2) +
                       small_rows(channels ? n : r, channels ? r : 128, small_bits)))
            << form << " " << n << ", small_bits " << small_bits;
      }
    }
  }
}

// Table 2: LLaMA-7B on LAMBADA, 89 tokens, 46.7 MB at 16 bits; 23.3, 11.7, 5.8 at 8, 4, 2.
TEST(DecoQuantBytes, OfThePaperArePrintedAsThePaperPrintsThem) {
  const ModelShape model{.n_layers = 32, .n_heads = 32, .n_kv_heads = 32, .head_dim = 128};
  for (const auto& [bits, printed] : {std::pair{8, 23.3}, {4, 11.7}, {2, 5.8}}) {
    EXPECT_NEAR(32 * decoquant_with({{"bits", bits}})->paper_bytes(model, 89, 0) / 1e6, printed, 0.05);
  }
}

}  // namespace
}  // namespace kvc::conformance
