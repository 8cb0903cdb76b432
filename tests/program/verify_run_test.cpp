#include <gtest/gtest.h>

#include <map>
#include <set>

#include "store/result_store.h"
#include "support/program.h"

namespace kvc::test {
namespace {

constexpr char kVerified[] =
    "  - kivi: {bits: 2, group_size: 32, recent: 32}\n"
    "  - chain: [{snapkv: {capacity: 64}}, {kivi: {bits: 2}}]\n"
    "  - rules: {default: full, where: [{layers: 2-3, use: {rtn: {bits: 8}}}]}\n";

class VerifyRun : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto file = folder.write("small.yaml", small_experiment(kVerified, 4)).string();
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
    EXPECT_NE(ended.out.find("recomputed samples: 0, 1, 2, 3\n0 differences\n"), std::string::npos) << ended.out;
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

TEST_F(VerifyRun, AnotherProcessorOrProgramIsANote) {
  change("UPDATE cell_provenance SET provenance_json = json_set(provenance_json, '$.cpu', 'Z80')");
  change(
      "INSERT INTO cell_provenance SELECT cell_key, 'b', json_set(provenance_json, '$.cpu', '6502', '$.git', 'abc')"
      " FROM cell_provenance");
  const auto ended = verify(key("kivi"), {"--samples", "1"});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_NE(ended.out.find("note: processor: stored 6502 and Z80, now "), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("note: commit of kvc: stored "), std::string::npos) << ended.out;
  EXPECT_EQ(ended.out.find("note: LibTorch: "), std::string::npos) << ended.out;
}

TEST_F(VerifyRun, TheSeedChoosesTheSamples) {
  const auto drawn = [&](const char* seed) {
    const auto out = verify(key("kivi"), {"--samples", "2", "--seed", seed}).out;
    const auto start = out.find("samples: ");
    return out.substr(start, out.find('\n', start) - start);
  };
  EXPECT_EQ(drawn("7"), drawn("7"));
  std::set<std::string> all;
  for (const char* seed : {"1", "2", "3", "4", "5", "6"}) all.insert(drawn(seed));
  EXPECT_GT(all.size(), 1u);
}

TEST_F(VerifyRun, AProbeRepeatsValueByValue) {
  const auto file = folder
                        .write("probe.yaml",
                               "name: probed\nkind: probe\nmodel: models/demo\ntasks: [demo/truth]\nlimit: 2\n"
                               "probe: {measures: [channel_mean_abs, kl, sigma], queries: 4}\ncompressors:\n"
                               "  - kivi: {bits: 2, group_size: 32, recent: 32}\n")
                        .string();
  ASSERT_EQ(run_program(folder, {"run", file, "--db", database()}).exit_code, 0) << read_file(folder / "err");
  const auto probe =
      ResultStore::open_readonly(database()).database().text("SELECT key FROM cell WHERE kind = 'probe'");
  const auto repeated = verify(probe);
  EXPECT_NE(repeated.out.find("recomputed samples: 0, 1\n0 differences\n"), std::string::npos)
      << repeated.out << repeated.err;

  change("UPDATE probe SET value = value + 1 WHERE measure = 'kl' AND sample = 1");
  change(
      "UPDATE probe SET value = 7 WHERE measure = 'channel_mean_abs' AND sample = 0 AND layer = 1 AND tensor = 'v'"
      " AND step = 3");
  change("DELETE FROM probe WHERE measure = 'sigma' AND sample = 0 AND layer = 0");
  const auto ended = verify(probe);
  EXPECT_EQ(ended.exit_code, 5) << ended.err;
  EXPECT_NE(ended.out.find("differs: sample 0: channel_mean_abs: layer 1, v, step 3: stored 7.0, now "),
            std::string::npos)
      << ended.out;
  EXPECT_NE(ended.out.find("differs: sample 0: sigma: layer 0"), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("differs: sample 1: kl: layer "), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find(" more of "), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("\n3 differences\n"), std::string::npos) << ended.out;
}

TEST_F(VerifyRun, WhatCannotBeVerifiedIsRefusedInOneLine) {
  EXPECT_EQ(verify("zz").exit_code, 2);
  EXPECT_NE(verify("zz").err.find("no cell 'zz'"), std::string::npos);
  change("UPDATE cell SET kind = 'bench' WHERE plugin = 'kivi'");
  const auto ended = verify(key("kivi"));
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_NE(ended.err.find("is of kind bench: its results are not reproducible; expected eval"), std::string::npos)
      << ended.err;
}

// Cells that need more than the database holds: a calibration, maxima for smoothing, a task file, a system message.
class VerifyNamedFiles : public VerifyRun {
 protected:
  void SetUp() override {
    const std::string texts = KVC_SOURCE_DIR "/prompts/demo/truth.txt";
    const auto path = [&](const char* name) { return (folder / name).string(); };
    ASSERT_EQ(run_program(folder, {"calibrate", "--model", "models/demo", "--plugin", "kvquant: {}", "-o",
                                   path("c.safetensors"), "--texts", texts})
                  .exit_code,
              0)
        << read_file(folder / "err");
    ASSERT_EQ(
        run_program(folder, {"smooth", "models/demo", "--texts", texts, "--output", path("maxima.json")}).exit_code, 0)
        << read_file(folder / "err");
    write_task("Q: {q}\\nA:");
    folder.write("tasks/own/d.jsonl", "{\"q\": \"What does Sam have?\", \"a\": \"x\"}\n");
    const auto file =
        folder.write("files.yaml", "name: files\nmodel: models/demo\ntasks: [" + path("tasks/own/t.yaml") +
                                       "]\nsystem_message: Be brief.\nchat_template: llama2\n"
                                       "smooth_quant: {calibration: " +
                                       path("maxima.json") + "}\n" + kFileCompressors);
    ASSERT_EQ(run_program(folder, {"run", file.string(), "--db", database()}).exit_code, 0)
        << read_file(folder / "err");
  }

  void write_task(const std::string& prompt) {
    std::string cases;
    for (int i = 0; i < 6; ++i) cases += "  - {extractor: e, text: x, gold: x, answer: x, correct: true}\n";
    folder.write("tasks/own/t.yaml",
                 "version: 1\nsummary: t\neach: {one: {}, two: {}}\ndata: {file: d.jsonl, root: task}\nfields: {q: q}\n"
                 "gold: {from: a}\nprompt: {template: \"${variant} " +
                     prompt +
                     "\", chat: turn}\nmax_new_tokens: 4\nextractors: [{name: e, steps: [strip], compare: exact}]\n"
                     "metric: accuracy\nextract_cases:\n" +
                     cases);
  }
  std::string key(const std::string& plugin, const std::string& variant = "two") {
    return ResultStore::open_readonly(database())
        .database()
        .text("SELECT key FROM cell WHERE task = 'own/t/" + variant + "' AND plugin = '" + plugin + "'");
  }

  static constexpr char kFileCompressors[] =
      "compressors:\n"
      "  - kvquant: {levels: non_uniform, calibration: c.safetensors}\n"
      "  - rules: {default: full, where: [{layers: 2-3, use: {kvquant: {levels: non_uniform, calibration: "
      "c.safetensors}}}]}\n";
};

TEST_F(VerifyNamedFiles, WhatTheirCellsComputedRepeats) {
  for (const std::string plugin : {"kvquant", "full/kvquant"}) {
    const auto ended = verify(key(plugin));
    EXPECT_EQ(ended.exit_code, 0) << plugin << ended.err << ended.out;
    EXPECT_NE(ended.out.find("recomputed samples: 0\n0 differences\n"), std::string::npos) << ended.out;
  }
}

TEST_F(VerifyNamedFiles, AFileThatChangedOrIsGoneIsRefusedInOneLine) {
  const auto refused = [&](const std::string& file, const std::string& what, const std::string& sha256) {
    const auto path = (folder / file).string(), before = read_file(path);
    const auto expected = "kvc: " + what + " '" + path + "': SHA-256 " + sha256 + " when the cell was computed, now ";
    folder.write(file, before + "\n");
    EXPECT_EQ(verify(key("full/kvquant")).err, expected + sha256_hex(before + "\n") + "\n");
    std::filesystem::remove(path);
    const auto gone = verify(key("full/kvquant"));
    EXPECT_EQ(gone.err, expected + "gone\n");
    EXPECT_EQ(gone.exit_code, 2);
    folder.write(file, before);
  };
  for (const auto& [file, what] : std::map<std::string, std::string>{{"c.safetensors", "calibration"},
                                                                     {"maxima.json", "smooth_quant: calibration"},
                                                                     {"tasks/own/t.yaml", "task file"}}) {
    refused(file, what, sha256_file(folder / file));
  }
  EXPECT_EQ(verify(key("full/kvquant")).exit_code, 0);
}

TEST_F(VerifyNamedFiles, AFileThatNoProvenanceNamesIsRefused) {
  change("UPDATE cell_provenance SET provenance_json = '{}'");
  const auto ended = verify(key("kvquant"));
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_EQ(ended.err, "kvc: calibration of SHA-256 " + sha256_file(folder / "c.safetensors") +
                           ": the cell's provenance does not say where it is; `kvc run` with its experiment records "
                           "that\n");
}

}  // namespace
}  // namespace kvc::test
