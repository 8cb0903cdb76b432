// What a user meets who points at a folder that is not what is read, and what is remembered of one that is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/program.h"

namespace kvc::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ModelFolder : public testing::Test {
 protected:
  ModelFolder() {
    fs::create_directory(model());
    for (const char* name : {"config.json", "generation_config.json", "tokenizer.json", "model.safetensors"}) {
      fs::copy(fs::path(KVC_SOURCE_DIR) / "models" / "demo" / name, model() / name);
    }
    ::setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
  }
  ~ModelFolder() override { ::unsetenv("XDG_CACHE_HOME"); }

  fs::path model() const { return folder_ / "m"; }
  Finished run(std::vector<std::string> more) {
    const auto file = folder_.write(
        "x.yaml", "model: " + model().string() + "\ntasks: [demo/truth]\nlimit: 1\ncompressors: [full]\n");
    std::vector<std::string> arguments = {"run", file.string(), "--db", (folder_ / "r.sqlite").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(folder_, arguments);
  }
  void expect_refused(const std::vector<std::string>& words) {
    const auto finished = run({});
    EXPECT_EQ(finished.exit_code, 2);
    EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
    for (const auto& word : words) EXPECT_THAT(finished.err, HasSubstr(word));
    EXPECT_FALSE(fs::exists(folder_ / "r.sqlite"));
  }

  TempFolder folder_;
};

TEST_F(ModelFolder, WithAPickleIsRefusedBeforeAnythingRuns) {
  fs::rename(model() / "model.safetensors", model() / "pytorch_model.bin");
  expect_refused({"'pytorch_model.bin' is a pickle", "save_pretrained('" + model().string() + "')"});
}

TEST_F(ModelFolder, WithoutConfigOrWeightsIsRefusedBeforeAnythingRuns) {
  fs::remove(model() / "model.safetensors");
  expect_refused({"neither model.safetensors nor"});
  fs::remove(model() / "config.json");
  expect_refused({"no config.json"});
}

// The hash of a large file is taken from memory, and with --verify from the file.
TEST_F(ModelFolder, IsHashedAgainOnlyWhenAsked) {
  const auto large = folder_.write("m/other.safetensors", "");
  fs::resize_file(large, uintmax_t{80} << 20);
  fs::last_write_time(large, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(run({"--dry-run"}).exit_code, 0);
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder_ / "cache" / "kvc" / "sha256"))
    entries.push_back(entry.path());
  ASSERT_EQ(entries.size(), 1u);
  const auto written = read_file(entries[0]);
  const auto written_at = fs::last_write_time(entries[0]);
  EXPECT_EQ(run({"--dry-run"}).exit_code, 0);
  EXPECT_EQ(fs::last_write_time(entries[0]), written_at);
  EXPECT_EQ(run({"--dry-run", "--verify"}).exit_code, 0);
  EXPECT_GT(fs::last_write_time(entries[0]), written_at);
  EXPECT_EQ(read_file(entries[0]), written);
}

}  // namespace
}  // namespace kvc::test
