// DecoQuant, QJL and KVQuant.
#include <gtest/gtest.h>

#include <algorithm>
#include <numbers>

#include "../../plugins/kvquant/matrix.h"
#include "../../plugins/qjl/key_sketch.h"
#include "records.h"

namespace kvc::census {
namespace {

// "icl32 b4", "lm unquantised", "n3 b2"
nlohmann::json decoquant_options(const Record& record) {
  nlohmann::json options = {{"precision", "exact"}, {"bits", record.fields.value("bits", 16)}};
  const std::string shape = record.words.substr(0, record.words.find(' '));
  if (shape.rfind("icl", 0) == 0) {
    options["factor"] = std::stoi(shape.substr(3));
  } else if (shape == "lm") {
    options["form"] = "lm";
  } else if (shape == "n3" || shape == "n4") {
    options["tensors"] = shape[1] - '0';
  } else {
    throw Error(concat(record.id, ": shape '", shape, "', known: icl<n>, lm, n3, n4"));
  }
  return options;
}

}  // namespace

void reproduce_decoquant(const OracleSet& set, const Record& record) {
  const auto x = set.input(record);
  EXPECT_EQ(record.fields.value("largest", 0), 0) << "the plugin quantizes the first tensor";
  const auto y = through_plugin("decoquant", decoquant_options(record), x, record.of_keys(), x);
  if (record.fields.contains("bits"))
    return expect_reproduced(set, record, y, {.samples = 1e-4, .n_beyond = 1e-4, .rel_fro = 1e-4, .max_abs = 1e-4},
                             "decoquant");
  // The tensors multiply back to within rounding, the public code's and ours.
  expect_reproduced(set, record, y,
                    {.samples = 1e-4, .n_beyond = 0, .rel_fro = 0, .max_abs = 1e-4, .rel_fro_floor = 1e-6},
                    "decoquant");
}

// The projection of the public code where the set holds it: signs must then be its signs.
struct QjlCase {
  at::Tensor q, k, s;
  ::qjl::SketchFormat format;
  ::qjl::Sketches sketches() const { return {s, s.narrow(1, 0, format.n_outlier_signs)}; }
};

QjlCase qjl_case(const OracleSet& set, const Record& record) {
  QjlCase c{.q = set.input("q_" + record.tag), .k = set.input("K_" + record.tag), .s = {}, .format = {}};
  const int64_t m = std::stoll(record.words.substr(record.words.find('m') + 1)), d = c.k.size(2);
  const auto held = set.full.find(record.id + " proj"), chosen = set.full.find(record.id + " outlier_idx");
  c.s = held != set.full.end() ? held->second.to(at::kFloat).contiguous()
                               : Projection(ProjectionKind::orthogonal, 42, d, m).matrix().clone();
  c.format = {.n_signs = m, .n_outlier_signs = m / 2, .n_outlier_channels = 4, .precision = Precision::exact};
  if (chosen == set.full.end()) return c;
  c.format.group_size = c.k.size(1) / chosen->second.size(2);
  c.format.n_outlier_channels = chosen->second.size(3);
  return c;
}

at::Tensor qjl_scores(const QjlCase& c, const ::qjl::KeySketch& keys) {
  const int64_t group = c.q.size(0) / c.k.size(0), n = c.k.size(1);
  const auto q = c.q.squeeze(1);
  const auto scores = ::qjl::estimate_scores(q, ::qjl::projected(q, c.sketches()), keys, c.sketches(), c.format, {});
  return scores.view({c.k.size(0) * group, n});
}

void reproduce_qjl(const OracleSet& set, const Record& record) {
  const auto c = qjl_case(set, record);
  const auto keys = ::qjl::sketch_keys(c.k, c.sketches(), c.format, {});
  const auto scores = qjl_scores(c, keys).to(at::kDouble);
  const auto k = c.k.repeat_interleave(c.q.size(0) / c.k.size(0), 0).to(at::kDouble), q = c.q.to(at::kDouble);
  const auto exact = at::matmul(k, q.transpose(1, 2)).squeeze(2);
  const double rel = ((scores - exact).norm() / exact.norm()).item<double>();
  const double sizes = (q.norm(2, 2) * k.norm(2, 2)).mean().item<double>();
  const double noise = (scores - exact).abs().mean().item<double>() / sizes;
  std::printf("%s via qjl's sketch: rel_score %.7f, rel_score_noise %.7f\n", record.id.c_str(), rel, noise);
  EXPECT_NEAR(rel, record.fields.at("rel_score").get<double>(), 1e-3 * rel);
  EXPECT_NEAR(noise, record.fields.at("rel_score_noise").get<double>(), 1e-3 * noise);
}

void reproduce_qjl_part(const OracleSet& set, const Record& record, const std::string& part) {
  const auto c = qjl_case(set, record);
  const auto& expected = set.full.at(record.id + " " + part);
  const std::string name = record.id + " " + part;
  if (part == "proj") {  // the sign of a column cancels
    const Projection ours(ProjectionKind::orthogonal, 42, c.k.size(2), c.format.n_signs);
    return expect_whole(name, expected.abs(), ours.matrix().abs(), 1e-3, 0, "Projection, seed 42");
  }
  const auto keys = ::qjl::sketch_keys(c.k, c.sketches(), c.format, {});
  if (part == "outlier_idx")
    return expect_whole(name, std::get<0>(expected.sort(-1)), std::get<0>(keys.channels.sort(-1)), 0, 0, "qjl");
  if (part == "score")
    return expect_whole(name, expected, qjl_scores(c, keys), 1e-5 * expected.abs().max().item<double>(), 1e-4, "qjl");
  const bool outliers = part == "outlier_code";
  KVC_CHECK(outliers || part == "inlier_code", name, ": no reproduction of this part");
  const auto signs = unpack_signs(outliers ? keys.outlier_signs : keys.signs, 8 * expected.size(-1)).gt(0);
  const auto bytes = expected.flatten(0, -2).unsqueeze(-1).to(at::kInt);
  const auto bits = bytes.bitwise_right_shift(at::arange(8, at::kInt)).bitwise_and(1);
  expect_whole(name, bits, signs.to(at::kInt), 0, 1e-4, "qjl");  // a projection may lie within rounding of 0
}

namespace {

// Through the codec, with levels from outside, or integer codes without any.
at::Tensor kvquant_codec(const Record& record, const at::Tensor& x, const ::kvquant::Format& format,
                         const ::kvquant::Levels& levels) {
  const auto rows = x.transpose(0, 1).flatten(1).contiguous();  // [n, H*d]
  const auto range = ::kvquant::range_of_rows(record.of_keys() ? rows.t().contiguous() : rows, format);
  ::kvquant::Matrix matrix(record.of_keys() ? ::kvquant::Axis::channels : ::kvquant::Axis::tokens);
  matrix.push_back(rows, range, levels, format);
  const double outliers = static_cast<double>(matrix.n_outliers()) / static_cast<double>(rows.numel());
  EXPECT_NEAR(outliers, record.fields.at("outlier_fraction").get<double>(), 0.5 / static_cast<double>(rows.numel()));
  return matrix.dequantize(range, levels, format, x.size(0));
}

}  // namespace

void reproduce_kvquant_integers(const OracleSet& set, const Record& record) {
  const auto word = record.words.find("sparse") + 6;
  const auto kept = record.words.substr(word, record.words.find(' ', word) - word);
  const double sparsity = kept == "None" ? 0 : 1 - std::stod(kept);
  const auto x = set.input(record);
  const auto y = kvquant_codec(
      record, x, {.bits = record.bits(), .uniform = true, .sparsity = sparsity, .precision = Precision::exact}, {});
  expect_reproduced(set, record, y, of_quantizer(), "kvquant's codec");
  const nlohmann::json options = {{"bits", record.bits()}, {"levels", "uniform"},     {"sparsity", sparsity},
                                  {"first_tokens", 0},     {"calibration_tokens", 1}, {"precision", "exact"}};
  const auto decoded = through_plugin("kvquant", options, x, record.of_keys(), x);
  EXPECT_TRUE(at::equal(decoded, y)) << "kvquant differs from its codec";
}

// "kvquant.nuq3-1%" with the record's own centroids, and with ours: k-means starts and stops elsewhere, so that its
// error is the record's to a hundredth on the public code's inputs, and single values may differ by up to a cell.
void reproduce_kvquant_levels(const OracleSet& set, const Record& record) {
  const double percent = std::stod(record.method.substr(record.method.find('-') + 1));
  const auto levels = record.fields.at("lut").get<std::vector<float>>();
  const auto x = set.input(record);
  const auto y = kvquant_codec(
      record, x, {.bits = record.bits(), .sparsity = percent / 100, .precision = Precision::exact}, {levels, levels});
  expect_reproduced(set, record, y, of_quantizer(), "kvquant's codec, the record's levels");
  if (x.sizes() != at::IntArrayRef({4, 256, 64})) return;
  const nlohmann::json options = {{"bits", record.bits()},  {"levels", "non_uniform"}, {"sparsity", percent / 100},
                                  {"first_tokens", 0},      {"precision", "exact"},    {"calibration", "sequence"},
                                  {"calibration_tokens", 1}};
  const auto ours = through_plugin("kvquant", options, x, record.of_keys(), x);
  const double cell = record.fields.at("max_abs").get<double>();
  expect_reproduced(set, record, ours, {.samples = cell, .n_beyond = 0, .rel_fro = 0.01, .max_abs = INFINITY},
                    "kvquant");
}

}  // namespace kvc::census
