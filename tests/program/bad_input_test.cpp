// Bad input gets one line that says what, where, the value and what was allowed, and a non-zero exit.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "support/program.h"

namespace kvc::test {
namespace {

struct BadFile {
  const char* what;
  const char* text;
  const char* message;  // part of the one line
};

const BadFile kBadFiles[] = {
    {"UnknownKey", "model: models/demo\ntasks: [demo/truth]\ncompressors: [full]\nlimt: 3\n",
     "x.yaml:4:1: error: unknown key 'limt' (did you mean 'limit'?)"},
    {"DuplicateKey", "model: models/demo\nmodel: other\ntasks: [demo/truth]\ncompressors: [full]\n",
     "x.yaml:2:1: error:"},
    {"WrongType", "model: models/demo\ntasks: [demo/truth]\ncompressors: [full]\nlimit: many\n", "x.yaml:4:8: error:"},
    {"OutOfRange", "model: models/demo\ntasks: [demo/truth]\ncompressors: [full]\nlimit: 0\n", "x.yaml:4:8: error:"},
    {"ListWhereNoneIsAllowed", "model: models/demo\ntasks: [demo/truth]\ncompressors: [full]\nlimit: [1, 2]\n",
     "x.yaml:4:8: error:"},
    {"UnknownPlugin", "model: models/demo\ntasks: [demo/truth]\ncompressors: [kivvi]\n",
     "x.yaml:3:15: error: unknown compressor 'kivvi' (did you mean 'kivi'?)"},
    {"UnknownOption", "model: models/demo\ntasks: [demo/truth]\ncompressors:\n  - kivi: {bit: 2}\n",
     "unknown option 'bit' (did you mean 'bits'?)"},
    {"OptionOutOfRange", "model: models/demo\ntasks: [demo/truth]\ncompressors:\n  - kivi: {bits: 5}\n", "bits"},
    {"OptionOfWrongType", "model: models/demo\ntasks: [demo/truth]\ncompressors:\n  - kivi: {bits: two}\n", "two"},
    {"UnknownTask", "model: models/demo\ntasks: [demo/thruth]\ncompressors: [full]\n", "(did you mean 'demo/truth'?)"},
    {"MissingModel", "model: models/none\ntasks: [demo/truth]\ncompressors: [full]\n", "models/none"},
    {"GroupThatDoesNotDivide",
     "model: models/demo\ntasks: [demo/truth]\ncompressors:\n  - kivi: {group_size: 48, recent: 48}\n", "48"},
    {"LabelTwice",
     "model: models/demo\ntasks: [demo/truth]\ncompressors:\n  - full:\n    label: a\n  - kivi: {bits: 2}\n    label: "
     "a\n",
     "x.yaml:6:5: error: the label 'a' is there twice, expected one compressor of that label"},
    {"CompressorTwice",
     "model: models/demo\ntasks: [demo/truth]\ncompressors: [full, {kivi: {bits: 2}}, {kivi: {bits: [4, 2]}}]\n",
     "x.yaml:3:40: error: compressor 'kivi bits 2' is there twice, expected each once"},
    {"LabelOfASweep",
     "model: models/demo\ntasks: [demo/truth]\ncompressors:\n  - kivi: {bits: [2, 4], group_size: 32}\n    label: g "
     "{group_size}\n",
     "x.yaml:5:12: error: compressors[0].label is 'g {group_size}' for 2 compressors of a sweep, expected an {option} "
     "in it that distinguishes them"},
    {"LabelInside",
     "model: models/demo\ntasks: [demo/truth]\ncompressors:\n  - chain: [{snapkv: {}, label: a}, full]\n",
     "error: a part of a composition has a label, expected it on the composition"},
    {"LabelWithoutACompressor", "model: models/demo\ntasks: [demo/truth]\ncompressors:\n  - label: a\n",
     "x.yaml:4:5: error: a compressor is a name, or a name with its options; found a map of 0 names"},
    {"NameOfAnotherFolder", "name: ../x\nmodel: models/demo\ntasks: [demo/truth]\ncompressors: [full]\n",
     "x.yaml:1:7: error: name is '../x', expected 1 to 200 bytes without '/', '@' and control characters"},
    {"NameWithANul", "name: \"a\\0b\"\nmodel: models/demo\ntasks: [demo/truth]\ncompressors: [full]\n",
     "x.yaml:1:7: error: a text holds a NUL character, at which others would cut it"},
    {"NameOfTwoLines", "name: \"a\\nb\"\nmodel: models/demo\ntasks: [demo/truth]\ncompressors: [full]\n",
     "x.yaml:1:7: error: name is 'a\\nb', expected 1 to 200 bytes without '/', '@' and control characters"},
    {"NameThatIsEmpty", "name: \"\"\nmodel: models/demo\ntasks: [demo/truth]\ncompressors: [full]\n",
     "x.yaml:1:7: error: name is '', expected 1 to 200 bytes"},
    {"LabelThatMovesTheCursor",
     "model: models/demo\ntasks: [demo/truth]\ncompressors:\n  - full:\n    label: \"a\\e[2J\"\n",
     "x.yaml:5:12: error: compressors[0].label is 'a\\x1b[2J', expected a row's name, without control characters"},
    {"DatabaseWithANul",
     "model: models/demo\ntasks: [demo/truth]\ncompressors: [full]\ndatabase: \"r.sqlite\\0.txt\"\n",
     "x.yaml:4:11: error: a text holds a NUL character"},
    {"SweepOfAMillion",
     "model: models/demo\ntasks: [demo/truth]\ncompressors:\n  - chain:\n"
     "    - tada: {bits: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], recent: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]}\n"
     "    - kivi: {bits: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], recent: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], group_size: [8, "
     "16]}\n",
     "x.yaml:6:7: error: a sweep of 20000 compressors or more, expected at most 10000"},
    {"NoYaml", "model: [\n", "x.yaml:"},
    {"EmptyFile", "", "x.yaml"},
};

class BadExperiment : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadExperiment, IsRefusedInOneLine) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", GetParam().text).string();
  const auto run = run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find(GetParam().message), std::string::npos) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "r.sqlite"));
}

INSTANTIATE_TEST_SUITE_P(All, BadExperiment, ::testing::ValuesIn(kBadFiles),
                         [](const auto& info) { return std::string(info.param.what); });

TEST(BadSetting, IsRefusedByItsName) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", small_experiment("  - full\n")).string();
  for (const std::string setting : {"limit=abc", "nothing.below=3", "compressors.7=full", "limit"}) {
    const auto run = run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string(), "--set", setting});
    EXPECT_EQ(run.exit_code, 2) << setting;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  }
}

// yaml-cpp lets a value hold itself.
TEST(BadSetting, ThatHoldsItselfOrIsNestedWithoutEndIsRefused) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", small_experiment("  - full\n")).string();
  for (const std::string& value : {std::string("&a [*a]"), std::string("&a {b: *a}"), std::string(50'000, '[')}) {
    const auto run = run_program(folder, {"validate", file, "--set", "tasks=" + value});
    EXPECT_EQ(run.exit_code, 2) << run.signal;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  }
}

TEST(BadPath, OfAnyVerbIsRefusedInOneLineAndNotWaitedFor) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", small_experiment("  - full\n")).string();
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("loop", folder / "loop");
  for (const std::string& path : {(folder / "pipe").string(), (folder / "loop").string(), std::string("/dev/zero")}) {
    const std::vector<std::vector<std::string>> commands = {
        {"run", file, "--db", path},
        {"run", path},
        {"validate", path},
        {"table", "summary", "--db", path},
        {"status", path},
        {"merge", path, "--out", (folder / "m.sqlite").string()},
        {"import", "lm-eval", path, "--db", (folder / "i.sqlite").string()},
        {"score", "gsm8k/shot5", path},
        {"export", "csv", "--db", path, "-o", (folder / "o.csv").string()},
        {"run", "--plan", path, "--shard", "0/1"},
        {"generate", "models/demo", "--prompt-file", path},
        {"generate", path, "--prompt", "x"},
        {"model", "show", path},
        {"apply", "full", "--input", path, "--output", (folder / "o.safetensors").string()},
        {"plugin", "verify", path},
        {"run", file, "--db", (folder / "r.sqlite").string(), "--set", "tasks=['" + path + "']"},
        {"run", file, "--db", (folder / "r.sqlite").string(), "--set", "model=" + path},
    };
    for (const auto& command : commands) {
      const auto run = Program(folder, command, "", {"/usr/bin/timeout", "60"}).wait();
      const auto words = ::testing::PrintToString(command);
      EXPECT_NE(run.exit_code, 0) << words;
      EXPECT_NE(run.exit_code, 124) << words << " waits";
      EXPECT_EQ(run.signal, 0) << words;
      EXPECT_NE(run.err, "") << words;
    }
  }
}

TEST(BadPath, IsNamedAsTheUserNamedIt) {
  TempFolder folder;
  EXPECT_EQ(run_program(folder, {"run", "configs/none.yaml"}).err,
            "kvc: cannot read 'configs/none.yaml': No such file or directory\n");
}

TEST(ExperimentName, IsAFileOfConfigs) {
  TempFolder folder;
  const auto valid = run_program(folder, {"validate", "quickstart"});
  EXPECT_EQ(valid.exit_code, 0) << valid.err;
  const auto unknown = run_program(folder, {"run", "quikstart"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.err.rfind("kvc: unknown experiment 'quikstart' (did you mean 'quickstart'?)", 0), 0u)
      << unknown.err;
}

TEST(BadModel, IsRefusedBeforeAnythingIsShown) {
  TempFolder folder;
  const auto model = folder / "mamba";
  std::filesystem::create_directory(model);
  folder.write("mamba/config.json", R"({"architectures": ["MambaForCausalLM"], "model_type": "mamba"})");
  const auto run = run_program(folder, {"model", "show", model.string()});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, ::testing::HasSubstr("Mamba"));
}

// A file may be for another machine, so these are notes.
TEST(Validate, SaysWhatThisMachineHasNot) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", small_experiment("  - full\n")).string();
  for (const std::vector<std::string>& verb :
       {std::vector<std::string>{"validate", file}, {"run", file, "--dry-run"}}) {
    auto words = verb;
    words.insert(words.end(), {"--set", "workers=256", "device=cuda:99"});
    const auto run = run_program(folder, words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.err, ::testing::HasSubstr("kvc: note: workers is 256 and threads 1; this machine has "));
    EXPECT_THAT(run.err, ::testing::HasSubstr("kvc: note: device 'cuda:99': "));
  }
}

TEST(BadCommandLine, ExitsWithTwo) {
  TempFolder folder;
  EXPECT_EQ(run_program(folder, {"rnu"}).exit_code, 2);
  EXPECT_EQ(run_program(folder, {"run"}).exit_code, 2);
  EXPECT_EQ(run_program(folder, {"run", "x.yaml", "--limitt", "3"}).exit_code, 2);
  EXPECT_EQ(run_program(folder, {"generate", "models/demo", "--max_new_tokens", "0", "--prompt", "x"}).exit_code, 2);
}

TEST(BadDatabase, IsRefusedWithTheEnvironmentsExitCode) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", small_experiment("  - full\n")).string();
  const auto not_a_database = folder.write("r.sqlite", "this is text, and a good deal of it, but no database").string();
  const auto run = run_program(folder, {"run", file, "--db", not_a_database});
  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_EQ(read_file(not_a_database), "this is text, and a good deal of it, but no database");
}

}  // namespace
}  // namespace kvc::test
