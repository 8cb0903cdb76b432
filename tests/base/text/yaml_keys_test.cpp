// A key's declaration is what a file is read by and what a page says.
#include "text/yaml_keys.h"

#include <gtest/gtest.h>

namespace kvc {
namespace {

struct Settings {
  std::string name = "mine", form = "a";
  std::optional<int64_t> limit;
  int64_t n = 4;
  double share = 0.5;
  bool fast = true;
  std::vector<std::string> words = {"x", "y"};
  int64_t depth = 0, bytes = 0;
};

void declare(YamlKeys& keys, Settings& settings) {
  keys.text({"name", "who", kRequired}, settings.name);
  keys.choice({"form", "which"}, settings.form, {"a", "b"});
  keys.integer({"limit", "how many", false, "all"}, settings.limit, 1);
  keys.integer({"n", "of them"}, settings.n, 1, 8);
  keys.real({"share", "of it"}, settings.share, 0, 1);
  keys.boolean({"fast", "or slow"}, settings.fast);
  keys.texts({"words", "said"}, settings.words);
  keys.map({"tree", "below"}, [&](YamlKeys& inner) { inner.integer({"depth", "of the tree"}, settings.depth, 0); });
  keys.other({"bytes", "held"}, "2GB", [&](const YamlValue& value) { settings.bytes = value.integer(); });
}

Settings read(const std::string& text) {
  Settings settings;
  read_keys(parse_yaml("x.yaml", text).map(), [&](YamlKeys& keys) { declare(keys, settings); });
  return settings;
}

std::string message_of(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(YamlKeys, AreReadByTheirDeclaration) {
  const auto all =
      read("{name: z, form: b, limit: 3, n: 8, share: 1, fast: false, words: [w], tree: {depth: 2}, bytes: 7}");
  EXPECT_EQ(all.name + all.form, "zb");
  EXPECT_EQ(all.limit, 3);
  EXPECT_EQ(all.n, 8);
  EXPECT_EQ(all.share, 1);
  EXPECT_FALSE(all.fast);
  EXPECT_EQ(all.words, std::vector<std::string>{"w"});
  EXPECT_EQ(all.depth, 2);
  EXPECT_EQ(all.bytes, 7);
}

TEST(YamlKeys, KeepTheirDefaultWhereTheFileHasNone) {
  const auto none = read("name: z");
  EXPECT_EQ(none.limit, std::nullopt);
  EXPECT_EQ(none.n, 4);
  EXPECT_TRUE(none.fast);
  EXPECT_EQ(none.words.size(), 2U);
}

TEST(YamlKeys, AreRefusedAsTheirDeclarationSays) {
  EXPECT_EQ(message_of("{n: 1}"), "x.yaml:1:1: error: missing key 'name'");
  EXPECT_EQ(message_of("{name: z, n: 9}"), "x.yaml:1:14: error: n is '9', expected an integer from 1 to 8");
  EXPECT_EQ(message_of("{name: z, tree: {dept: 1}}"),
            "x.yaml:1:18: error: unknown key 'dept' (did you mean 'depth'?); known: depth");
  EXPECT_EQ(
      message_of("{name: z, shore: 1}"),
      "x.yaml:1:11: error: unknown key 'shore' (did you mean 'share'?); known: name, form, limit, n, share, fast, "
      "words, tree, bytes");
}

TEST(YamlKeys, AreListedWithFormDefaultAndHelp) {
  Settings settings;
  KeyList list;
  declare(list, settings);
  std::string text;
  for (const auto& line : list.lines()) {
    text += concat(line.name, " | ", line.form, " | ", line.otherwise, " | ", line.help, "\n");
  }
  EXPECT_EQ(text,
            "name | text | required | who\n"
            "form | a, b | a | which\n"
            "limit | integer, at least 1 | all | how many\n"
            "n | integer, 1 to 8 | 4 | of them\n"
            "share | number, 0 to 1 | 0.5 | of it\n"
            "fast | true or false | true | or slow\n"
            "words | list of texts | x, y | said\n"
            "tree | map |  | below\n"
            "tree.depth | integer, at least 0 | 0 | of the tree\n"
            "bytes | 2GB |  | held\n");
}

}  // namespace
}  // namespace kvc
