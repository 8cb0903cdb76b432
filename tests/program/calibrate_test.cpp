// `kvc calibrate` and what a run does with its file, through the built program.
#include <gtest/gtest.h>

#include <algorithm>

#include "program/stored.h"

namespace kvc::test {
namespace {

const std::string kTexts = KVC_SOURCE_DIR "/prompts/demo/";

Finished calibrate(const TempFolder& folder, const std::string& file, const std::string& options,
                   const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"calibrate", "--model", "models/demo",        "--plugin",           options, "-o",
                                     file,        "--texts", kTexts + "truth.txt", kTexts + "lookup.txt"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(folder, arguments);
}

std::string experiment(const std::string& options) {
  return "name: c\nmodel: models/demo\ntasks: [demo/lookup]\nlimit: 2\ncompressors:\n  - kvquant: " + options + "\n";
}

// The error of `kvc validate` on an experiment whose folder holds the calibrations.
std::string refusal(const TempFolder& folder, const std::string& options) {
  const auto run = run_program(folder, {"validate", folder.write("x.yaml", experiment(options)).string()});
  EXPECT_EQ(run.exit_code, run.err.empty() ? 0 : 2);
  EXPECT_LE(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  return run.err;
}

TEST(Calibrate, WritesAFileThatARunUsesFromItsOwnFolder) {
  TempFolder folder;
  const auto made = calibrate(folder, (folder / "c.safetensors").string(), "kvquant: {sparsity: 0.02}");
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_TRUE(has(made.out, R"(kvquant {"first_tokens":1,"sparsity":0.02} from 2 pieces)")) << made.out;
  const auto again = calibrate(folder, (folder / "d.safetensors").string(), "kvquant: {sparsity: 0.02}");
  EXPECT_EQ(read_file(folder / "c.safetensors"), read_file(folder / "d.safetensors")) << again.err;
  const auto config = folder.write(
      "x.yaml", experiment("{levels: non_uniform, sparsity: 0.02, bits: [2, 4], calibration: c.safetensors}"));
  const auto run = run_program(folder, {"run", config.string(), "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(has(run.err, "4 samples run now (0 failed), 0 already stored")) << run.err;
  // The content is in a cell's key, the path is not.
  std::filesystem::rename(folder / "c.safetensors", folder / "e.safetensors");
  const auto moved = folder.write(
      "y.yaml", experiment("{levels: non_uniform, sparsity: 0.02, bits: [2, 4], calibration: e.safetensors}"));
  const auto rerun = run_program(folder, {"run", moved.string(), "--db", (folder / "r.sqlite").string()});
  EXPECT_TRUE(has(rerun.err, "0 samples run now (0 failed), 4 already stored")) << rerun.err;
}

TEST(Calibrate, WritesEveryFileThatAnExperimentNames) {
  TempFolder folder;
  const auto config = folder.write("x.yaml",
                                   "name: c\nmodel: models/demo\ntasks: [demo/lookup]\ncompressors:\n  - full\n"
                                   "  - kvquant: {bits: [2, 3], calibration: a.safetensors}\n"
                                   "  - kvquant: {sparsity: 0, calibration: b.safetensors}\n");
  const auto made = run_program(folder, {"calibrate", config.string(), "--fisher", "--length", "64", "--samples", "3",
                                         "--texts", kTexts + "truth.txt"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_TRUE(has(made.out, "from 3 pieces, 192 tokens, weighted by gradients")) << made.out;
  EXPECT_TRUE(std::filesystem::exists(folder / "a.safetensors") && std::filesystem::exists(folder / "b.safetensors"));
  EXPECT_EQ(run_program(folder, {"validate", config.string()}).exit_code, 0);
}

TEST(Calibrate, HandsOutQueriesWithAndWithoutGradients) {
  TempFolder folder;
  const auto config = folder.write("x.yaml",
                                   "name: c\nmodel: models/demo\ntasks: [demo/lookup]\nlimit: 1\ncompressors:\n"
                                   "  - oscar: {sinks: 4, recent: 8, calibration: o.safetensors}\n");
  for (const auto& more : {std::vector<std::string>{}, {"--fisher", "--length", "128"}}) {
    std::vector<std::string> arguments{"calibrate", config.string(), "--texts", kTexts + "truth.txt"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto made = run_program(folder, arguments);
    ASSERT_EQ(made.exit_code, 0) << made.err;
    EXPECT_TRUE(has(made.out, "o.safetensors: oscar {} from ")) << made.out;
  }
  const auto run = run_program(folder, {"run", config.string(), "--db", (folder / "r.sqlite").string()});
  EXPECT_TRUE(has(run.err, "1 samples run now (0 failed)")) << run.err;
}

TEST(Calibrate, RefusesWhatFitsNotTogetherBeforeTheRun) {
  TempFolder folder;
  const auto made = calibrate(folder, (folder / "c.safetensors").string(), "kvquant");
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(refusal(folder, "{levels: non_uniform, calibration: c.safetensors}"), "");
  EXPECT_TRUE(has(refusal(folder, "{levels: non_uniform}"),
                  "x.yaml:6:5: error: kvquant: levels non_uniform need a calibration"));
  EXPECT_TRUE(has(refusal(folder, "{calibration: d.safetensors}"), "no such file"));
  EXPECT_TRUE(has(refusal(folder, "{calibration: x.yaml}"), "x.yaml"));
  EXPECT_TRUE(
      has(refusal(folder, "{calibration: c.safetensors, sparsity: 0.02}"), "made with sparsity 0.01, here it is 0.02"));
  EXPECT_TRUE(has(refusal(folder, "{calibration: " KVC_SOURCE_DIR "/models/demo/model.safetensors}"),
                  "format 'pt', expected 'kvc calibration 1', a file written by kvc calibrate"));
}

TEST(Calibrate, RefusesAnotherModelsFile) {
  TempFolder folder;
  std::filesystem::copy(KVC_SOURCE_DIR "/models/demo", folder / "other");
  auto config = read_file(folder / "other/config.json");
  config.replace(config.find("10000.0"), 7, "10001.0");
  folder.write("other/config.json", config);
  const auto made = run_program(folder, {"calibrate", "--model", (folder / "other").string(), "--plugin", "kvquant",
                                         "-o", (folder / "c.safetensors").string(), "--texts", kTexts + "truth.txt"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_TRUE(has(refusal(folder, "{calibration: c.safetensors}"), "made for another model"));
}

TEST(Calibrate, RefusesBadInputInOneLine) {
  TempFolder folder;
  const auto file = (folder / "c.safetensors").string();
  const auto refused = [&](const Finished& run, const std::string& part) {
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_TRUE(has(run.err, part)) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    EXPECT_FALSE(std::filesystem::exists(file));
  };
  refused(calibrate(folder, file, "kivi"), "'kivi' needs no calibration");
  refused(calibrate(folder, file, "kvquant", {"--length", "5000"}), "pieces of 5000 tokens, the model has");
  refused(calibrate(folder, file, "kvquant", {"--length", "2"}), "pieces of 2 tokens, expected more than 2");
  refused(calibrate(folder, file, "kvquant: {first_tokens: 4000}"), "the texts have no tokens after the first 4000");
  refused(calibrate(folder, file, "kvquant: {sparsity: [0, 0.1]}"), "expected one file for each");
  refused(calibrate(folder, file, "kvquant", {"--texts", "/no/such/text"}), "/no/such/text");
  refused(calibrate(folder, file, "kvquant", {"--texts", folder.write("empty.txt", "").string()}), "has no tokens");
  refused(run_program(folder, {"calibrate", "--model", "models/demo", "--texts", kTexts + "truth.txt"}),
          "expected --model, --plugin and -o together");
}

}  // namespace
}  // namespace kvc::test
