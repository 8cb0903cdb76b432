// kvc check MODEL, as a user runs it, on the embedded model.
#include <gtest/gtest.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

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
limit: 5
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
    folder_.write("t.txt", read_file(kRoot / "tasks/demo/data/swaps.jsonl").substr(0, 20000));
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

TEST_F(CheckModel, ItsVerdictsCanBeReadFromTheDatabaseAlone) {
  const auto done = check({"--quick", "--set", "sizes=[]"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const auto stored = run_program(folder_, {"table", "check", "--db", database_.string()});
  ASSERT_EQ(stored.exit_code, 0) << stored.err;
  for (const char* preset : {"full", "four bits", "a window"})
    EXPECT_EQ(row(stored.out, preset), row(done.out, preset));
  EXPECT_EQ(db().integer("SELECT count(*) FROM cell_size WHERE n_tokens = 4096 AND kv_bytes > 0"), 6);
  const auto latex = run_program(folder_, {"table", "check", "--db", database_.string(), "--format", "latex"});
  EXPECT_NE(latex.out.find("\\begin{tabular}"), std::string::npos) << latex.out;
  EXPECT_NE(check({"--quick", "--set", "sizes=[]", "--format", "latex"}).out.find("a window & breaks"),
            std::string::npos);
}

TEST_F(CheckModel, ReadsMoreTextUntilVerdictsAreDecided) {
  folder_.write("t.txt", read_file(kRoot / "tasks/demo/data/swaps.jsonl"));
  const std::vector<std::string> quick{"--quick", "--set", "compressors=[full, {rtn: {bits: 8}, label: eight bits}]"};
  const auto n_samples = [&](const std::string& task) {
    return db().integer("SELECT count(*) FROM sample JOIN cell ON key = cell_key WHERE task GLOB '" + task + "'");
  };
  const auto first = check(quick);
  ASSERT_NE(row(first.out, "eight bits").find("undecided"), std::string::npos) << first.out << first.err;
  const auto n_text = n_samples("check/text*"), n_passkey = n_samples("check/passkey*");
  auto further = quick;
  further.emplace_back("--until-decided");
  const auto done = check(further);
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_GT(n_samples("check/text*"), n_text);
  EXPECT_EQ(n_samples("check/passkey*"), n_passkey);
  EXPECT_NE(done.out.find("because verdicts were open"), std::string::npos) << done.out;
}

TEST_F(CheckModel, FewerThanFiveWindowsDecideNothing) {
  const auto done = check({"--quick", "--set", "limit=4"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const auto window = row(done.out, "a window");
  EXPECT_NE(window.find("| undecided"), std::string::npos) << window;
  EXPECT_NE(window.find("fewer than 5 windows"), std::string::npos) << window;
  EXPECT_EQ(window.find('['), std::string::npos) << window;
}

TEST_F(CheckModel, FiguresLeadToSamplesThatRepeat) {
  ASSERT_EQ(check({"--quick"}).exit_code, 0);
  EXPECT_EQ(db().integer("SELECT count(DISTINCT task) FROM cell WHERE kind = 'eval' AND task GLOB 'check/text/*'"), 1);
  const auto key = db().text("SELECT key FROM cell WHERE kind = 'eval' AND plugin = 'rtn' AND task = 'check/text/512'");
  const auto verified = run_program(folder_, {"verify-run", database_.string(), key});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
}

// Every word of the texts is there once, so windows that share a token share a word.
TEST_F(CheckModel, WindowsShareNoTextAndComeFromEachTextInTurn) {
  std::string first, second;
  for (int i = 1000; i < 5000; ++i) first += "x" + std::to_string(i) + " ", second += "y" + std::to_string(i) + " ";
  folder_.write("t.txt", first);
  folder_.write("u.txt", second);
  const auto done = check({"--text", (folder_ / "u.txt").string(), "--set", "compressors=[full]"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  auto database = db();
  auto select = database.prepare(
      "SELECT sample, body FROM sample JOIN cell ON key = cell_key JOIN text ON sha256 = prompt_sha256"
      " WHERE kind = 'eval' AND task GLOB 'check/text/*'");
  std::set<std::string> seen;
  int64_t n_windows = 0;
  for (; select.step(); ++n_windows) {
    std::istringstream words(select.text(1));
    std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
    ASSERT_GT(all.size(), 20u);
    for (size_t i = 1; i + 1 < all.size(); ++i) {  // the ends may be parts of words
      EXPECT_EQ(all[i][0], select.integer(0) % 2 == 0 ? 'x' : 'y') << all[i];
      EXPECT_TRUE(seen.insert(all[i]).second) << all[i];
    }
  }
  EXPECT_EQ(n_windows, 10);  // two lengths, five windows of each
}

// The names of all fields below `json`, but those of options, hashes and the machine.
void add_fields(const nlohmann::json& json, std::set<std::string>& fields) {
  if (json.is_array()) {
    for (const auto& item : json) add_fields(item, fields);
  }
  if (!json.is_object()) return;
  for (const auto& [name, value] : json.items()) {
    fields.insert(name);
    if (name != "options" && name != "sha256" && name != "made_with") add_fields(value, fields);
  }
}

TEST_F(CheckModel, TheCardHasWhatTheTablesShowAndItsPageDescribesEveryField) {
  const auto done = check({"--format", "json", "--quick", "--badge", (folder_ / "b.svg").string()});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const auto card = nlohmann::json::parse(done.out);
  const auto& compressors = card["models"][0]["compressors"];
  ASSERT_EQ(compressors.size(), 3u);
  EXPECT_EQ(compressors[0]["is_baseline"], true);
  EXPECT_EQ(compressors[1]["name"], "four bits");
  EXPECT_EQ(compressors[1]["options"]["bits"], 4);
  EXPECT_EQ(compressors[2]["verdict"], "breaks");
  EXPECT_EQ(compressors[0]["bits_per_value"], 16);
  const auto& text = compressors[2]["text"];
  EXPECT_EQ(text["windows"], 5);
  EXPECT_GT(text["kl_nats"]["max"], text["kl_nats"]["mean"]);
  EXPECT_NEAR(text["top1_agreement"]["mean"].get<double>(),
              1 - text["top1_flips"].get<double>() / text["tokens"].get<double>(), 1e-12);
  EXPECT_NE(read_file(folder_ / "b.svg").find(">0 of 2 unchanged<"), std::string::npos) << read_file(folder_ / "b.svg");
  std::set<std::string> fields;
  add_fields(card, fields);
  const auto page = read_file(kRoot / "docs/kv-card.md");
  for (const auto& field : fields) EXPECT_NE(page.find("`" + field + "`"), std::string::npos) << field;
}

TEST_F(CheckModel, PairsPutEachTypesKWithEachTypesV) {
  const auto done = check({"--quick", "--pairs", "--set", "compressors=[full, {rtn: {bits: 2}, label: two}]"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.out.find("KL by type of K (rows) and of V (columns)"), std::string::npos) << done.out;
  EXPECT_NE(done.err.find("4 compressors"), std::string::npos) << done.err;
  EXPECT_NE(done.out.find("K: full, V: two"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("K: two, V: full"), std::string::npos) << done.out;
  EXPECT_EQ(db().integer("SELECT count(DISTINCT plugin) FROM cell WHERE kind = 'eval'"), 4);
}

TEST_F(CheckModel, IsAGateWhereALimitIsGiven) {
  const auto over = check({"--quick", "--fail-over", "kl=0.05", "--fail-over", "flips=100"});
  EXPECT_EQ(over.exit_code, 5);
  EXPECT_NE(over.err.find("over: a window on models/demo: kl "), std::string::npos) << over.err;
  EXPECT_EQ(over.err.find("flips"), std::string::npos) << over.err;
  EXPECT_EQ(check({"--quick", "--fail-over", "kl=100"}).exit_code, 0);
  for (const auto& [limit, said] : {std::pair("kll=1", "unknown measure 'kll' (did you mean 'kl'?)"),
                                    std::pair("kl=-1", "'-1' is no limit, expected kl=NUMBER"),
                                    std::pair("kl", "'' is no limit, expected kl=NUMBER")}) {
    const auto refused = check({"--quick", "--fail-over", limit});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.err.find(said), std::string::npos) << refused.err;
  }
}

TEST_F(CheckModel, NamesLengthsAtWhichAMethodCompressedNothing) {
  const auto done = check({"--set", "compressors=[full, window: {sinks: 0, recent: 400}]"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.out.find("not compressed"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("the method compressed no token at that length"), std::string::npos) << done.out;
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
