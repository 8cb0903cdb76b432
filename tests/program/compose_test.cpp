// Chains and rules from the experiment's file to the tables; what does not go together is refused in one line.
#include <gtest/gtest.h>

#include <algorithm>

#include "store/result_store.h"
#include "support/program.h"

namespace kvc::test {
namespace {

const char kHead[] = "model: models/demo\ntasks: [demo/truth]\nlimit: 2\ncompressors:\n";

std::string text_of(ResultStore& store, const std::string& sql) { return store.database().text(sql); }

TEST(Compose, TheExampleRunsAndItsBytesAndTimesAddUp) {
  TempFolder folder;
  const auto database = (folder / "r.sqlite").string();
  const auto run = run_program(folder, {"run", "configs/compose.yaml", "--db", database, "--limit", "2"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  auto store = ResultStore::open_readonly(database);
  auto& db = store.database();
  EXPECT_EQ(db.integer("SELECT count(*) FROM sample WHERE status = 'ok'"), 2 * 2 * 7);
  // Every sample's bytes by stage are its bytes, which were the allocator's; its times by stage are its times.
  EXPECT_EQ(db.integer("SELECT count(*) FROM sample AS s WHERE kv_bytes <> (SELECT sum(bytes) FROM kv_bytes AS b WHERE "
                       "b.cell_key = s.cell_key AND b.sample = s.sample)"),
            0);
  EXPECT_EQ(
      db.integer("SELECT count(*) FROM sample AS s JOIN (SELECT cell_key, sample, sum(encode_seconds) AS e, "
                 "sum(attend_seconds) AS a, min(encode_seconds) AS least FROM stage_time GROUP BY 1, 2) AS t USING "
                 "(cell_key, sample) WHERE abs(e - s.encode_seconds) < 1e-9 AND abs(a - s.attend_seconds) < 1e-9 "
                 "AND least >= 0"),
      2 * 2 * 5);
  EXPECT_EQ(db.integer("SELECT count(*) FROM kv_bytes AS b JOIN cell AS c ON c.key = b.cell_key WHERE c.plugin IN "
                       "('full', 'kivi') AND b.stage <> 0"),
            0);
  EXPECT_EQ(text_of(store,
                    "SELECT group_concat(plugin || ' ' || place, '; ') FROM (SELECT * FROM stage WHERE cell_key = "
                    "(SELECT key FROM cell WHERE plugin = 'kivi/kivi/token_group' LIMIT 1) ORDER BY stage)"),
            "kivi default; kivi layers 0-1; token_group layers 3, v");
}

TEST(Compose, RecordsTheWholeCompositionAndAllItsBinaries) {
  TempFolder folder;
  const auto file =
      folder.write("x.yaml", std::string(kHead) +
                                 "  - chain: [{snapkv: {capacity: 64}}, {kivi: {bits: 2}}]\n"
                                 "  - rules: {default: full, where: [{layers: 2-3, use: {rtn: {bits: 8}}}]}\n");
  const auto database = (folder / "r.sqlite").string();
  ASSERT_EQ(run_program(folder, {"run", file.string(), "--db", database}).exit_code, 0) << read_file(folder / "err");
  auto store = ResultStore::open_readonly(database);
  EXPECT_EQ(text_of(store, "SELECT options_json FROM cell WHERE plugin = 'snapkv+kivi'"),
            R"({"chain":[{"snapkv":{"capacity":64,"kernel":5,"pooling":"avg","precision":"real","window":32}},)"
            R"({"kivi":{"bits":2,"group_size":32,"precision":"real","recent":128}}]})");
  EXPECT_EQ(text_of(store, "SELECT options_json FROM cell WHERE plugin = 'full/rtn'"),
            R"({"rules":{"default":{"full":{"dtype":"fp16"}},"where":[{"layers":["2-3"],"use":{"rtn":{"bits":8,)"
            R"("precision":"real","scope":"token"}}}]}})");
  const std::filesystem::path build = KVC_BINARY_DIR;
  const auto libraries = concat("libkvc.so ", sha256_file(build / "lib/libkvc.so"), ", libkvc_quant.so ",
                                sha256_file(build / "lib/libkvc_quant.so"));
  const auto hash = [&](const char* name) {
    return sha256_hex(concat(sha256_file(build / "plugins" / concat(name, ".so")), "\n", libraries));
  };
  EXPECT_EQ(text_of(store, "SELECT plugin_sha256 FROM cell WHERE plugin = 'snapkv+kivi'"),
            hash("snapkv") + "+" + hash("kivi"));
  EXPECT_EQ(text_of(store, "SELECT options_label FROM cell WHERE plugin = 'snapkv+kivi'"),
            "snapkv capacity 64 + kivi bits 2");
  const auto isolated = run_program(folder, {"run", file.string(), "--db", database, "--set", "isolation=process"});
  EXPECT_EQ(isolated.exit_code, 0) << isolated.err;
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM cell"), 2) << "the process is no part of a key";
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM sample WHERE paper_bytes IS NULL"), 2);  // the chain's
}

// group_size 32 and recent 128 are kivi's defaults, which one row names; bits are told apart, and recent of the last.
TEST(Labels, LeaveOutADefaultThatOneRowNames) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", std::string(kHead) +
                                               "  - kivi: {bits: 2, group_size: 32, recent: 128}\n  - kivi: {bits: 4}\n"
                                               "  - kivi: {bits: 4, recent: 64}\n");
  const auto run = run_program(folder, {"run", file.string(), "--dry-run"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const char* label : {"bits 2, recent 128:", "bits 4:", "bits 4, recent 64:"}) {
    EXPECT_NE(run.out.find(label), std::string::npos) << label << "\n" << run.out;
  }
  EXPECT_EQ(run.out.find("group_size"), std::string::npos) << run.out;
}

// A layer whose rule names a plugin is that plugin: the tokens, bytes and errors of the plugin alone.
TEST(Compose, ARuleForAllLayersIsThePluginItself) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", std::string(kHead) +
                                               "  - kivi: {bits: 2, recent: 32}\n"
                                               "  - rules: {default: full, where: [{layers: 0-3, use: {kivi: {bits: 2, "
                                               "recent: 32}}}]}\n");
  const auto database = (folder / "r.sqlite").string();
  ASSERT_EQ(run_program(folder, {"run", file.string(), "--db", database}).exit_code, 0) << read_file(folder / "err");
  auto store = ResultStore::open_readonly(database);
  EXPECT_EQ(store.database().integer("SELECT count(DISTINCT token_ids_json || kv_bytes || n_encoded_tokens || "
                                     "paper_bytes || k_error || v_error) FROM sample GROUP BY sample LIMIT 1"),
            1);
}

TEST(Compose, SweepsInsidePartsMakeTheirProduct) {
  TempFolder folder;
  const auto file =
      folder.write("x.yaml", std::string(kHead) +
                                 "  - chain: [{window: {recent: [60, 124]}}, {rtn: {bits: [2, 4, 8]}}]\n"
                                 "  - rules: {default: {rtn: {bits: [2, 4]}}, where: [{layers: 0, options: "
                                 "{scope: [token, tensor]}}]}\n"
                                 "  - chain: [{rtn: {bits: 2}}, rtn]\n    block: [16, 32]\n");
  const auto plan = run_program(folder, {"run", file.string(), "--dry-run", "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_NE(plan.out.find("12 cells (1 tasks x 12 compressors)"), std::string::npos) << plan.out;
  EXPECT_NE(plan.out.find("rtn bits 4; layers 0: rtn bits 4, scope tensor:"), std::string::npos) << plan.out;
  EXPECT_NE(plan.out.find("rtn bits 2 + rtn, block 32:"), std::string::npos) << plan.out;
}

TEST(Compose, TheTableOfStagesNamesEachPart) {
  TempFolder folder;
  const auto file =
      folder.write("x.yaml", std::string(kHead) + "  - full\n  - chain: [{window: {recent: 60}}, {rtn: {bits: 8}}]\n");
  const auto database = (folder / "r.sqlite").string();
  ASSERT_EQ(run_program(folder, {"run", file.string(), "--db", database}).exit_code, 0) << read_file(folder / "err");
  const auto table = run_program(folder, {"table", "stages", "--db", database, "--format", "csv"});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_EQ(std::count(table.out.begin(), table.out.end(), '\n'), 1 + 3) << table.out;
  EXPECT_NE(table.out.find("window+rtn,window recent 60 + rtn bits 8,2,rtn,stage 2,"), std::string::npos) << table.out;
  const auto none = run_program(folder, {"table", "stages", "--db", database, "--experiment", "other"});
  EXPECT_EQ(std::count(none.out.begin(), none.out.end(), '\n'), 2) << none.out;
  const auto unknown = run_program(folder, {"table", "stagse", "--db", database});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("unknown table 'stagse' (did you mean 'stages'?)"), std::string::npos) << unknown.err;
}

struct BadComposition {
  const char* what;
  const char* entry;  // from line 5 on
  const char* message;
};

const BadComposition kBadCompositions[] = {
    {"OneStage", "  - chain: [kivi]\n", "x.yaml:5:12: error: compressors[0].chain has 1 stages, expected at least two"},
    {"NoList", "  - chain: kivi\n", "x.yaml:5:12: error: compressors[0].chain is 'kivi', expected a sequence"},
    {"UnknownKey", "  - chain: [window, rtn]\n    blok: 3\n",
     "x.yaml:6:5: error: unknown key 'blok' (did you mean 'block'?); known: label, chain, block"},
    {"NoBlock", "  - chain: [{rtn: {bits: 2}}, rtn]\n    block: 0\n",
     "x.yaml:6:12: error: compressors[0].block is '0', expected an integer from 1 to 1048576"},
    {"BlockOfAnEvictor", "  - chain: [window, rtn]\n    block: 16\n",
     "x.yaml:5:5: error: chain: block 16, and no stage stores the error of another: expected none"},
    {"UnknownStage", "  - chain:\n      - window\n      - {kivvi: {bits: 2}}\n",
     "x.yaml:7:9: error: unknown compressor 'kivvi' (did you mean 'kivi'?)"},
    {"OptionOfAStage", "  - chain:\n      - window\n      - {kivi: {bit: 2}}\n",
     "x.yaml:7:9: error: plugin 'kivi': unknown option 'bit' (did you mean 'bits'?)"},
    {"ListInAList", "  - chain: [window, {rtn: {bits: [[2]]}}]\n",
     "error: compressors[0].chain[1].rtn.bits[0] is a sequence, expected a number, a word, or a list of these"},
    {"StageOfTheModel", "  - chain: [window, {token_group: {group_size: 48}}]\n",
     "x.yaml:5:5: error: chain: stage 2 (token_group): token_group: group_size 48 does not divide head_dim 64"},
    {"EvictorBehind", "  - chain: [kivi, snapkv]\n", "x.yaml:5:5: error: chain: stage 2 (snapkv) evicts"},
    {"NoDefault", "  - rules: {where: [{layers: 0, use: rtn}]}\n",
     "x.yaml:5:12: error: missing key 'default' in compressors[0].rules"},
    {"NoRule", "  - rules: {default: full, where: []}\n",
     "x.yaml:5:35: error: compressors[0].rules.where is an empty list, expected at least one rule"},
    {"RuleWithoutScope", "  - rules: {default: full, where: [{use: rtn}]}\n",
     "x.yaml:5:36: error: compressors[0].rules.where[0] names no layers, tensor or phase: expected at least one of "
     "them"},
    {"RuleWithoutUse", "  - rules: {default: full, where: [{layers: 1}]}\n",
     "x.yaml:5:36: error: missing key 'use' in compressors[0].rules.where[0] (a compressor), or 'options' (of the "
     "default's)"},
    {"UseAndOptions", "  - rules: {default: rtn, where: [{layers: 1, use: full, options: {bits: 2}}]}\n",
     "has both 'use' and 'options', expected one of them"},
    {"UnknownScope", "  - rules: {default: full, where: [{layer: 1, use: rtn}]}\n",
     "x.yaml:5:37: error: unknown key 'layer' (did you mean 'layers'?)"},
    {"NoRange", "  - rules: {default: full, where: [{layers: 3-1, use: rtn}]}\n",
     "x.yaml:5:45: error: compressors[0].rules.where[0].layers is '3-1', expected a layer, a range of layers such as "
     "0-3"},
    {"BeyondTheModel", "  - rules:\n      default: full\n      where:\n        - {layers: 2-4, use: rtn}\n",
     "x.yaml:8:30: error: layers 2-4, the model has 0 to 3"},
    {"UnknownTensor", "  - rules: {default: full, where: [{tensor: q, use: rtn}]}\n",
     "x.yaml:5:45: error: compressors[0].rules.where[0].tensor is 'q', allowed: k, v"},
    {"UnknownPhase", "  - rules: {default: full, where: [{phase: decoding, use: rtn}]}\n",
     "x.yaml:5:44: error: compressors[0].rules.where[0].phase is 'decoding' (did you mean 'decode'?), allowed: prompt, "
     "decode"},
    {"OptionsOfAChain", "  - rules: {default: {chain: [window, rtn]}, where: [{layers: 1, options: {bits: 2}}]}\n",
     "options are of a plugin, and the default is made of several: expected 'use'"},
    {"NothingLeft", "  - rules: {default: full, where: [{layers: 1, use: rtn}, {layers: 0-2, use: kivi}]}\n",
     "x.yaml:5:12: error: rules: rule 1: later rules take all that it names"},
    {"NoTensorAlone", "  - rules: {default: full, where: [{tensor: k, use: snapkv}]}\n",
     "x.yaml:5:12: error: rules: rule 1 (snapkv) would hold one of K and V of layer 0 only, but it needs both"},
};

class BadComposed : public ::testing::TestWithParam<BadComposition> {};

TEST_P(BadComposed, IsRefusedInOneLine) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", std::string(kHead) + GetParam().entry).string();
  const auto run = run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find(GetParam().message), std::string::npos) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "r.sqlite"));
}

INSTANTIATE_TEST_SUITE_P(All, BadComposed, ::testing::ValuesIn(kBadCompositions),
                         [](const auto& info) { return std::string(info.param.what); });

}  // namespace
}  // namespace kvc::test
