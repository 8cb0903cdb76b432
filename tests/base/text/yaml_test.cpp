#include <gtest/gtest.h>

#include <functional>

#include "support/message_of.h"
#include "text/utf8.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

using test::message_of;

struct ReadCase {
  std::string text;
  std::function<void(YamlMap&)> read;
  std::string message;
};

TEST(Yaml, RefusesBadValuesInOneLine) {
  const ReadCase cases[] = {
      {"bits: four\n", [](YamlMap& m) { m.required_integer("bits", 1, 8); },
       "x.yaml:1:7: error: bits is 'four', expected an integer from 1 to 8"},
      {"a: 1\nbits: 9\n", [](YamlMap& m) { m.required_integer("bits", 1, 8); },
       "x.yaml:2:7: error: bits is '9', expected an integer from 1 to 8"},
      {"bits: \"4\"\n", [](YamlMap& m) { m.required("bits").integer(); },
       "x.yaml:1:7: error: bits is '4', expected an integer"},
      {"bits: 4.0\n", [](YamlMap& m) { m.required("bits").integer(1); },
       "x.yaml:1:7: error: bits is '4.0', expected an integer of at least 1"},
      {"bits: 99999999999999999999\n", [](YamlMap& m) { m.required("bits").integer(); },
       "x.yaml:1:7: error: bits is '99999999999999999999', expected an integer"},
      {"bits: [4]\n", [](YamlMap& m) { m.required("bits").integer(); },
       "x.yaml:1:7: error: bits is a sequence, expected an integer"},
      {"bits:\n", [](YamlMap& m) { m.required("bits").integer(); },
       "x.yaml:1:1: error: bits is nothing, expected an integer"},
      {"x: nan\n", [](YamlMap& m) { m.optional_real("x", 0, 1, 0); },
       "x.yaml:1:4: error: x is 'nan', expected a number from 0 to 1"},
      {"x: 1.5\n", [](YamlMap& m) { m.optional_real("x", 0, 1, 0); },
       "x.yaml:1:4: error: x is '1.5', expected a number from 0 to 1"},
      {"on: yes\n", [](YamlMap& m) { m.optional_boolean("on", false); },
       "x.yaml:1:5: error: on is 'yes', expected true or false"},
      {"name: no\n", [](YamlMap& m) { m.required_string("name"); },
       "x.yaml:1:7: error: name is 'no', expected a string (write it in quotes)"},
      {"name: {a: 1}\n", [](YamlMap& m) { m.required_string("name"); },
       "x.yaml:1:7: error: name is a map, expected a string"},
      {"stop: [a, [b]]\n", [](YamlMap& m) { m.optional_strings("stop"); },
       "x.yaml:1:11: error: stop[1] is a sequence, expected a string"},
      {"data: 3\n", [](YamlMap& m) { m.required("data").map(); }, "x.yaml:1:7: error: data is '3', expected a map"},
      {"list: 3\n", [](YamlMap& m) { m.required("list").sequence(); },
       "x.yaml:1:7: error: list is '3', expected a sequence"},
      {"way: fusd\n",
       [](YamlMap& m) {
         m.required_choice("way", {"auto", "fused"});
       },
       "x.yaml:1:6: error: way is 'fusd' (did you mean 'fused'?), allowed: auto, fused"},
      {"bit: 4\n", [](YamlMap& m) { m.required("bits"); }, "x.yaml:1:1: error: missing key 'bits' (is it 'bit'?)"},
      {"a: {b: 1}\n", [](YamlMap& m) { m.required("a").map().required("zzzzzz"); },
       "x.yaml:1:4: error: missing key 'zzzzzz' in a"},
      {"a:\n  - {deep: {bits: x}}\n",
       [](YamlMap& m) { m.required("a").sequence()[0].map().required("deep").map().required("bits").integer(); },
       "x.yaml:2:19: error: a[0].deep.bits is 'x', expected an integer"},
      {"bits: 4\nbit: 3\n",
       [](YamlMap& m) {
         m.required("bits");
         m.has("group");
         m.reject_unknown();
       },
       "x.yaml:2:1: error: unknown key 'bit' (did you mean 'bits'?); known: bits, group"},
      {"name: \"a\\nb\\x01\"\n", [](YamlMap& m) { m.required("name").integer(); },
       "x.yaml:1:7: error: name is 'a\\nb\\x01', expected an integer"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(message_of([&] {
                auto map = parse_yaml("x.yaml", c.text).map();
                c.read(map);
              }),
              c.message);
  }
}

TEST(Yaml, RefusesBadDocumentsInOneLine) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "x.yaml:1:1: error: the file is empty"},
      {"# only a comment\n", "x.yaml:1:1: error: the file is empty"},
      {"a: 1\nb: {c: 1, d: 2, c: 3}\n", "x.yaml:2:17: error: duplicate key 'c'"},
      {"a: 1\na: 1\n", "x.yaml:2:1: error: duplicate key 'a'"},
      {"[a, b]: 1\n", "x.yaml:1:1: error: a key is a sequence, expected a string"},
      {"a: 1\n---\nb: 2\n", "x.yaml:1:1: error: 2 YAML documents, expected one"},
      {"a: \xff\n", "x.yaml:1:4: error: not UTF-8 text"},
      {std::string("a: b\0c\n", 7), "x.yaml:1:5: error: not UTF-8 text"},
      {"a: 1\n b: 2\n", "x.yaml:2:3: error: not YAML: illegal map value"},
      {"a: &x [*x]\n", "x.yaml:1:4: error: nested deeper than 32 levels"},
      {std::string(40, '[') + std::string(40, ']'), "x.yaml:1:33: error: nested deeper than 32 levels"},
      {",a", "x.yaml:1:1: error: not YAML: no value can begin here"},
      {"\"\\\x01\"", "x.yaml:1:4: error: not YAML: unknown escape character:  "},
      {std::string((1 << 20) + 1, ' '), "x.yaml:1:1: error: the file has 1048577 bytes, allowed: 1048576"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(message_of([&] { parse_yaml("x.yaml", text); }), message);
}

TEST(Yaml, CountsAliasesEachTime) {
  std::string text = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (char name = 'b'; name < 'j'; ++name) {  // ten to the ninth values in nine lines
    text += std::string(1, name) + ": &" + name + " [";
    for (int i = 0; i < 10; ++i) text += std::string(i ? ", *" : "*") + static_cast<char>(name - 1);
    text += "]\n";
  }
  EXPECT_NE(message_of([&] { parse_yaml("x.yaml", text); }).find("more than 10000 values"), std::string::npos);
}

TEST(Yaml, ReadsWhatIsThere) {
  auto map = parse_yaml("x.yaml", "n: -3\nx: 1e-3\nb: true\ns: \"no\"\nl: [a, 'b c']\nnum: 07\nempty: ~\n").map();
  EXPECT_EQ(map.required("n").integer(), -3);
  EXPECT_EQ(map.required("x").real(), 1e-3);
  EXPECT_TRUE(map.required("b").boolean());
  EXPECT_EQ(map.required_string("s"), "no");
  EXPECT_EQ(map.optional_strings("l"), (std::vector<std::string>{"a", "b c"}));
  EXPECT_EQ(map.required_string("num"), "07");
  EXPECT_TRUE(map.required("empty").is_null());
  EXPECT_EQ(map.optional_integer("none", 0, 1, 7), 7);
  EXPECT_EQ(map.optional_string("none", "x"), "x");
  EXPECT_NO_THROW(map.reject_unknown());
}

TEST(Yaml, AKeyOfStrangersKeepsTheMessageOneLine) {
  const auto refusal = [](const std::string& key) {
    return message_of([&] { parse_yaml("x.yaml", "\"" + key + "\": x").map().entries()[0].second.integer(); });
  };
  EXPECT_EQ(refusal("a\\n\\ab"), "x.yaml:1:11: error: a  b is 'x', expected an integer");
  EXPECT_LT(refusal(std::string(100'000, 'a')).size(), 4200u);
}

TEST(Yaml, AFileThatIsNotThereIsNamed) {
  EXPECT_EQ(message_of([] { load_yaml("/no/such.yaml"); }), "cannot read '/no/such.yaml': No such file or directory");
}

TEST(Yaml, OfAHundredThousandLevelsIsRefusedInOneLine) {
  constexpr size_t kLevels = 100'000;
  std::string maps, dashes;
  for (size_t i = 0; i < kLevels; ++i) maps += "{a: ", dashes += "- ";
  const std::string closed = std::string(kLevels, '[') + std::string(kLevels, ']');
  const std::vector<std::string> texts = {
      "a: " + closed, "a: " + std::string(kLevels, '['), maps, dashes + "x", "&a [*a]", "&a {b: {c: *a}}"};
  for (const auto& text : texts) {
    const auto message = message_of([&] { parse_yaml("x.yaml", text); });
    EXPECT_NE(message.find("error: nested deeper than 32 levels"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_EQ(message_of([&] { parse_yaml_value("x.yaml", text); }), message);
  }
}

TEST(Yaml, RefusesANulInKeysAndTexts) {
  constexpr const char* kWhat = "error: a text holds a NUL character, at which others would cut it";
  for (const auto& [text, place] : std::initializer_list<std::pair<const char*, const char*>>{
           {"name: \"a\\0b\"\n", "1:7"}, {"a: {b: [x, \"\\x00\"]}\n", "1:12"}, {"\"a\\u0000\": 1\n", "1:1"}}) {
    EXPECT_EQ(message_of([&] { parse_yaml("x.yaml", text); }), concat("x.yaml:", place, ": ", kWhat));
  }
}

TEST(Yaml, OfOneValueMayBeNothing) {
  EXPECT_TRUE(parse_yaml_value("x", "").is_null());
  EXPECT_TRUE(parse_yaml_value("x", "null").is_null());
  EXPECT_EQ(parse_yaml_value("x", "3").integer(), 3);
  EXPECT_EQ(message_of([] { parse_yaml_value("--set 'a=[1'", "[1"); }).substr(0, 32),
            "--set 'a=[1':1:1: error: not YAM");
}

}  // namespace
}  // namespace kvc
