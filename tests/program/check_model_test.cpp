// kvc check MODEL, as a user runs it, on the embedded model.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "store/database.h"
#include "support/check_settings.h"
#include "support/program.h"

namespace kvc {
namespace {

using test::run_program;
using test::TempFolder;

const std::filesystem::path kRoot = KVC_SOURCE_DIR;

const std::string kConfig = test::kCheckSettings + R"(model: models/demo
tasks: [check/text, check/passkey]
limit: 2
compressors:
  - full
  - label: four bits
    rtn: {bits: 4}
  - label: "a window"
    window: {sinks: 0, recent: 16}
)";

class CheckModel : public testing::Test {
 protected:
  CheckModel() {
    folder_.write("c.yaml", kConfig);
    folder_.write("t.txt", read_file(kRoot / "tasks/demo/data/swaps.jsonl").substr(0, 6000));
  }
  test::Finished check(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{
        "check", "models/demo",     "--config", (folder_ / "c.yaml").string(), "--text", (folder_ / "t.txt").string(),
        "--db",  database_.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(folder_, arguments);
  }
  Database db() { return Database::open(database_, Database::Mode::kReadOnly, 1000); }
  // The row of the first table that begins with that name.
  std::string row(const std::string& out, const std::string& name) {
    const auto at = out.find("| " + name);
    return at == std::string::npos ? "" : out.substr(at, out.find('\n', at) - at);
  }
  TempFolder folder_;
  std::filesystem::path database_ = folder_ / "r.sqlite";
};

TEST_F(CheckModel, JudgesEachPresetAndResumes) {
  const auto page = folder_ / "page.html";
  const auto done = check({"-o", page.string()});
  ASSERT_EQ(done.exit_code, 0) << done.err << done.out;
  EXPECT_NE(row(done.out, "full").find("(baseline)"), std::string::npos) << done.out;
  EXPECT_NE(row(done.out, "full").find(" 0 [0, 0] "), std::string::npos) << done.out;
  EXPECT_NE(row(done.out, "a window").find("| breaks "), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("KL at 256"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("KL at 512"), std::string::npos) << done.out;
  EXPECT_EQ(done.out.find("KL at 1024"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("K biases: no; norms of Q and K: no"), std::string::npos) << done.out;
  EXPECT_NE(read_file(page).find("Compressor presets on models/demo"), std::string::npos);
  const auto n_samples = db().integer("SELECT count(*) FROM sample WHERE status = 'ok'");
  EXPECT_GE(n_samples, 3 * 2 * 2);
  const auto again = check();
  EXPECT_EQ(again.out, done.out);
  EXPECT_EQ(db().integer("SELECT count(*) FROM sample WHERE status = 'ok'"), n_samples);
  EXPECT_EQ(db().integer("SELECT count(DISTINCT cell_key) FROM probe"), 1);
}

TEST_F(CheckModel, FiguresLeadToSamplesThatRepeat) {
  ASSERT_EQ(check({"--quick"}).exit_code, 0);
  EXPECT_EQ(db().integer("SELECT count(DISTINCT task) FROM cell WHERE kind = 'eval' AND task GLOB 'check/text/*'"), 1);
  const auto key = db().text("SELECT key FROM cell WHERE kind = 'eval' AND plugin = 'rtn' AND task = 'check/text/512'");
  const auto verified = run_program(folder_, {"verify-run", database_.string(), key});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
}

// 2 (K and V) x 2 heads x 64 channels x 4 layers x 2 bytes a token; the window holds 16 tokens.
TEST_F(CheckModel, BytesAreOfTheModelsWholeContext) {
  const auto done = check({"--quick"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.out.find("KV at 4096 tokens [MiB]"), std::string::npos) << done.out;
  EXPECT_NE(row(done.out, "full").find(" 8.00 |          100.0 |"), std::string::npos) << row(done.out, "full");
  EXPECT_NE(row(done.out, "a window").find(" 0.4 "), std::string::npos) << row(done.out, "a window");
}

TEST_F(CheckModel, WhatCannotBeCheckedIsRefusedInOneLine) {
  const auto refused = [&](const std::vector<std::string>& more, const std::string& message, int code = 2) {
    const auto done = check(more);
    EXPECT_EQ(done.exit_code, code) << done.err;
    EXPECT_NE(done.err.find(message), std::string::npos) << done.err;
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  };
  refused({"--context", "5000"}, "--context 5000: the model's context has 4096 tokens");
  refused({"--context", "100"}, "check: no task that scores running text fits 100 tokens; the shortest takes 256");
  refused({"--set", "compressors=[rtn]"}, "check: no compressor is lossless, so there is no baseline");
  folder_.write("t.txt", "short");
  refused({}, "and the longest of 1 texts has");
  const auto mixed = run_program(folder_, {"check", "models/demo", "a.yaml"});
  EXPECT_EQ(mixed.exit_code, 2);
  EXPECT_NE(mixed.err.find("models/demo"), std::string::npos) << mixed.err;
  EXPECT_EQ(run_program(folder_, {"check", "models/nowhere"}).exit_code, 2);
}

// The project's own file: every plugin and option of it is there, and a row's name says the options that ran.
TEST_F(CheckModel, ThePresetsAreThereAndAreNamedByTheirOptions) {
  const auto db = (folder_ / "presets.sqlite").string();
  const auto done =
      run_program(folder_, {"run", "configs/check.yaml", "--limit", "1", "--db", db, "--set",
                            "tasks=[check/passkey/128]", "--set", "compressors.8.qjl.value_bits=2", "--set",
                            "compressors.10.snapkv.capacity=64", "--set", "compressors.11.window.recent=60"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  const auto table = run_program(folder_, {"table", "--db", db, "--format", "csv"}).out;
  for (const char* name : {"QJL 256 signs, V 2 bits", "SnapKV, 64 tokens", "window of 60, 4 sinks"}) {
    EXPECT_NE(table.find(name), std::string::npos) << name << "\n" << table;
  }
}

}  // namespace
}  // namespace kvc
