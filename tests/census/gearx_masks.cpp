// What GEAR-X's masks leave of the set's inputs, and how far they expand, beside masks of the largest entries.
#include "../../plugins/gearx/expander.h"
#include "method.h"
#include "oracle_set.h"

namespace kvc::census {
namespace {

// On the public code's inputs A ([4, 256, 64], m = n = 256), at 3.125 %, relative errors known for random masks:
// they remove little more than their own share, and with the paper's zeros K becomes worse than without a mask.
TEST(GearxMasks, ErrorsAreThoseOfRandomMasks) {
  struct Case {
    const char* tensor;
    int64_t bits;
    const char* fill;
    double expected;
  };
  const auto& set = oracle_set();
  int n_compared = 0;
  for (const Case& c : {Case{"K_A", 2, "masked", .1866}, Case{"V_A", 2, "masked", .7401}, Case{"K_A", 2, "zero", .2115},
                        Case{"K_A", 4, "zero", .0422}}) {
    if (!set.inputs.count(c.tensor) || set.input(c.tensor).sizes() != at::IntArrayRef({4, 256, 64})) continue;
    const auto x = set.input(c.tensor);
    const auto error = [&](const char* plugin, nlohmann::json options) {
      options["bits"] = c.bits, options["precision"] = "exact";
      return conformance::relative_error(through_plugin(plugin, options, x, c.tensor[0] == 'K', x), x);
    };
    const double ours = error("gearx", {{"rank", 0}, {"prompt_density", 0.03125}, {"fill", c.fill}});
    const double none = error("kcvt", {});
    const double largest = error("outlier", {{"backbone", "kcvt"}, {"sparsity", 0.03125}, {"fill", "masked"}});
    std::printf("%s, %ld bits, fill %s: without %.4f, magnitude %.4f, expander %.4f (known %.4f)\n", c.tensor,
                static_cast<long>(c.bits), c.fill, none, largest, ours, c.expected);
    EXPECT_NEAR(ours, c.expected, 0.01 * c.expected);
    EXPECT_LT(largest, ours);
    EXPECT_EQ(ours < none, std::string(c.fill) == "masked");
    ++n_compared;
  }
  if (n_compared == 0) GTEST_SKIP() << "the set has no inputs A";
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
TEST(GearxMasks, SpectralGaps) {
  for (const auto& [name, x] : oracle_set().inputs) {
    if (name[0] != 'q' && x[0].sizes() == at::IntArrayRef({4, 256, 64}))
      report_gaps(name, x[0].to(at::kFloat), 0.03125);
  }
  const auto tokens = conformance::ordinary_input({1, 8, 8, 128}, 896);  // 1024 channels
  report_gaps("synthetic keys", tokens.k, 0.015625);
  report_gaps("synthetic values", tokens.v, 0.015625);
}

}  // namespace
}  // namespace kvc::census
