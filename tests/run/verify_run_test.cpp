#include <gtest/gtest.h>

#include <set>

#include "program.h"
#include "store/result_store.h"

namespace kvc::test {
namespace {

constexpr char kCompressors[] =
    "  - kivi: {bits: 2, group_size: 32, recent: 32}\n"
    "  - chain: [{snapkv: {capacity: 64}}, {kivi: {bits: 2}}]\n"
    "  - rules: {default: full, where: [{layers: 2-3, use: {rtn: {bits: 8}}}]}\n";

class VerifyRun : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto file = folder.write("small.yaml", small_experiment(kCompressors, 4)).string();
    ASSERT_EQ(run_program(folder, {"run", file, "--db", database()}).exit_code, 0) << read_file(folder / "err");
  }
  std::string database() const { return (folder / "r.sqlite").string(); }
  std::string key(const std::string& plugin) {
    return ResultStore::open_readonly(database())
        .database()
        .text(
            "SELECT key FROM cell WHERE task = 'demo/truth' AND "
            "plugin = '" +
            plugin + "'");
  }
  Finished verify(const std::string& key, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"verify-run", database(), key});
    return run_program(folder, more);
  }
  void change(const std::string& sql) { ResultStore::open(database()).database().execute(sql); }

  TempFolder folder;
};

TEST_F(VerifyRun, WhatWasJustComputedRepeats) {
  for (const std::string plugin : {"kivi", "snapkv+kivi", "full/rtn"}) {
    const auto ended = verify(key(plugin).substr(0, 12));
    EXPECT_EQ(ended.exit_code, 0) << plugin << ended.err << ended.out;
    EXPECT_NE(ended.out.find("samples computed again: 0, 1, 2, 3\n0 differences\n"), std::string::npos) << ended.out;
  }
}

TEST_F(VerifyRun, ATokenByteOrScoreThatWasChangedIsALineEach) {
  change("UPDATE sample SET token_ids_json = '[1]' WHERE sample = 1");
  change("UPDATE sample SET kv_bytes = kv_bytes + 1 WHERE sample = 2");
  change("UPDATE score SET value = 1 - value WHERE sample = 3 AND position = 0");
  const auto ended = verify(key("kivi"));
  EXPECT_EQ(ended.exit_code, 5) << ended.err;
  EXPECT_NE(ended.out.find("differs: sample 1: token_ids_json: stored [1], now ["), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("differs: sample 2: kv_bytes: stored "), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("differs: sample 3: score "), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("\n3 differences\n"), std::string::npos) << ended.out;
}

TEST_F(VerifyRun, OtherDataIsADifferenceAndAnotherBinaryANote) {
  change("UPDATE cell SET plugin_sha256 = 'another', model_json = '{}'");
  const auto ended = verify(key("kivi"), {"--samples", "1"});
  EXPECT_EQ(ended.exit_code, 5) << ended.err;
  EXPECT_NE(ended.out.find("note: plugin binary: stored another, now "), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("differs: cell: model: stored {}, now {"), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("\n1 differences\n"), std::string::npos) << ended.out;
}

TEST_F(VerifyRun, TheSeedChoosesTheSamples) {
  const auto drawn = [&](const char* seed) {
    const auto out = verify(key("kivi"), {"--samples", "2", "--seed", seed}).out;
    const auto start = out.find("again: ");
    return out.substr(start, out.find('\n', start) - start);
  };
  EXPECT_EQ(drawn("7"), drawn("7"));
  std::set<std::string> all;
  for (const char* seed : {"1", "2", "3", "4", "5", "6"}) all.insert(drawn(seed));
  EXPECT_GT(all.size(), 1u);
}

TEST_F(VerifyRun, WhatCannotBeVerifiedIsRefusedInOneLine) {
  EXPECT_EQ(verify("zz").exit_code, 2);
  EXPECT_NE(verify("zz").err.find("no cell 'zz'"), std::string::npos);
  change("UPDATE cell SET kind = 'bench' WHERE plugin = 'kivi'");
  const auto ended = verify(key("kivi"));
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_NE(ended.err.find("is of kind bench: its numbers do not repeat; expected eval"), std::string::npos)
      << ended.err;
}

}  // namespace
}  // namespace kvc::test
