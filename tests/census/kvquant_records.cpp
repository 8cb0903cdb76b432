// KVQuant: its quantizer with integer codes, and with the record's centroids.
#include <gtest/gtest.h>

#include "../../plugins/kvquant/codec.cpp"  // the codec itself: no option takes centroids from outside
#include "../../plugins/kvquant/levels.cpp"
#include "../../plugins/kvquant/matrix.cpp"
#include "records.h"

namespace kvc::census {
namespace {

// Through the codec, with levels from outside or evenly spaced ones.
at::Tensor kvquant_codec(const Record& record, const at::Tensor& x, const ::kvquant::Format& format,
                         const ::kvquant::Levels& levels) {
  const auto rows = x.transpose(0, 1).flatten(1).contiguous();  // [n, H*d]
  const auto range = ::kvquant::range_of_rows(record.of_keys() ? rows.t().contiguous() : rows, format);
  ::kvquant::Matrix matrix(record.of_keys() ? ::kvquant::Axis::channels : ::kvquant::Axis::tokens);
  matrix.push_back(rows, range, levels, format);
  const double outliers = static_cast<double>(matrix.n_outliers()) / static_cast<double>(rows.numel());
  EXPECT_NEAR(outliers, record.fields.at("outlier_fraction").get<double>(), 0.5 / static_cast<double>(rows.numel()));
  return matrix.dequantize(range, levels, format, x.size(0)).contiguous();
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
  const nlohmann::json options = {{"bits", record.bits()}, {"levels", "uniform"},       {"sparsity", sparsity},
                                  {"first_tokens", 0},     {"calibration", "sequence"}, {"calibration_tokens", 1},
                                  {"precision", "exact"}};
  const auto decoded = through_plugin("kvquant", options, x, record.of_keys(), x);
  EXPECT_TRUE(at::equal(decoded, y)) << "kvquant differs from its codec";
}

// "kvquant.nuq3-1%" with the record's own centroids: which ones k-means ends in depends on its start.
void reproduce_kvquant_levels(const OracleSet& set, const Record& record) {
  const double percent = std::stod(record.method.substr(record.method.find('-') + 1));
  const auto lut = record.fields.at("lut").get<std::vector<float>>();
  const auto y =
      kvquant_codec(record, set.input(record),
                    {.bits = record.bits(), .sparsity = percent / 100, .precision = Precision::exact}, {lut, lut});
  expect_reproduced(set, record, y, of_quantizer(), "kvquant's codec, the record's levels");
}

}  // namespace kvc::census
