#include "text/jsonl.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace kvc {
namespace {

class JsonlTest : public testing::Test {
 protected:
  std::string read(const std::string& bytes, TextEncoding encoding = TextEncoding::kUtf8) {
    const auto path = folder_.write("t.jsonl", bytes);
    std::string seen;
    const auto message = test::message_of([&] {
      read_jsonl(
          path, [&](int64_t line, const nlohmann::json& value) { seen += concat(line, "=", value.dump(), " "); }, {},
          encoding);
    });
    return message == "no error" ? seen : message.substr(path.string().size());
  }
  test::TempFolder folder_;
};

TEST_F(JsonlTest, NumbersLinesAndSkipsBlankOnes) {
  EXPECT_EQ(read("{\"a\":1}\r\n\n[2]\n \t\n\"\\u00e9\""), "1={\"a\":1} 3=[2] 5=\"\xC3\xA9\" ");
  EXPECT_EQ(read(""), "");
}

TEST_F(JsonlTest, NamesLineAndColumn) {
  EXPECT_EQ(read("{}\n{\"a\":}\n").find(":2:6: error: not JSON: syntax error while parsing value"), 0u);
  EXPECT_EQ(read("{}\n{\"a\":\"\xC3\"}\n"), ":2:7: error: not well-formed UTF-8");
  EXPECT_EQ(read("{\"a\": \"\\ud800\"}").find(":1:14: error: not JSON: "), 0u);
  EXPECT_EQ(read("{}\n{\"a\": 1e999}"), ":2:1: error: JSON: number overflow parsing '1e999'");
  EXPECT_LT(read("{\"a\": \"" + std::string(100'000, 'x')).size(), 4200u);
  EXPECT_EQ(read("{\"a\": 1} 2").find(":1:10: error: not JSON: "), 0u);
}

TEST_F(JsonlTest, ReadsOneArrayAsItsItems) {
  EXPECT_EQ(read("[{\"a\":1},\n {\"b\": [2, \"],\\\"\"]}\n ]\n"), "1={\"a\":1} 2={\"b\":[2,\"],\\\"\"]} ");
  EXPECT_EQ(read("\n [\n  {\n    \"doc_id\": 0\n  },\n  3\n]"), "3={\"doc_id\":0} 6=3 ");
  EXPECT_EQ(read("[]"), "");
  EXPECT_EQ(read("[ ]\n"), "");
  EXPECT_EQ(read("[1,]").find(":1:4: error: not JSON: "), 0u) << read("[1,]");
  EXPECT_EQ(read("[1, {\"a\":}]").find(":1:10: error: not JSON: "), 0u) << read("[1, {\"a\":}]");
  EXPECT_EQ(read("[1,\n{\"a\":\n x}]").find(":3:2: error: not JSON: "), 0u);
  EXPECT_EQ(read("[1, \"\xC3\"]"), ":1:6: error: not well-formed UTF-8");
  EXPECT_EQ(read("[1, 2"), ":1:6: error: not JSON: the array is not closed");
  EXPECT_EQ(read("[1, }"), ":1:6: error: not JSON: the array is not closed");
  EXPECT_EQ(read("[1]\n[2]"), ":2:1: error: not JSON: text after the array that the file begins with");
  EXPECT_EQ(read("[\"" + std::string((64 << 20) + 1, 'x') + "\"]"),
            ":1:1: error: the item is longer than 67108864 bytes");
}

TEST_F(JsonlTest, TellsNaNOnceAFile) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(read("{\"a\": {\"b\": NaN}}\n{\"c\": [-Infinity, \"NaN\"]}\n"),
            "1={\"a\":{\"b\":null}} 2={\"c\":[null,\"NaN\"]} ");
  EXPECT_EQ(folder_.relative(testing::internal::GetCapturedStderr()),
            "kvc: note: t.jsonl: 2 values are NaN or Infinity, read as NULL; first: a.b\n");
}

TEST_F(JsonlTest, ReadsLatin1WhereItIsSaid) {
  EXPECT_EQ(read("{\"q\":\"caf\xE9\"}", TextEncoding::kLatin1), "1={\"q\":\"caf\xC3\xA9\"} ");
  EXPECT_EQ(read("{\"q\":\"caf\xE9\"}"), ":1:10: error: not well-formed UTF-8");
}

TEST_F(JsonlTest, ReadsBehindAByteOrderMark) {
  EXPECT_EQ(read("\xEF\xBB\xBF{\"a\":1}\n{\"a\":}").find(":2:6: error: not JSON"), 0u);
  EXPECT_EQ(read("\xEF\xBB\xBF[{\"a\":1}]"), "1={\"a\":1} ");
}

TEST_F(JsonlTest, RefusesAnEndlessLine) {
  EXPECT_EQ(read("{}\n" + std::string((64 << 20) + 1, 'x')), ":2:1: error: the line is longer than 67108864 bytes");
}

TEST_F(JsonlTest, AFileThatIsNotThereIsNamed) {
  EXPECT_THROW(read_jsonl("/no/such.jsonl", [](int64_t, const nlohmann::json&) {}), Error);
}

}  // namespace
}  // namespace kvc
