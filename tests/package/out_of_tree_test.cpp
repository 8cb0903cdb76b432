// The installed package, from a prefix of the test's own: an author's plugin, from `plugin new` to a row of the table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "support/program.h"

namespace kvc::test {
namespace {

namespace fs = std::filesystem;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A command line in the shell, without the variable that tells a built program where its files are.
Finished shell(const TempFolder& folder, const std::string& command) {
  const auto out = (folder / "out").string();
  ::unsetenv("KVC_ROOT");
  const int status =
      std::system(("cd '" + folder.path().string() + "' && { " + command + "; } > '" + out + "' 2>&1").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), ""};
}

class Package : public testing::Test {
 protected:
  // Installed once for all tests of this program.
  static void SetUpTestSuite() {
    folder = std::make_unique<TempFolder>();
    const auto done = shell(*folder, "cmake --install '" KVC_BINARY_DIR "' --prefix '" + prefix() + "'");
    ASSERT_EQ(done.exit_code, 0) << done.out;
  }
  static void TearDownTestSuite() { folder.reset(); }

  static std::string prefix() { return (*folder / "prefix").string(); }
  static std::string kvc() { return prefix() + "/bin/kvc"; }
  static Finished run(const std::string& command) { return shell(*folder, command); }
  // Writes plugin `name`, and builds it against the package found in `where`.
  static Finished write_and_build(const std::string& name, const std::string& where) {
    return run(kvc() + " plugin new " + name + " && cmake -S " + name + " -B " + name + "/build -DCMAKE_PREFIX_PATH='" +
               where + "' && cmake --build " + name + "/build");
  }

  static std::unique_ptr<TempFolder> folder;
};

std::unique_ptr<TempFolder> Package::folder;

// What is installed finds LibTorch where it was, and that may lie in the build folder.
std::string without(std::string text, const std::string& part) {
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos;) text.erase(at, part.size());
  return text;
}

TEST_F(Package, KnowsNothingOfTheFoldersItWasBuiltIn) {
  int n_files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(prefix())) {
    if (!entry.is_regular_file()) continue;
    ++n_files;
    const auto bytes = without(read_file(entry.path()), KVC_TORCH_PACKAGE);
    EXPECT_FALSE(has(bytes, KVC_SOURCE_DIR)) << entry.path();
    EXPECT_FALSE(has(bytes, KVC_BINARY_DIR)) << entry.path();
  }
  EXPECT_GT(n_files, 50);
}

TEST_F(Package, FindsItsTasksModelAndPlugins) {
  const auto valid = run(kvc() + " validate configs/quickstart.yaml");
  EXPECT_EQ(valid.exit_code, 0) << valid.out;
  EXPECT_TRUE(has(valid.out, "20 cells")) << valid.out;  // 4 tasks, 5 compressors
}

TEST_F(Package, BuildsAnAuthorsPluginThatConformsAndRuns) {
  const auto built = write_and_build("foo", prefix());
  ASSERT_EQ(built.exit_code, 0) << built.out;
  EXPECT_FALSE(has(built.out, "warning")) << built.out;
  const auto verified = run(kvc() + " plugin verify foo/build/foo.so");
  EXPECT_EQ(verified.exit_code, 0) << verified.out;
  EXPECT_TRUE(has(verified.out, "foo conforms: ")) << verified.out;

  folder->write("x.yaml", small_experiment("  - full\n  - foo: {bits: [8, 4]}\n"));
  const auto yaml =
      run("sed -i 's|^plugin_path.*|plugin_path: [foo/build]|' x.yaml && " + kvc() + " run x.yaml --db x.sqlite");
  EXPECT_EQ(yaml.exit_code, 0) << yaml.out;
  EXPECT_TRUE(
      has(yaml.out, "| foo        |    8 |       9.00 |          100.0 |        56.2 |                  56.2 |"))
      << yaml.out;
  EXPECT_TRUE(
      has(yaml.out, "| foo        |    4 |       5.00 |          100.0 |        31.2 |                  31.2 |"))
      << yaml.out;
}

TEST_F(Package, IsFoundInTheBuildFolderToo) {
  const auto built = write_and_build("bar", KVC_BINARY_DIR);
  ASSERT_EQ(built.exit_code, 0) << built.out;
  const auto verified = run(kvc() + " plugin verify bar/build/bar.so");
  EXPECT_EQ(verified.exit_code, 0) << verified.out;
}

TEST_F(Package, IsNotFoundByAnotherCompiler) {
  const auto moved =
      run("cp -r prefix other && sed -i 's/STREQUAL \"[A-Za-z]*[0-9.]*\"/STREQUAL \"Other1.0\"/' "
          "other/lib/cmake/kvc/kvcConfig.cmake && " +
          kvc() +
          " plugin new baz && "
          "cmake -S baz -B baz/build -DCMAKE_PREFIX_PATH=\"$PWD/other\"");
  EXPECT_NE(moved.exit_code, 0);
  EXPECT_TRUE(has(moved.out, ", expected GNU ") && has(moved.out, " or later, like kvc's")) << moved.out;
}

}  // namespace
}  // namespace kvc::test
