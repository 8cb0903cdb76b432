// Whole tensors of the set, by name: outputs of records, and parts of what the public codes hold.
#include <gtest/gtest.h>

#include "../../plugins/decoquant/factors.h"
#include "kvc/check.h"
#include "records.h"

namespace kvc::census {
namespace {

// "kivi.kcache codes int32 b2 g32|K_A"
void reproduce_kivi_part(const OracleSet& set, const std::string& name, const at::Tensor& expected) {
  const auto record = parsed_id(name);
  const auto number_after = [&](const char* mark) {
    return std::stoll(record.words.substr(record.words.find(mark) + 2));
  };
  const auto parts =
      kivi_store(set.input(record), record.method == "kivi.kcache", number_after(" b"), number_after(" g"), false);
  const bool codes = record.has_word("codes"), scale = record.has_word("scale");
  KVC_CHECK(codes || scale || record.has_word("mn"), name, ": no reproduction of this part");
  expect_whole(name, expected,
               codes   ? parts.codes
               : scale ? parts.scale
                       : parts.zero,
               codes ? 0 : 1e-6, 1e-4, "quantize_groups");
}

// "deco.icl16 T1|K_A": the small tensor, up to the signs of its rows.
void reproduce_small_tensor(const OracleSet& set, const std::string& name, const at::Tensor& expected) {
  const auto record = parsed_id(name);
  const int64_t c = std::stoll(name.substr(std::string("deco.icl").size()));
  KVC_CHECK(record.has_word("T1"), name, ": no reproduction of this part");
  const auto x = set.input(record).to(at::kDouble);
  const auto b = ::decoquant::balanced(x.transpose(0, 1).reshape({-1, c})).b;
  expect_whole(name, expected.abs(), b.abs(), 1e-4, 0, "decoquant's factors");
}

}  // namespace

void reproduce_whole(const OracleSet& set, const std::string& name) {
  const auto& expected = set.full.at(name);
  for (const auto& record : set.records)
    if (record.method == "qjl" && name.rfind(record.id + " ", 0) == 0)
      return reproduce_qjl_part(set, record, name.substr(record.id.size() + 1));
  if (name.rfind("kivi.kcache ", 0) == 0 || name.rfind("kivi.vcache ", 0) == 0)
    return reproduce_kivi_part(set, name, expected);
  if (name.rfind("deco.icl", 0) == 0) return reproduce_small_tensor(set, name, expected);
  const auto* record = set.find(name);
  ASSERT_NE(record, nullptr) << "no record of this name";
  const auto x = set.input(*record);
  if (record->method == "gear_sim.channel_group") {
    // Held in fp16.
    const auto y = channel_groups(x, record->bits(), record->group(x.size(1))).to(expected.scalar_type());
    return expect_whole(name, expected, y, 0, 1e-4, "quantize_groups");
  }
  ASSERT_TRUE(record->method == "gear.GEAR" || record->method == "gear.GEAR-KCVT") << "no reproduction of this tensor";
  const double tolerance = 1e-3 * x.abs().max().item<double>();
  expect_whole(name, expected, gear_output(set, *record), tolerance, 1e-4, "quantize_groups, topk and low rank");
}

}  // namespace kvc::census
