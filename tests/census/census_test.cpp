// The census: each record of the set that lies at $KVC_SHARED/oracle is a test of its name, and so is each whole tensor
// of its full.safetensors. A method that no row below names fails. What is compared within which tolerance, and how a
// method is reached, stands with its row's function.
#include <gtest/gtest.h>

#include <set>

#include "records.h"

namespace kvc::census {
namespace {

struct Row {
  const char* method;  // a final * stands for any rest
  void (*reproduce)(const OracleSet& set, const Record& record);
};

constexpr Row kRows[] = {
    {"gear_sim.token_group", reproduce_token_groups},
    {"gear_sim.channel_group", reproduce_channel_groups},
    {"gear.KCVT", reproduce_backbone},
    {"gear.KIVI_V2", reproduce_backbone},
    {"gear.GEARL", reproduce_gear_l},
    {"gear.GEARL-KCVT", reproduce_gear_l},
    {"gear.GEAR", reproduce_gear},
    {"gear.GEAR-KCVT", reproduce_gear},
    {"gear.poweriter", reproduce_power_iteration},
    {"kivi.AsymGroupedQuantizer", reproduce_token_groups},
    {"kivi.AsymGroupedQuantizerByChannel", reproduce_channel_groups},
    {"kivi.kcache", reproduce_kivi_store},
    {"kivi.vcache", reproduce_kivi_store},
    {"flexgen.compress", reproduce_flexgen},
    {"deco.mpo", reproduce_decoquant},
    {"deco.rtn", reproduce_rtn},
    {"deco.rtn_per_tensor", reproduce_rtn},
    {"qjl", reproduce_qjl},
    {"kvquant.int", reproduce_kvquant_integers},
    {"kvquant.nuq*", reproduce_kvquant_levels},
    {"quanto.max", reproduce_quanto},
    {"hqq", reproduce_hqq},
    {"plugin", reproduce_plugin},
};

bool names(const std::string& pattern, const std::string& method) {
  if (pattern.back() != '*') return pattern == method;
  return method.rfind(pattern.substr(0, pattern.size() - 1), 0) == 0;
}

// What gtest takes for a test's name: letters, digits, and each run of others as one '_'; '-' and '.' as words, so that
// no two records become one.
std::string test_name(const std::string& id) {
  std::string name;
  for (const char c : id) {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      name += c;
    } else if (c == '-' || c == '.') {
      name += c == '-' ? "_minus_" : "_dot_";
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  return name;
}

std::vector<std::string> record_ids() {
  std::vector<std::string> ids;
  for (const auto& record : oracle_set().records) ids.push_back(record.id);
  return ids;
}

std::vector<std::string> full_names() {
  std::vector<std::string> all;
  for (const auto& [name, tensor] : oracle_set().full) all.push_back(name);
  return all;
}

struct OracleRecord : testing::TestWithParam<std::string> {};
struct OracleTensor : testing::TestWithParam<std::string> {};

TEST_P(OracleRecord, IsReproduced) {
  const auto& set = oracle_set();
  const auto& record = *set.find(GetParam());
  SCOPED_TRACE(record.id);
  for (const auto& row : kRows)
    if (names(row.method, record.method)) return row.reproduce(set, record);
  FAIL() << "no reproduction for method " << record.method;
}

TEST_P(OracleTensor, IsReproduced) {
  SCOPED_TRACE(GetParam());
  reproduce_whole(oracle_set(), GetParam());
}

const auto kNameOf = [](const auto& info) { return test_name(info.param); };
INSTANTIATE_TEST_SUITE_P(Set, OracleRecord, testing::ValuesIn(record_ids()), kNameOf);
INSTANTIATE_TEST_SUITE_P(Set, OracleTensor, testing::ValuesIn(full_names()), kNameOf);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OracleRecord);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OracleTensor);

TEST(Oracle, RecordsHaveNamesOfTheirOwn) {
  const auto ids = record_ids();
  if (ids.empty()) GTEST_SKIP() << "KVC_SHARED names no folder that holds oracle/oracle.json";
  std::set<std::string> distinct;
  for (const auto& id : ids) distinct.insert(test_name(id));
  EXPECT_EQ(distinct.size(), ids.size());
  std::printf("%zu records, %zu whole tensors\n", ids.size(), full_names().size());
}

TEST(Oracle, RecordOfAMethodThatNoRowNamesHasNoReproduction) {
  for (const char* method : {"gear.GEARS", "kivi", "hqq2", "", "deco.mpo2"})
    for (const auto& row : kRows) EXPECT_FALSE(names(row.method, method)) << method << " is taken for " << row.method;
}

}  // namespace
}  // namespace kvc::census
