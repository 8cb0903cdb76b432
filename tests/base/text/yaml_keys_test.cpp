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

// In the order of their lines, those of maps inside included; what must hold between keys is not asked of wrong ones.
TEST(YamlKeys, AllErrorsOfAFileAreSaidAtOnce) {
  const std::string text = "n: 9\nform: c\nlimt: 3\nfst: true\ntree: {depth: -1, dept: 2}\nname: z\n";
  try {
    read(text);
    FAIL();
  } catch (const SeveralErrors& errors) {
    const std::vector<std::string> starts = {"x.yaml:1:4: error: n is '9'",
                                             "x.yaml:2:7: error: form is 'c'",
                                             "x.yaml:3:1: error: unknown key 'limt'",
                                             "x.yaml:4:1: error: unknown key 'fst'",
                                             "x.yaml:5:15: error: tree.depth is '-1'",
                                             "x.yaml:5:19: error: unknown key 'dept'"};
    ASSERT_EQ(errors.messages().size(), starts.size()) << errors.what();
    for (size_t i = 0; i < starts.size(); ++i)
      EXPECT_EQ(errors.messages()[i].find(starts[i]), 0u) << errors.messages()[i];
    EXPECT_EQ(std::string(errors.what()).find(errors.messages()[0] + "; and 5 more errors"), 0u) << errors.what();
  }
  EXPECT_EQ(message_of("{n: 9, name: z}").find("and"), std::string::npos);
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
