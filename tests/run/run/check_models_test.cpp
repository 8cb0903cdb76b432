// kvc check of several models: the embedded one, and a small one with random weights and heads of 12 channels.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/safetensors.h"
#include "store/database.h"
#include "support/check_settings.h"
#include "support/places.h"
#include "support/program.h"
#include "support/small_llama.h"

namespace kvc {
namespace {

using test::run_program;

const std::string kConfig = test::kCheckSettings +
                            "model: models/demo\ntasks: [check/text, check/passkey]\nlimit: 5\n" +
                            "plugin_path: [" KVC_BINARY_DIR "/tests/plugins]\n" + R"(compressors:
  - full
  - label: blocks
    mxfp4:
  - label: "a window"
    window: {sinks: 0, recent: 16}
)";

class CheckModels : public testing::Test {
 protected:
  CheckModels() {
    folder_.write("c.yaml", kConfig);
    folder_.write("t.txt", read_file(test::kCheckout / "tasks/demo/data/swaps.jsonl").substr(0, 20000));
    at::manual_seed(7);
    const test::SmallLlama llama{.vocab = 608, .positions = 600};
    std::filesystem::create_directory(small_);
    write_safetensors(small_ / "model.safetensors", llama.weights());
    auto json = llama.config();
    json["bos_token_id"] = 0;
    json["eos_token_id"] = 1;
    folder_.write("small/config.json", json.dump());
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
      std::filesystem::copy_file(test::kCheckout / "models/demo" / name, small_ / name);
    }
  }
  test::Finished check(std::vector<std::string> arguments) {
    const std::vector<std::string> rest{
        "--config", (folder_ / "c.yaml").string(), "--text", (folder_ / "t.txt").string(), "--db", database_.string()};
    arguments.insert(arguments.begin(), "check");
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    return run_program(folder_, arguments);
  }
  Database db() { return Database::open(database_, Database::Mode::kReadOnly, 1000); }
  // The cells of the first row that begins so, without blanks around them.
  static std::vector<std::string> row(const std::string& out, const std::string& name) {
    std::vector<std::string> cells;
    const auto at = out.find("\n| " + name);
    if (at == std::string::npos) return cells;
    std::istringstream line(out.substr(at + 2, out.find('\n', at + 1) - at - 2));
    for (std::string cell; std::getline(line, cell, '|');) {
      const auto first = cell.find_first_not_of(' ');
      cells.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
    }
    return cells;
  }
  test::TempFolder folder_;
  const std::filesystem::path small_ = folder_ / "small", database_ = folder_ / "r.sqlite";
};

TEST_F(CheckModels, CompressorsOnTheCommandLineTakeThePlaceOfTheFiles) {
  const auto done =
      check({"models/demo", small_.string(), "window: {sinks: 0, recent: 16}", "q8_0", "full", "mxfp4", "--dry-run"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  for (const char* row : {"  full precision\n", "models/demo:\n", "  window recent 16, sinks 0\n", "  q8_0\n",
                          "  mxfp4 defaults\n", "  q8_0: refused: "}) {
    EXPECT_THAT(done.out, testing::HasSubstr(row));
  }
  EXPECT_THAT(done.out, testing::Not(testing::HasSubstr("a window")));
  EXPECT_THAT(done.out, testing::HasSubstr("  on check/text/"));
  EXPECT_FALSE(std::filesystem::exists(database_));
  EXPECT_THAT(check({"models/demo", "kivi: {bitts: 2}"}).err, testing::HasSubstr("did you mean 'bits'?"));
  EXPECT_THAT(check({"models/demo", "q4_0", "--as", "llama.cpp: -ctk q4_0"}).err,
              testing::HasSubstr("expected one of the two"));
}

TEST_F(CheckModels, AModelIsAColumnAndARefusedPresetIsSaid) {
  const auto page = folder_ / "page.html";
  const auto done = check({"models/demo", small_.string(), "-o", page.string()});
  ASSERT_EQ(done.exit_code, 0) << done.err << done.out;
  EXPECT_EQ(row(done.out, "compressor"), (std::vector<std::string>{"compressor", "models/demo", small_.string()}));
  EXPECT_EQ(row(done.out, "full"), (std::vector<std::string>{"full defaults", "(baseline)", "(baseline)"}));
  EXPECT_EQ(row(done.out, "blocks").at(2), "refused");
  EXPECT_EQ(row(done.out, "a window").at(1), "breaks");
  EXPECT_NE(done.out.find(small_.string() + " is refused by blocks: mxfp4: head_dim 12 is not a multiple of"),
            std::string::npos)
      << done.out;
  EXPECT_EQ(row(done.out, "models/demo ").at(3), "2") << done.out;  // KV heads
  EXPECT_EQ(row(done.out, "models/demo ").at(4), "64");
  EXPECT_EQ(row(done.out, small_.string()).at(4), "12");
  EXPECT_NE(read_file(page).find("Compressor presets on models/demo"), std::string::npos);
  EXPECT_EQ(db().integer("SELECT count(DISTINCT experiment) FROM experiment_cell"), 2);
  EXPECT_EQ(db().integer("SELECT count(*) FROM cell WHERE plugin = 'mxfp4' AND model <> 'models/demo'"), 0);
}

// What either model's own check says, and without a sample more.
TEST_F(CheckModels, EachColumnIsWhatTheModelAloneWouldGet) {
  const auto alone = check({"models/demo"});
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const auto both = check({"models/demo", small_.string()});
  ASSERT_EQ(both.exit_code, 0) << both.err;
  for (const char* preset : {"blocks", "a window"}) {
    EXPECT_EQ(row(both.out, preset).at(1), row(alone.out, preset).at(1)) << both.out << alone.out;
  }
  EXPECT_EQ(db().integer("SELECT max(attempts) FROM v_attempt"), 1);
  EXPECT_EQ(check({small_.string(), "models/demo"}).exit_code, 0);
  EXPECT_EQ(db().integer("SELECT max(attempts) FROM v_attempt"), 1);
}

TEST_F(CheckModels, AModelThatCannotBeLoadedCostsItsColumn) {
  folder_.write("broken/config.json", "{");
  const auto done = check({"models/nowhere", "models/demo", (folder_ / "broken").string(), "--quick"});
  EXPECT_EQ(done.exit_code, 4) << done.err;
  EXPECT_EQ(row(done.out, "a window").at(1), "");
  EXPECT_EQ(row(done.out, "a window").at(2), "breaks") << done.out;
  EXPECT_EQ(row(done.out, "a window").at(3), "");
  EXPECT_NE(done.out.find("models/nowhere was not checked: "), std::string::npos) << done.out;
  EXPECT_NE(done.err.find("models/nowhere: not checked: "), std::string::npos) << done.err;
  EXPECT_TRUE(row(done.out, "models/nowhere").empty()) << done.out;
  const auto none = check({"models/nowhere", (folder_ / "broken").string()});
  EXPECT_EQ(none.exit_code, 2) << none.err;
  EXPECT_TRUE(none.out.empty()) << none.out;
}

TEST_F(CheckModels, SamplesThatFailAreNoVerdict) {
  const auto done = check({"models/demo", small_.string(), "--quick", "--set", "compressors=[full, throws]"});
  EXPECT_EQ(done.exit_code, 4) << done.err;
  EXPECT_EQ(row(done.out, "throws"), (std::vector<std::string>{"throws defaults", "failed", "failed"})) << done.out;
  EXPECT_NE(done.out.find("models/demo failed "), std::string::npos) << done.out;
}

TEST_F(CheckModels, WhatNoModelCanUseIsTheFilesMistake) {
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& message) {
    const auto done = check(arguments);
    EXPECT_EQ(done.exit_code, 2) << done.err;
    EXPECT_NE(done.err.find(message), std::string::npos) << done.err;
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  };
  const auto small = small_.string();
  refused({"models/demo", small, "--set", "compressors=[full, {rtn: {bit: 4}}]"}, "'bit'");
  refused({"models/demo", small, "--set", "compressors=[full, nothing]"}, "nothing");
  refused({"models/demo", "models/demo"}, "check: model 'models/demo' is named twice");

  // Layers that only the embedded model has.
  const auto layers =
      check({"models/demo", small, "--quick", "--set",
             "compressors=[full, {rules: {default: full, where: [{layers: 3, use: {rtn: {bits: 4}}}]}}]"});
  EXPECT_EQ(layers.exit_code, 0) << layers.err;
  EXPECT_NE(layers.out.find("layers 3-3, the model has 0 to 1"), std::string::npos) << layers.out << layers.err;
}

}  // namespace
}  // namespace kvc
