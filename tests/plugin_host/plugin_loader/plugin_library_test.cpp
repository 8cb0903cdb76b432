#include "plugin_loader/plugin_library.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/message_of.h"
#include "support/temp_folder.h"
#include "text/files.h"

namespace kvc {
namespace {

const std::filesystem::path kPlugins = std::filesystem::path(KVC_BINARY_DIR) / "plugins";
const std::filesystem::path kBroken = std::filesystem::path(KVC_BINARY_DIR) / "tests/plugins";

std::string refusal(const std::filesystem::path& file) {
  return test::message_of([&] { PluginLibrary library(file); });
}

std::string make_refusal(const PluginLibrary& plugin, const char* options) {
  return test::message_of([&] { plugin.make(nlohmann::json::parse(options)); });
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(PluginLibrary, OpensAPluginAndKnowsItsFile) {
  const PluginLibrary full(kPlugins / "full.so");
  EXPECT_STREQ(full.descriptor().name, "full");
  EXPECT_EQ(full.sha256(), sha256_hex(read_file(kPlugins / "full.so")));
}

TEST(PluginLibrary, RefusesWhatIsNoPluginInOneLine) {
  EXPECT_TRUE(has(refusal(kPlugins / "absent.so"), "absent.so: no such plugin file"));
  const test::TempFolder folder;
  const auto text = folder.write("text.so", "not a library");
  EXPECT_EQ(refusal(text),
            concat(text.string(), ": not a shared library that can be opened: ", text.string(), ": file too short"));
  EXPECT_TRUE(has(refusal(kBroken / "not_a_plugin.so"), "has no symbol kvc_plugin"))
      << refusal(kBroken / "not_a_plugin.so");
}

TEST(PluginLibrary, NamesBothValuesWhereTheyDiffer) {
  const auto abi = refusal(kBroken / "wrong_abi.so");
  EXPECT_TRUE(has(abi, concat("ABI version ", kAbiVersion + 41)) && has(abi, concat("has ", kAbiVersion))) << abi;
  const auto build = refusal(kBroken / "wrong_build_id.so");
  EXPECT_TRUE(has(build, "another compiler") && has(build, KVC_BUILD_ID)) << build;
  const auto name = refusal(kBroken / "wrong_name.so");
  EXPECT_TRUE(has(name, "'another_name'") && has(name, "'wrong_name'")) << name;
}

TEST(PluginLibrary, DescribesOptions) {
  const auto options = PluginLibrary(kPlugins / "kivi.so").describe_options();
  ASSERT_EQ(options.size(), 4u);
  EXPECT_EQ(options[0].name, "bits");
  EXPECT_EQ(options[0].default_value, 2);
  EXPECT_EQ(options[0].allowed, "2, 4, 8");
  EXPECT_EQ(options[2].allowed, "0 and more");
  EXPECT_EQ(options[3].type, "choice");
}

TEST(PluginLibrary, ResolvesOptionsToOneCanonicalObject) {
  const PluginLibrary kivi(kPlugins / "kivi.so");
  nlohmann::json resolved;
  EXPECT_EQ(kivi.make(nullptr, &resolved)->bits(), 2);
  EXPECT_EQ(resolved.dump(), R"({"bits":2,"group_size":32,"precision":"real","recent":128})");
  EXPECT_EQ(kivi.make({{"bits", 4}, {"recent", 64}}, &resolved)->bits(), 4);
  EXPECT_EQ(resolved.dump(), R"({"bits":4,"group_size":32,"precision":"real","recent":64})");
}

TEST(PluginLibrary, RefusesOptionsByNameTypeAndRange) {
  const PluginLibrary kivi(kPlugins / "kivi.so");
  EXPECT_TRUE(has(make_refusal(kivi, R"({"bit": 4})"), "did you mean 'bits'")) << make_refusal(kivi, R"({"bit": 4})");
  EXPECT_TRUE(has(make_refusal(kivi, R"({"bits": 3})"), "option 'bits' is 3, allowed: 2, 4, 8"));
  EXPECT_TRUE(has(make_refusal(kivi, R"({"bits": "4"})"), R"(option 'bits' is "4", allowed: an integer)"));
  EXPECT_TRUE(has(make_refusal(kivi, R"({"recent": -1})"), "option 'recent' is -1, allowed: 0 and more"));
  EXPECT_TRUE(has(make_refusal(kivi, R"({"precision": "fp8"})"), "allowed: real, exact"));
  EXPECT_TRUE(has(make_refusal(kivi, R"({"recent": 48})"), "recent 48 is not a multiple of group_size 32"));
  EXPECT_TRUE(has(make_refusal(kivi, "[2]"), "expected name: value pairs"));
  const PluginLibrary gear(kPlugins / "gear.so");
  EXPECT_TRUE(has(make_refusal(gear, R"({"sparsity": 1.5})"), "option 'sparsity' is 1.5, allowed: 0 to 1"));
}

TEST(FindPlugins, ListsEachFolderByName) {
  const auto found = find_plugins({kPlugins, kBroken});
  const auto at = [&](const char* name) {
    return std::find_if(found.begin(), found.end(), [&](const auto& file) { return file.stem() == name; }) -
           found.begin();
  };
  EXPECT_LT(at("full"), at("kivi"));
  EXPECT_LT(at("token_group"), at("crashes"));
  EXPECT_THROW(find_plugins({"/nowhere"}), Error);
}

}  // namespace
}  // namespace kvc
