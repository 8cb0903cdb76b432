// Min-max and round-to-nearest quantizers: GEAR's simulation, KIVI, FlexGen, RTN, quanto, HQQ.
#include <gtest/gtest.h>

#include "../../plugins/hqq/solver.h"
#include "kvc/quant/group_quant.h"
#include "kvc/quant/pack_bits.h"
#include "kvc/quant/requantized_cache.h"
#include "records.h"

namespace kvc::census {
namespace {

// Runs of `group` channels of a token's H*d, where no plugin's groups cross heads.
at::Tensor merged_groups(const at::Tensor& x, int64_t bits, int64_t group) {
  const auto merged = x.transpose(0, 1).reshape({1, x.size(1), x.size(0) * x.size(2)}).contiguous();
  const auto y = quantize_groups(merged, {.bits = bits, .group_size = group, .precision = Precision::exact});
  return y.dequantize()[0].view({x.size(1), x.size(0), x.size(2)}).transpose(0, 1).contiguous();
}

struct Made {
  at::Tensor y;
  std::string how;
};

Made token_groups(const at::Tensor& x, int64_t bits, int64_t group) {
  nlohmann::json options = {{"bits", bits}, {"precision", "exact"}};
  if (group == x.size(0) * x.size(2)) return {through_plugin("kcvt", options, x, false, x), "kcvt"};
  if (x.size(2) % group != 0) return {merged_groups(x, bits, group), "quantize_groups"};
  options["group_size"] = group;
  return {through_plugin("token_group", options, x, false, x), "token_group"};
}

// fp16 arithmetic throughout, as KIVI's packer computes on fp16 tensors; x [..., groups, g] half.
void quantize_in_half(const at::Tensor& x, int64_t bits, at::Tensor& codes, at::Tensor& scale, at::Tensor& zero) {
  const auto levels = static_cast<double>((1 << bits) - 1);
  zero = x.amin(-1, true);
  scale = (x.amax(-1, true) - zero) / levels;
  codes = ((x - zero) / scale).clamp(0, levels).round();
}

}  // namespace

at::Tensor channel_groups(const at::Tensor& x, int64_t bits, int64_t group) {
  const int64_t n = x.size(1);
  const GroupFormat format{
      .bits = bits, .group_size = group == n ? 0 : group, .axis = GroupAxis::tokens, .precision = Precision::exact};
  return quantize_groups(x, format).dequantize();
}

void reproduce_token_groups(const OracleSet& set, const Record& record) {
  const auto x = set.input(record);
  const auto [y, how] = token_groups(x, record.bits(), record.group(x.size(0) * x.size(2)));
  expect_reproduced(set, record, y, of_quantizer(), how);
}

void reproduce_channel_groups(const OracleSet& set, const Record& record) {
  const auto x = set.input(record);
  const int64_t n = x.size(1), group = record.group(n);
  nlohmann::json options = {{"bits", record.bits()}, {"precision", "exact"}};
  if (group == n)
    return expect_reproduced(set, record, through_plugin("kcvt", options, x, true, x), of_quantizer(), "kcvt");
  if (x.size(2) % group != 0)  // kivi's V could not take such groups
    return expect_reproduced(set, record, channel_groups(x, record.bits(), group), of_quantizer(), "quantize_groups");
  options["group_size"] = group, options["recent"] = 0;
  expect_reproduced(set, record, through_plugin("kivi", options, x, true, x), of_quantizer(), "kivi");
}

void reproduce_backbone(const OracleSet& set, const Record& record) {
  (record.of_keys() ? reproduce_channel_groups : reproduce_token_groups)(set, record);
}

// What KIVI packs: codes along tokens for K, along channels for V; each run's step and minimum.
StoreParts kivi_store(const at::Tensor& x, bool of_keys, int64_t bits, int64_t group, bool half) {
  StoreParts parts;
  if (half) {
    const auto runs = (of_keys ? x.transpose(1, 2) : x).to(at::kHalf).unflatten(-1, {-1, group}).contiguous();
    at::Tensor codes;
    quantize_in_half(runs, bits, codes, parts.scale, parts.zero);
    const auto y = (codes * parts.scale + parts.zero).flatten(-2).to(at::kFloat);
    parts.y = (of_keys ? y.transpose(1, 2) : y).contiguous();
    parts.codes = pack_bits(codes.flatten(-2).to(at::kByte).contiguous(), bits);
    parts.scale = parts.scale.squeeze(-1), parts.zero = parts.zero.squeeze(-1);
  } else {
    const auto held = quantize_groups(x, {.bits = bits,
                                          .group_size = group,
                                          .axis = of_keys ? GroupAxis::tokens : GroupAxis::channels,
                                          .precision = Precision::exact});
    const auto groups = held.by_rows();
    parts = {.codes = groups.codes, .scale = groups.scale, .zero = groups.zero, .y = held.dequantize()};
  }
  if (of_keys)
    for (auto* part : {&parts.codes, &parts.scale, &parts.zero}) *part = part->transpose(1, 2).contiguous();
  return parts;
}

void reproduce_kivi_store(const OracleSet& set, const Record& record) {
  const auto x = set.input(record);
  const bool half = record.has_word("f16"), of_keys = record.method == "kivi.kcache";
  const int64_t group = record.group(of_keys ? x.size(1) : x.size(2));
  const auto parts = kivi_store(x, of_keys, record.bits(), group, half);
  EXPECT_EQ(sha256_of(parts.codes), record.fields.at("codes_sha256").get<std::string>()) << "packed codes";
  expect_reproduced(set, record, parts.y, of_quantizer(), half ? "KIVI's formula in fp16" : "quantize_groups");
  if (half || x.size(2) % group != 0) return;
  const nlohmann::json options = {
      {"bits", record.bits()}, {"group_size", group}, {"recent", 0}, {"precision", "exact"}};
  EXPECT_TRUE(at::equal(through_plugin("kivi", options, x, of_keys, x), parts.y)) << "kivi differs from its quantizer";
}

// FlexGen holds the inverse of the step, and fills a last group up with zeros that take part in its range.
void reproduce_flexgen(const OracleSet& set, const Record& record) {
  const auto x = set.input(record);
  const int64_t group = record.group(x.size(2)), d = x.size(2), missing = (group - d % group) % group;
  if (missing == 0) {
    const nlohmann::json options = {{"bits", record.bits()}, {"group_size", group}, {"precision", "exact"}};
    return expect_reproduced(set, record, through_plugin("token_group", options, x, true, x), of_quantizer(2e-6),
                             "token_group");
  }
  const auto padded = at::constant_pad_nd(x, {0, missing}).contiguous();
  const auto y = quantize_groups(padded, {.bits = record.bits(), .group_size = group, .precision = Precision::exact});
  expect_reproduced(set, record, y.dequantize().narrow(2, 0, d).contiguous(), of_quantizer(2e-6), "quantize_groups");
}

void reproduce_rtn(const OracleSet& set, const Record& record) {
  const nlohmann::json options = {
      {"bits", record.bits()}, {"scope", record.method == "deco.rtn" ? "token" : "tensor"}, {"precision", "exact"}};
  const auto x = set.input(record);
  expect_reproduced(set, record, through_plugin("rtn", options, x, record.of_keys(), x), of_quantizer(2e-6), "rtn");
}

void reproduce_quanto(const OracleSet& set, const Record& record) {
  const int64_t axis = record.has_word("axis-1") ? -1 : 0;
  const auto x = set.input(record);
  const nlohmann::json options = {{"bits", record.bits()},
                                  {"group_size", record.group(x.size(2))},
                                  {"axis_k", axis},
                                  {"axis_v", axis},
                                  {"precision", "exact"}};
  expect_reproduced(set, record, through_plugin("quanto", options, x, record.of_keys(), x), of_quantizer(), "quanto");
}

// The public code decodes (c - zero)/scale. The plugin holds -zero/scale, so that all quantizers decode alike, and is
// an ulp of the group's range off; that its codes, steps and zeros are the public code's is seen in its solver.
void reproduce_hqq(const OracleSet& set, const Record& record) {
  const bool along_channels = record.has_word("axis1");
  const int64_t iterations = record.has_word("optTrue") ? 20 : 0;
  const auto x = set.input(record);
  const int64_t group = record.group(x.size(2));
  const auto order = along_channels ? GroupOrder::flat : GroupOrder::strided;
  const auto groups = to_groups(x, order, group).unsqueeze(0);
  const auto grid = ::hqq::fitted(groups, record.bits(), iterations);
  const auto held = ::hqq::quantize(groups, record.bits(), iterations, Precision::exact);
  const auto codes = unpack_bits(held.codes, record.bits(), group).to(at::kFloat);
  const auto y = from_groups(((codes - grid.zero) * grid.scale.reciprocal())[0], order, x.sizes());
  expect_reproduced(set, record, y.contiguous(), of_quantizer(), "hqq's solver");
  const int64_t axis = along_channels ? 1 : 0;
  const nlohmann::json options = {{"bits", record.bits()}, {"group_size", group},      {"axis_k", axis},
                                  {"axis_v", axis},        {"iterations", iterations}, {"precision", "exact"}};
  const auto decoded = through_plugin("hqq", options, x, record.of_keys(), x);
  const double ulp = (x.max() - x.min()).item<double>() * std::exp2(-23);
  EXPECT_LE((decoded - y).abs().max().item<double>(), 2 * ulp) << "hqq differs from its solver";
}

}  // namespace kvc::census
