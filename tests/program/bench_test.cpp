// `kind: bench` and `kind: capacity` through the program.
#include <gtest/gtest.h>

#include <algorithm>

#include "store/result_store.h"
#include "support/program.h"

namespace kvc::test {
namespace {

constexpr char kLayer[] = "layer: {n_heads: 4, n_kv_heads: 2, head_dim: 64}";

std::string bench_file(const std::string& subject, const std::string& rest, const std::string& compressors) {
  return "name: b\nkind: bench\nbench:\n  " + subject + "\n  " + rest + "\ncompressors:\n" + compressors;
}

class BenchRuns : public ::testing::Test {
 protected:
  Finished run(const std::string& text) {
    return run_program(folder, {"run", folder.write("b.yaml", text).string(), "--db", database()});
  }
  std::string database() const { return (folder / "r.sqlite").string(); }
  int64_t integer(const std::string& sql) { return ResultStore::open_readonly(database()).database().integer(sql); }

  TempFolder folder;
};

TEST_F(BenchRuns, PhasesAddUpPartsFitInAndPeaksAreSplit) {
  const auto text = bench_file(kLayer, "prompt_tokens: [96, 130]\n  new_tokens: 40\n  batch: [1, 3]\n  repeats: 3",
                               "  - full\n  - gear: {backbone: kivi, bits: 2, group_size: 32, buffer: 32}\n");
  const auto first = run(text);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.err.find("8 points run now (0 failed), 0 already stored"), std::string::npos) << first.err;
  // 2 compressors x 4 points x (1 warm-up + 3 repeats), told once at the end
  const auto told = first.err.find("32/32 runs, ");
  ASSERT_NE(told, std::string::npos) << first.err;
  EXPECT_EQ(first.err.find("/32 runs", told + 8), std::string::npos) << first.err;
  EXPECT_NE(first.err.find(", at repeat 3 of 3, gear (", told), std::string::npos) << first.err;
  EXPECT_EQ(integer("SELECT count(*) FROM timing WHERE phase = 'total'"), 2 * 4 * 3);
  EXPECT_EQ(integer("SELECT count(*) FROM cell WHERE kind = 'bench' AND task LIKE 'layer 4/2/64, %'"), 2 * 4);
  const std::string by_repeat =
      "(SELECT plugin, sum(seconds) FILTER (WHERE phase = 'total') AS total,"
      " sum(seconds) FILTER (WHERE phase <> 'total' AND part = 'all') AS phases,"
      " sum(seconds) FILTER (WHERE phase IN ('encode', 'attend') AND part = 'all') AS compressor,"
      " ifnull(sum(seconds) FILTER (WHERE part <> 'all'), 0) AS parts, count(DISTINCT part) AS n"
      " FROM timing JOIN cell ON key = cell_key GROUP BY cell_key, n_prompt_tokens, batch, repeat)";
  EXPECT_EQ(integer("SELECT count(*) FROM " + by_repeat + " WHERE abs(total - phases) > 1e-9 OR total <= 0"), 0);
  EXPECT_EQ(integer("SELECT count(*) FROM " + by_repeat + " WHERE parts > compressor"), 0);
  EXPECT_EQ(integer("SELECT count(*) FROM " + by_repeat + " WHERE plugin = 'gear' AND n = 4 AND parts > 0"), 12);
  EXPECT_EQ(integer("SELECT count(*) FROM " + by_repeat + " WHERE plugin = 'full' AND n = 1 AND parts = 0"), 12);
  EXPECT_EQ(integer("SELECT count(*) FROM (SELECT sum(CASE part WHEN 'peak' THEN -bytes ELSE bytes END) AS left,"
                    " min(bytes) AS least FROM memory GROUP BY cell_key, n_prompt_tokens, batch, repeat)"
                    " WHERE left <> 0 OR least < 0"),
            0);
  EXPECT_EQ(
      integer("SELECT count(*) FROM memory_read AS r JOIN memory AS m USING (cell_key, n_prompt_tokens, batch, repeat)"
              " WHERE part = 'kv' AND r.bytes = m.bytes AND r.seconds > 0"),
      2 * 4 * 3);
  // K and V of 2 heads of 64 at 16 bits, and no weights.
  EXPECT_EQ(integer("SELECT count(*) FROM memory JOIN cell ON key = cell_key WHERE plugin = 'full' AND part = 'kv'"
                    " AND bytes = batch * (n_prompt_tokens + n_new_tokens) * 2 * 2 * 64 * 2"),
            12);
  EXPECT_EQ(integer("SELECT sum(bytes) FROM memory WHERE part = 'weights'"), 0);

  const auto again = run(text);
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_EQ(again.err.find("0 points run now (0 failed), 8 already stored"), 0u) << again.err;  // nothing to tell of
}

// `kvc bench` is `kvc run` of what is a bench, and of nothing else.
TEST_F(BenchRuns, TheVerbRunsWhatRunDoesAndRefusesOtherKinds) {
  const auto file = folder.write(
      "b.yaml", bench_file(kLayer, "prompt_tokens: 64\n  new_tokens: 2\n  repeats: 2", "  - full\n  - token_group\n"));
  const auto bench = [&](const std::string& path) { return run_program(folder, {"bench", path, "--db", database()}); };
  const auto first = run_program(folder, {"bench", file.string(), "--db", database(), "--set", "bench.batch=2"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.err.find("2 points run now (0 failed), 0 already stored"), std::string::npos) << first.err;
  EXPECT_NE(first.out.find("token_group"), std::string::npos) << first.out;
  EXPECT_EQ(integer("SELECT count(*) FROM timing WHERE phase = 'total' AND batch = 2"), 2 * 2);
  const auto again = run_program(folder, {"run", file.string(), "--db", database(), "--set", "bench.batch=2"});
  EXPECT_EQ(again.err.find("0 points run now (0 failed), 2 already stored"), 0u) << again.err;
  EXPECT_EQ(again.out, first.out);

  for (const std::string kind : {"eval", "capacity"}) {
    const auto other =
        folder.write("other.yaml", kind == "eval" ? small_experiment("  - full\n")
                                                  : std::string("name: c\nkind: capacity\ncapacity:\n  ") + kLayer +
                                                        "\n  memory_limit: 1MB\n  prompt_tokens: 64\n  new_tokens: 4\n"
                                                        "  max_batch: 4\ncompressors:\n  - full\n");
    const auto refused = bench(other.string());
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.err.find("other.yaml: kind " + kind + ", expected bench"), std::string::npos) << refused.err;
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  }
}

// Of models/demo's shape, drawn instead of read: the same bytes. 3,107,072 parameters, of which those of the layers'
// matrices, 4 x (256 x (512 + 256 + 3 x 704)), take a byte with `weights: int8`, and 4 a row.
TEST_F(BenchRuns, AWholeModelCountsItsWeights) {
  const std::string rest = "prompt_tokens: 64\n  new_tokens: 4\n  batch: 2\n  repeats: 2";
  ASSERT_EQ(run(bench_file("model: models/demo", rest, "  - full\n")).exit_code, 0) << read_file(folder / "err");
  ASSERT_EQ(run(bench_file("config: models/demo/config.json", rest, "  - full\n")).exit_code, 0)
      << read_file(folder / "err");
  EXPECT_EQ(integer("SELECT count(DISTINCT cell_key) FROM memory WHERE part = 'weights' AND bytes = 4 * 3107072"), 2);
  EXPECT_EQ(integer("SELECT count(DISTINCT bytes) FROM memory WHERE part = 'kv'"), 1);
  EXPECT_EQ(integer("SELECT max(bytes) FROM memory WHERE part = 'kv'"), 2 * 68 * 4 * 2 * 2 * 64 * 2);
  ASSERT_EQ(run(bench_file("model: models/demo", rest, "  - full\nweights: int8\n")).exit_code, 0);
  const int64_t n_matrices = 4 * 256 * (512 + 256 + 3 * 704), n_rows = 4 * (512 + 256 + 2 * 704 + 256);
  EXPECT_EQ(integer("SELECT min(bytes) FROM memory WHERE part = 'weights'"),
            4 * (3107072 - n_matrices) + n_matrices + 4 * n_rows);
}

TEST_F(BenchRuns, ACompressorThatFailsCostsItsPointsAlone) {
  const auto ended = run(bench_file(kLayer, "prompt_tokens: 64\n  new_tokens: 4\n  repeats: 1",
                                    "  - crashes\n  - misbehaves: {how: aborts, where: worker}\n"
                                    "  - misbehaves: {how: throws_an_int, where: worker}\n"
                                    "  - misbehaves: {how: hangs}\n  - full\n") +
                         "isolation: none\npatience: 0.5\nplugin_path: [" + KVC_BINARY_DIR + "/tests/plugins]\n");
  EXPECT_EQ(ended.exit_code, 4) << ended.err;
  EXPECT_NE(ended.err.find("failed: layer 4/2/64, 64 + 4 tokens, batch 1, crashes (defaults): the bench was killed by"),
            std::string::npos)
      << ended.err;
  EXPECT_NE(ended.err.find("(how aborts, where worker): the bench was killed by"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("(how throws_an_int, where worker): something was thrown"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("(how hangs): the bench was stopped after"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("\n10/10 runs, "), std::string::npos)
      << ended.err;  // those that did not run are behind it, too
  EXPECT_EQ(integer("SELECT count(DISTINCT cell_key) FROM timing"), 1);
}

// Within 1 MB a sequence of T tokens at 16 bits holds T x 512 bytes: fewer than 1953 tokens, and with a workspace less.
// 4 bits hold more sequences.
TEST_F(BenchRuns, ACapacityIsComputedAndTried) {
  const auto ended = run(std::string("name: c\nkind: capacity\ncapacity:\n  ") + kLayer +
                         "\n  prefill: false\n  memory_limit: 1MB\n  prompt_tokens: 120\n  new_tokens: 8\n"
                         "compressors: [full, rtn: {bits: 4}]\n");
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_NE(ended.err.find("4/4 searches, "), std::string::npos) << ended.err;
  const auto value = [&](const std::string& plugin, const std::string& kind, const std::string& how) {
    return integer("SELECT value FROM capacity JOIN cell ON cell.key = cell_key WHERE plugin = '" + plugin +
                   "' AND capacity.kind = '" + kind + "' AND how = '" + how + "'");
  };
  for (const std::string kind : {"max_batch", "max_context"}) {
    const int64_t most = kind == "max_batch" ? 1'000'000 / (128 * 512) : 1'000'000 / 512;
    const int64_t full = value("full", kind, "tried"), four_bits = value("rtn", kind, "tried");
    EXPECT_GT(full, 0) << kind;
    EXPECT_LE(full, most) << kind;
    if (kind == "max_batch") EXPECT_GT(four_bits, full);  // one prompt's workspace is more than what it saves
    EXPECT_GT(four_bits, 0);
    for (const std::string plugin : {"full", "rtn"}) {
      const double tried = static_cast<double>(value(plugin, kind, "tried"));
      EXPECT_NEAR(static_cast<double>(value(plugin, kind, "computed")), tried, 0.35 * tried + 1) << plugin << kind;
    }
  }
}

TEST_F(BenchRuns, BadFilesAreRefusedInOneLine) {
  const std::string rest = "prompt_tokens: 8\n  new_tokens: 4";
  const std::pair<std::string, std::string> cases[] = {
      {bench_file("layer: {n_heads: 6, n_kv_heads: 4, head_dim: 64}", rest, "  - full\n"),
       ":4:10: error: bench.layer has 6 heads over 4 KV heads, expected a multiple"},
      {bench_file("seed: 0", rest, "  - full\n"),
       ":4:3: error: bench names of layer, model, config, expected exactly one"},
      {bench_file(std::string(kLayer) + "\n  model: models/demo", rest, "  - full\n"),
       ":4:3: error: bench names layer model of layer, model, config, expected exactly one"},
      {bench_file(kLayer, "prompt_tokens: []\n  new_tokens: 4", "  - full\n"),
       ":5:18: error: bench.prompt_tokens is an empty list, expected at least one"},
      {bench_file(kLayer, "prompt_tokens: 0\n  new_tokens: 4", "  - full\n"),
       ":5:18: error: bench.prompt_tokens is '0'"},
      {bench_file(kLayer, rest + "\n  repeat: 3", "  - full\n"), "did you mean 'repeats'?"},
      {bench_file("model: models/none", rest, "  - full\n"), "model 'models/none': no such folder or .gguf file"},
      {bench_file(kLayer, rest, "  - rtn: {scope: token}\ntasks: [demo/truth]\n"), "tasks"},
      {std::string("kind: capacity\ncapacity:\n  ") + kLayer + "\n  memory_limit: 2TB\ncompressors: [full]\n",
       ":4:17: error: capacity.memory_limit is '2TB', expected bytes as 2GB, 500MB, 1.5GiB, 64MiB"}};
  for (const auto& [text, message] : cases) {
    const auto ended = run(text);
    EXPECT_EQ(ended.exit_code, 2) << text;
    EXPECT_NE(ended.err.find(message), std::string::npos) << ended.err << text;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  }
}

// One line names all files that have no samples; what else the command names still runs.
TEST_F(BenchRuns, ALimitOfSamplesIsRefusedForThemAlone) {
  const auto bench = folder.write("b.yaml", bench_file(kLayer, "prompt_tokens: 64", "  - full\n")).string();
  const auto limits = folder.write("c.yaml", "kind: capacity\nmodel: none\n").string();
  const auto eval = folder.write("e.yaml", small_experiment("  - full\n")).string();
  const auto line = "kvc: --limit 1: it limits samples per task, which these do not have: " + bench + " (bench)";
  const auto some = run_program(folder, {"run", bench, eval, limits, "--db", database(), "--limit", "1"});
  EXPECT_EQ(some.exit_code, 2);
  EXPECT_EQ(some.err.find(line + ", " + limits + " (capacity); the other files run\n"), 0u) << some.err;
  EXPECT_NE(some.err.find("\n2 samples run now (0 failed), 0 already stored"), std::string::npos) << some.err;
  EXPECT_EQ(integer("SELECT count(*) FROM cell WHERE kind <> 'eval'"), 0);
  const auto one = run_program(folder, {"run", bench, "--db", database(), "--limit", "1"});
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_EQ(one.err, line + "\n");
}

}  // namespace
}  // namespace kvc::test
