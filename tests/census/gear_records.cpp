// GEAR and GEAR-L of the public simulation.
#include <gtest/gtest.h>

#include <cmath>

#include "kvc/quant/group_quant.h"
#include "kvc/quant/keyed_generator.h"
#include "kvc/quant/low_rank.h"
#include "kvc/quant/outliers.h"
#include "records.h"

namespace kvc::census {
namespace {

// [H, n, d] with vectors along the last axis, and back: K's channels along the tokens [H*d, n], V's tokens along all
// channels [n, H*d].
at::Tensor vectors_of(const at::Tensor& x, bool of_keys) {
  if (of_keys) return x.transpose(1, 2).reshape({-1, x.size(1)}).contiguous();
  return x.transpose(0, 1).reshape({x.size(1), -1}).contiguous();
}
at::Tensor from_vectors(const at::Tensor& rows, at::IntArrayRef sizes, bool of_keys) {
  if (of_keys) return rows.view({sizes[0], sizes[2], sizes[1]}).transpose(1, 2).contiguous();
  return rows.view({sizes[1], sizes[0], sizes[2]}).transpose(0, 1).contiguous();
}

// Min-max quantization of runs of `group` entries of each row. The public code's sparse methods have levels b^2 - 1
// where 2^b - 1 is meant: no difference at 2 and 4 bits, so that these go through the plugins' quantizer.
at::Tensor quantized_rows(const at::Tensor& rows, int64_t bits, int64_t group, bool sparse) {
  const int64_t levels = sparse ? bits * bits - 1 : (1 << bits) - 1;
  if (levels == (1 << bits) - 1)
    return quantize_groups(rows.unsqueeze(0), {.bits = bits, .group_size = group, .precision = Precision::exact})
        .dequantize()[0];
  const auto runs = rows.unflatten(-1, {-1, group});
  const auto low = runs.amin(-1, true), step = (runs.amax(-1, true) - low) / static_cast<double>(levels);
  return (((runs - low) / step).round().clamp(0, levels) * step + low).flatten(-2);
}

bool is_kcvt(const Record& record) { return record.method.find("KCVT") != std::string::npos; }

at::Tensor low_rank_of(const at::Tensor& left, const OracleSet& set, const Record& record) {
  const auto rank = record.fields.at("rank").get<int64_t>();
  return low_rank_approximation(left, set.start(record, rank), record.fields.at("loop").get<int64_t>(),
                                Precision::exact)
      .product();
}

nlohmann::json plugin_options(const Record& record, double sparsity) {
  nlohmann::json options = {{"backbone", is_kcvt(record) ? "kcvt" : "kivi"},
                            {"bits", record.bits()},
                            {"rank", record.fields.at("rank")},
                            {"loops", record.fields.at("loop")},
                            {"seed", record.fields.at("seed")},
                            {"sparsity", sparsity},
                            {"fill", "mean"},
                            {"precision", "exact"}};
  if (!is_kcvt(record)) options["group_size"] = record.group(0), options["buffer"] = record.group(0);
  return options;
}

// The start that the plugin draws from the record's seed for K, or for V after K's.
bool plugin_draws_the_start(const OracleSet& set, const Record& record) {
  const auto x = set.input(record);
  const auto rank = record.fields.at("rank").get<int64_t>();
  auto generator = keyed_generator(record.fields.at("seed").get<uint64_t>(), 0, 0, 0);
  auto drawn = low_rank_start(generator, x.size(0), x.size(1), x.size(2), rank);
  if (!record.of_keys()) drawn = low_rank_start(generator, x.size(0), x.size(1), x.size(2), rank);
  return at::equal(drawn, set.start(record, rank));
}

// A tenth of the 1e-3 that the QR's freedom may cost; sums rounded to fp16 and codes may fall to the other side of a
// half.
Tolerance of_low_rank(const at::Tensor& x) {
  const double largest = x.abs().max().item<double>();
  return {.samples = 1e-4 * largest, .n_beyond = 1e-4, .rel_fro = 1e-4, .max_abs = 1e-3 * largest};
}

// Over kivi it encodes whole groups of tokens of the prompt and groups within a head.
bool plugin_takes(const Record& record, const at::Tensor& x) {
  if (is_kcvt(record)) return true;
  return x.size(2) % record.group(0) == 0 && x.size(1) % record.group(0) == 0;
}

}  // namespace

void reproduce_gear_l(const OracleSet& set, const Record& record) {
  const auto x = set.input(record);
  const auto rows = vectors_of(x, record.of_keys());
  const auto dense =
      from_vectors(quantized_rows(rows, record.bits(), record.group(rows.size(1)), false), x.sizes(), record.of_keys());
  const auto y = dense + low_rank_of(x - dense, set, record);
  expect_reproduced(set, record, y, of_low_rank(x), "quantize_groups and low_rank_approximation");
  if (!plugin_takes(record, x) || !plugin_draws_the_start(set, record)) return;
  const auto decoded = through_plugin("gear", plugin_options(record, 0), x, record.of_keys(), x);
  expect_reproduced(set, record, decoded, of_low_rank(x), "gear");
}

namespace {

// x with all but `outliers` quantized, these filled with their vector's mean on the way; all [H, n, d].
at::Tensor sparse_and_dense(const at::Tensor& x, const at::Tensor& outliers, const Record& record) {
  const auto rows = vectors_of(x, record.of_keys()), taken = vectors_of(outliers, record.of_keys());
  const auto filled = at::where(taken, rows.mean(-1, true), rows);
  const auto dense = quantized_rows(filled, record.bits(), record.group(rows.size(1)), true);
  return from_vectors(at::where(taken, rows, dense), x.sizes(), record.of_keys());
}

int64_t outliers_per_side(const Record& record) {
  return record.fields.at("peer_outliers_per_vector").get<int64_t>() / 2;
}

// As the public code finds them; of equal entries it takes any.
at::Tensor public_outliers(const at::Tensor& x, const Record& record) {
  const auto rows = vectors_of(x, record.of_keys());
  const int64_t k = outliers_per_side(record);
  const auto low = std::get<1>(rows.topk(k, -1, false)), high = std::get<1>(rows.topk(k, -1, true));
  const auto taken = at::zeros_like(rows, at::kBool).scatter(-1, low, true).scatter(-1, high, true);
  return from_vectors(taken, x.sizes(), record.of_keys());
}

}  // namespace

// The public code overwrites outliers exactly, rounds to fp16, approximates what that leaves, adds L everywhere and
// rounds to fp16 again.
at::Tensor gear_output(const OracleSet& set, const Record& record) {
  const auto x = set.input(record);
  const auto kept = sparse_and_dense(x, public_outliers(x, record), record).to(at::kHalf).to(at::kFloat);
  return (kept + low_rank_of(x - kept, set, record)).to(at::kHalf).to(at::kFloat);
}

// The plugin, told to fill with the mean and to take as many outliers, is held against the same sum without fp16 and
// with the first of equal entries.
void reproduce_gear(const OracleSet& set, const Record& record) {
  const auto x = set.input(record);
  const auto y = gear_output(set, record);
  expect_reproduced(set, record, y, of_low_rank(x), "quantize_groups, topk and low_rank_approximation");
  const bool levels_agree = record.bits() * record.bits() == int64_t{1} << record.bits();
  if (!levels_agree || !plugin_takes(record, x) || !plugin_draws_the_start(set, record)) return;
  const int64_t length = record.of_keys() ? x.size(1) : x.size(0) * x.size(2);
  const double sparsity = 2 * static_cast<double>(outliers_per_side(record)) / static_cast<double>(length);
  const auto entries = find_outliers(x, sparsity, record.of_keys() ? GroupAxis::tokens : GroupAxis::channels);
  const auto taken =
      entries.index.defined() ? outlier_mask(entries, x.size(0), x.size(1), x.size(2)) : at::zeros_like(x, at::kBool);
  const auto kept = sparse_and_dense(x, taken, record);
  const auto decoded = through_plugin("gear", plugin_options(record, sparsity), x, record.of_keys(), x);
  const double tolerance = 1e-4 * x.abs().max().item<double>();
  expect_whole(record.id, kept + low_rank_of(x - kept, set, record), decoded, tolerance, 1e-4, "gear");
}

// "residual2bitKCVT r4": what rank r leaves of the residual of 2-bit KCVT after each number of loops. The record names
// no start, so that its numbers are one draw of a distribution over starts, whose mean and spread are measured here.
void reproduce_power_iteration(const OracleSet& set, const Record& record) {
  constexpr int kStarts = 60;
  const auto x = set.input(record);
  const int64_t rank = std::stoll(record.id.substr(record.id.rfind(" r") + 2));
  const int64_t bits = std::stoll(record.words.substr(std::string("residual").size()));
  const auto rows = vectors_of(x, record.of_keys());
  const auto left = x - from_vectors(quantized_rows(rows, bits, rows.size(1), false), x.sizes(), record.of_keys());
  const double size = left.norm().item<double>();
  const auto spectrum = at::linalg_svdvals(left.to(at::kDouble)).square();
  const double floor =
      std::sqrt((spectrum.narrow(1, rank, spectrum.size(1) - rank).sum() / spectrum.sum()).item<double>());
  EXPECT_NEAR(floor, record.fields.at("svd_floor").get<double>(), 1e-6);
  std::printf("%s via low_rank_approximation: floor %.6f", record.id.c_str(), floor);
  for (const auto& [name, value] : record.fields.items()) {
    if (name.rfind("rel_L", 0) != 0) continue;
    std::vector<double> drawn;
    for (uint64_t seed = 0; seed < kStarts; ++seed) {
      auto generator = keyed_generator(seed, 0, 0, 0);
      const auto start = low_rank_start(generator, x.size(0), x.size(1), x.size(2), rank);
      const auto low_rank = low_rank_approximation(left, start, std::stoll(name.substr(5)), Precision::exact);
      drawn.push_back((left - low_rank.product()).norm().item<double>() / size);
    }
    const auto draws = at::tensor(drawn, at::kDouble);
    const double mean = draws.mean().item<double>(), spread = draws.std().item<double>();
    std::printf(", %s %.5f (%.5f +- %.5f)", name.c_str(), value.get<double>(), mean, spread);
    EXPECT_NEAR(value.get<double>(), mean, 5 * spread) << name;
    EXPECT_GE(value.get<double>(), floor) << name;
  }
  std::printf("\n");
}

// "P0_K|<tag>|seed<N>" and "P0_V|...", as the public code draws them in one stream, K first.
TEST(Oracle, StartsAreDrawnAsThePublicCodeDrawsThem) {
  const auto& set = oracle_set();
  int n_compared = 0;
  for (const auto& [name, p0_k] : set.init) {
    if (name.rfind("P0_K|", 0) != 0) continue;
    const auto seed = std::stoull(name.substr(name.find("seed") + 4));
    const int64_t heads = p0_k.size(1), d = p0_k.size(2), rank = p0_k.size(3);
    const int64_t n = set.input("K_" + name.substr(5, name.find('|', 5) - 5)).size(1);
    auto generator = keyed_generator(seed, 0, 0, 0);
    EXPECT_TRUE(at::equal(low_rank_start(generator, heads, n, d, rank), p0_k[0])) << name;
    ++n_compared;
    const auto p0_v = set.init.find("P0_V" + name.substr(4));
    if (p0_v == set.init.end()) continue;
    EXPECT_TRUE(at::equal(low_rank_start(generator, heads, n, d, rank), p0_v->second[0])) << p0_v->first;
  }
  if (n_compared == 0) GTEST_SKIP() << "the set has no start of K";
}

}  // namespace kvc::census
