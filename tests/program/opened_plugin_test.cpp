// A plugin that misbehaves as it is opened, or that is another than the one that was agreed to, costs a line.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include "program/stored.h"
#include "store/result_store.h"

namespace kvc::test {
namespace {

// The plugins' code runs in the worker.
std::string in_worker(const std::string& compressors, int limit = 3) {
  return small_experiment(compressors, limit) + "isolation: none\n";
}

namespace fs = std::filesystem;

const fs::path kBuilt = fs::path(KVC_BINARY_DIR) / "plugins", kTestPlugins = fs::path(KVC_BINARY_DIR) / "tests/plugins";

int64_t n_lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

// A folder with opens_badly.so, of which the environment says how it opens.
class OpenedPlugin : public testing::Test {
 protected:
  OpenedPlugin() { add(kTestPlugins / "opens_badly.so"); }
  ~OpenedPlugin() override { ::unsetenv("OPENS_BADLY"); }

  void add(const fs::path& plugin) const {
    fs::create_directory(folder / "plugins");
    fs::copy_file(plugin, folder / "plugins" / plugin.filename());
  }
  Finished run(const std::string& compressors, std::vector<std::string> more = {}) const {
    const auto file = folder.write("x.yaml", in_worker(compressors)).string();
    more.insert(more.begin(), {"run", file, "--db", database.string(), "--set",
                               "plugin_path=[" + (folder / "plugins").string() + "]"});
    return run_program(folder, more);
  }
  void expect_refused(const Finished& run, const std::string& part) const {
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_TRUE(has(run.err, part)) << run.err;
    EXPECT_EQ(n_lines(run.err), 1) << run.err;
    EXPECT_FALSE(fs::exists(database));
  }

  TempFolder folder;
  fs::path database = folder / "r.sqlite";
};

TEST_F(OpenedPlugin, ThatEndsItsProcessEndsNoRun) {
  for (const std::string where : {"initializer", "create", "check_model"}) {
    ::setenv("OPENS_BADLY", (where + " exits").c_str(), 1);
    expect_refused(run("  - full\n  - opens_badly\n"),
                   "x.yaml:9:5: error: plugin 'opens_badly': ended the process with exit code 0 while it was opened");
    ::setenv("OPENS_BADLY", (where + " crashes").c_str(), 1);
    expect_refused(run("  - rules: {default: kivi, where: [{layers: [0], use: opens_badly}]}\n"),
                   "plugin 'kivi' or 'opens_badly': crashed by signal 6 (Aborted) while it was opened");
  }
}

TEST_F(OpenedPlugin, ThatIsNoneCostsTheListingItsOwnLine) {
  ::setenv("OPENS_BADLY", "initializer exits", 1);
  folder.write("plugins/junk.so", "junk");
  const auto run = run_program(folder, {"plugins", "--plugin-path", (folder / "plugins").string()});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(has(run.out, "junk.so: not a shared library")) << run.out;
  EXPECT_TRUE(has(run.out, "opens_badly.so: ended the process with exit code 0 while it was opened")) << run.out;
  EXPECT_TRUE(has(run.out, "\nkivi           ") && has(run.out, "\nwindow ")) << run.out;
  EXPECT_EQ(run_program(folder, {"plugins"}).exit_code, 0);
}

TEST_F(OpenedPlugin, ThatIsReplacedBeforeAWorkerOpensItEndsTheRun) {
  ::setenv("OPENS_BADLY", "check_model replaces_itself", 1);
  const auto ended = run("  - opens_badly\n");
  EXPECT_EQ(ended.exit_code, 2) << ended.err;
  EXPECT_TRUE(has(ended.err, "opens_badly.so: SHA-256 is ") && has(ended.err, ": the file was replaced")) << ended.err;
}

TEST_F(OpenedPlugin, ThatIsReplacedInMidRunEndsItAndLosesNothing) {
  ::setenv("OPENS_BADLY", "third_prompt replaces_itself_and_crashes", 1);
  const auto began_with = sha256_file(folder / "plugins/opens_badly.so");
  const auto ended = run("  - opens_badly\n", {"--set", "batch_size=1"});
  EXPECT_EQ(ended.exit_code, 2) << ended.err;
  EXPECT_TRUE(has(ended.err, ", the run began with " + began_with + ": the file was replaced\n")) << ended.err;
  auto store = ResultStore::open_readonly(database);
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM sample WHERE status = 'ok'"), 2);
  EXPECT_EQ(store.database().text("SELECT group_concat(error) FROM sample WHERE status = 'failed'"),
            "the worker was killed by signal 6 (Aborted) inside the plugin");
}

TEST_F(OpenedPlugin, ThatIsNotListedIsRefusedBeforeItsCodeRuns) {
  ::setenv("OPENS_BADLY", "initializer exits", 1);
  const auto sum = sha256_file(kBuilt / "full.so");
  const auto list = folder.write("allowed", sum + "  full.so\n").string();
  const auto file = (folder / "plugins/opens_badly.so").string();
  expect_refused(run("  - full\n  - opens_badly\n", {"--allow-plugins", list}),
                 file + ": SHA-256 " + sha256_file(file) + " is not listed in '" + list + "'");
  EXPECT_EQ(run("  - full\n", {"--allow-plugins", list, "--limit", "1"}).exit_code, 0);
}

TEST_F(OpenedPlugin, ThatAnybodyMayWriteIsRefusedBeforeItsCodeRuns) {
  ::setenv("OPENS_BADLY", "initializer exits", 1);
  fs::permissions(folder / "plugins", fs::perms::others_write, fs::perm_options::add);
  expect_refused(run("  - opens_badly\n"), "opens_badly.so: this plugin is in a world-writable folder");
}

}  // namespace
}  // namespace kvc::test
