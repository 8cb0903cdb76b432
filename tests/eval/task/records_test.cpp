// Data in all its forms, and what is wrong with it: file, line, field.
#include "data/records.h"

#include <bzlib.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "data/csv.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace kvc {
namespace {

class RecordsTest : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) { root_.write(file, text); }
  Records read(const std::string& spec) {
    return read_records(read_data_spec(parse_yaml((root_ / "tasks/s/t.yaml").string(), spec)), root_);
  }
  std::string message(const std::string& spec) {
    return root_.relative(test::message_of([&] { read(spec); }));
  }
  test::TempFolder root_;
};

TEST(Csv, QuotesHoldCommasQuotesAndLineFeeds) {
  const auto rows = parse_csv("f", "a,\"b,c\",\"d \"\"e\"\"\"\r\n\n\"x\ny\",,z");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].fields, (std::vector<std::string>{"a", "b,c", "d \"e\""}));
  EXPECT_EQ(rows[1].fields, (std::vector<std::string>{"x\ny", "", "z"}));
  EXPECT_EQ(rows[1].line, 3);
}

TEST(Csv, WrongQuotesAreNamedByLineAndColumn) {
  const auto message = [](const std::string& text) { return test::message_of([&] { parse_csv("f.csv", text); }); };
  EXPECT_EQ(message("a,b\nc,\"d\ne"), "f.csv:2:3: error: the quote is not closed");
  EXPECT_EQ(message("\"a\"b,c"),
            "f.csv:1:4: error: text after a closing quote, expected a comma or the end of the line");
  EXPECT_EQ(message("a,\"b\""), "no error");
}

TEST_F(RecordsTest, CsvRowsHaveTheNamedFields) {
  write("d.csv", "1,\"x, y\"\n2,z\n");
  const auto records = read("{file: d.csv, root: data_dir, format: csv, columns: [n, text]}");
  ASSERT_EQ(records.items.size(), 2u);
  EXPECT_EQ(records.items[0].object, (nlohmann::json{{"n", "1"}, {"text", "x, y"}}));
  EXPECT_EQ(message("{file: d.csv, root: data_dir, format: csv, columns: [n, text, more]}"),
            "d.csv:1:1: error: the row has 2 fields, expected 3 (n, text, more)");
}

TEST_F(RecordsTest, LinesMakeItemsOfAsManyAsThereAreColumns) {
  write("d.txt", "q1\r\n0\nq2\n1");
  const auto records = read("{file: d.txt, root: data_dir, format: lines, columns: [query, gold]}");
  ASSERT_EQ(records.items.size(), 2u);
  EXPECT_EQ(records.items[1].object, (nlohmann::json{{"query", "q2"}, {"gold", "1"}}));
  EXPECT_EQ(message("{file: d.txt, root: data_dir, format: lines, columns: [a, b, c]}"),
            "d.txt:4:1: error: the file has 4 lines, expected a multiple of 3 (a, b, c)");
}

TEST_F(RecordsTest, JsonListsAreReadByTheirName) {
  write("d.json", "{\"canary\": \"x\", \"examples\": [{\"a\": \"1\"}, {\"a\": \"2\"}]}");
  EXPECT_EQ(read("{file: d.json, root: data_dir, format: json, items: examples}").items[1].object["a"], "2");
  EXPECT_EQ(message("{file: d.json, root: data_dir, format: json, items: items}"),
            "d.json:1:1: error: expected an object whose member 'items' is a list");
  write("e.json", "{\"examples\": [\n  {\"a\": }]}");
  EXPECT_EQ(message("{file: e.json, root: data_dir, format: json, items: examples}"),
            "e.json:2:9: error: not JSON: syntax error while parsing value - unexpected '}'; expected '[', '{', or a "
            "literal");
  write("f.json", "{\"examples\": [1e999]}");
  EXPECT_EQ(message("{file: f.json, root: data_dir, format: json, items: examples}"),
            "f.json:1:1: error: JSON: number overflow parsing '1e999'");
}

TEST_F(RecordsTest, BzipIsUnpackedAndDamageIsRefused) {
  const std::string text = "one\ntwo\n";
  std::string packed(1000, '\0');
  auto n = static_cast<unsigned>(packed.size());
  ASSERT_EQ(BZ2_bzBuffToBuffCompress(packed.data(), &n, const_cast<char*>(text.data()), text.size(), 9, 0, 0), BZ_OK);
  packed.resize(n);
  write("d.txt.bz2", packed);
  EXPECT_EQ(read("{file: d.txt.bz2, root: data_dir, format: lines, columns: [a]}").items[1].object["a"], "two");
  write("cut.bz2", packed.substr(0, n - 5));
  EXPECT_EQ(message("{file: cut.bz2, root: data_dir, format: lines, columns: [a]}"),
            "cut.bz2: error: no whole bzip2 file");
  write("no.bz2", "text");
  EXPECT_EQ(message("{file: no.bz2, root: data_dir, format: lines, columns: [a]}"),
            "no.bz2: error: no whole bzip2 file");
}

TEST_F(RecordsTest, Latin1IsReadOnlyWhereItIsSaid) {
  write("d.txt", "caf\xe9\n");
  EXPECT_EQ(read("{file: d.txt, root: data_dir, format: lines, columns: [a], encoding: latin1}").items[0].object["a"],
            "caf\xc3\xa9");
  EXPECT_EQ(message("{file: d.txt, root: data_dir, format: lines, columns: [a]}"),
            "d.txt:1:4: error: not well-formed UTF-8");
}

TEST_F(RecordsTest, Latin1IsReadInEveryFormat) {
  const std::pair<std::string, std::string> cases[] = {
      {"{\"a\": \"caf\xe9\"}\n", ""},
      {"[{\"a\": \"caf\xe9\"}]", ", format: json"},
      {"{\"x\": [{\"a\": \"caf\xe9\"}]}", ", format: json, items: x"},
      {"caf\xe9\n", ", format: csv, columns: [a]"},
      {"caf\xe9\n", ", format: lines, columns: [a]"},
  };
  for (const auto& [text, format] : cases) {
    write("d", text);
    const auto records = read("{file: d, root: data_dir, encoding: latin1" + format + "}");
    EXPECT_EQ(records.items.at(0).object["a"], "caf\xc3\xa9") << format;
  }
  write("d", "{\"a\": \"x\"}\n");
  write("l", "\xe9\n");
  EXPECT_EQ(read("{file: d, root: data_dir, encoding: latin1, beside: {file: l, root: data_dir, column: b}}")
                .items[0]
                .object["b"],
            "\xc3\xa9");
}

TEST_F(RecordsTest, AByteOrderMarkIsInNoField) {
  const std::string mark = "\xEF\xBB\xBF";
  const std::pair<std::string, std::string> cases[] = {
      {"{\"a\": \"x\"}\n", ""},
      {"[{\"a\": \"x\"}]", ", format: json"},
      {"\"x\",1\n", ", format: csv, columns: [a, b]"},
      {"x\n", ", format: lines, columns: [a]"},
      {"x", ", format: text"},
  };
  for (const auto& [text, format] : cases) {
    write("d", mark + text);
    const auto record = read("{file: d, root: data_dir" + format + "}").items.at(0).object;
    EXPECT_EQ(record[format == ", format: text" ? "text" : "a"], "x") << format;
  }
  write("d", "{\"a\": \"x\"}\n");
  write("l", mark + "y\n");
  EXPECT_EQ(read("{file: d, root: data_dir, beside: {file: l, root: data_dir, column: b}}").items[0].object["b"], "y");
}

TEST_F(RecordsTest, ListsOfObjectsAreReadAsJsonAndAsJsonLines) {
  write("d.json", "[\n  {\"a\": \"1\"},\n  {\"a\": \"2\"}\n]\n");
  EXPECT_EQ(read("{file: d.json, root: data_dir, format: json}").items.at(1).object["a"], "2");
  EXPECT_EQ(read("{file: d.json, root: data_dir}").items.at(1).where, (root_ / "d.json").string() + ":3");
  write("e.json", "{\"rows\": []}");
  EXPECT_EQ(message("{file: e.json, root: data_dir, format: json}"),
            "e.json:1:1: error: the document is object, expected a list of objects; where a member of an object is the "
            "list, `items` names it");
}

TEST_F(RecordsTest, NaNIsANullField) {
  write("d.jsonl", "{\"a\": \"NaN\", \"b\": NaN}\n");
  testing::internal::CaptureStderr();
  const auto records = read("{file: d.jsonl, root: data_dir}");
  EXPECT_EQ(root_.relative(testing::internal::GetCapturedStderr()),
            "kvc: note: d.jsonl: 1 value is NaN or Infinity, read as NULL; first: b\n");
  EXPECT_EQ(field_text({"a", std::nullopt, std::nullopt}, records.items[0]), "NaN");
  EXPECT_EQ(root_.relative(test::message_of([&] {
    field_text({"b", std::nullopt, std::nullopt}, records.items[0]);
  })),
            "d.jsonl:1:1: error: field 'b' is null, expected a string, a number or a boolean");
}

TEST_F(RecordsTest, AMissingFileOfTheDataFolderIsNamedWithTheCommandThatFetchesIt) {
  const std::string sha(64, 'a');
  write("tasks/data.yaml", "version: 1\nfiles:\n  x/a.jsonl: {url: u, licence: l, bytes: 1, sha256: \"" + sha +
                               "\"}\n  x/b.jsonl: {url: u, licence: l, fetch: false, note: ask them}\n");
  const auto said = [&](const std::string& file) {
    const auto all = message("{file: " + file + ", root: data_dir}");
    return all.substr(all.find("error: "));
  };
  EXPECT_EQ(said("x/a.jsonl"), "error: there is no file 'x/a.jsonl'; `kvc data s/t --fetch` fetches it");
  EXPECT_EQ(said("x/b.jsonl"), "error: there is no file 'x/b.jsonl'; `kvc data s/t` says where to get it");
  EXPECT_EQ(said("x/c.jsonl"), "error: there is no file 'x/c.jsonl'");
}

TEST_F(RecordsTest, PartsAreRangesOfFilesWithFieldsOfTheirOwn) {
  write("p.txt", "p0\np1\np2\n");
  write("n.txt", "n0\nn1\n");
  const auto spec = [](int end) {
    return "{format: lines, columns: [t], parts: [{file: p.txt, root: data_dir, set: {label: \"1\"}, range: [1, 3]}, "
           "{file: n.txt, root: data_dir, set: {label: \"0\"}, range: [0, " +
           std::to_string(end) + "]}]}";
  };
  const auto records = read(spec(1));
  ASSERT_EQ(records.items.size(), 3u);
  EXPECT_EQ(records.items[0].object, (nlohmann::json{{"t", "p1"}, {"label", "1"}}));
  EXPECT_EQ(records.items[2].object, (nlohmann::json{{"t", "n0"}, {"label", "0"}}));
  EXPECT_NE(message(spec(3)).find("error: items 0 to 3 of 'n.txt', which has 2"), std::string::npos);
}

TEST_F(RecordsTest, ALineBesideEachItemIsItsField) {
  write("d.jsonl", "{\"a\": \"x\"}\n{\"a\": \"y\"}\n");
  write("l.lst", "1\n0\n");
  const std::string spec = "{file: d.jsonl, root: data_dir, beside: {file: l.lst, root: data_dir, column: label}}";
  EXPECT_EQ(read(spec).items[1].object["label"], "0");
  write("l.lst", "1\n");
  EXPECT_EQ(message(spec), "l.lst:1:1: error: 1 lines next to 2 items, expected as many");
}

TEST_F(RecordsTest, FieldsAreFoundByPointerAndPatternAndJoined) {
  const Record record{nlohmann::json::parse(R"({"a": {"b": "x 12"}, "list": ["p", "q"], "n": 3})"), "f:7"};
  EXPECT_EQ(field_text({"/a/b", Regex("([0-9]+)"), std::nullopt}, record), "12");
  EXPECT_EQ(field_text({"list", std::nullopt, "\n"}, record), "p\nq");
  const auto message = [&](const FieldSpec& field) { return test::message_of([&] { field_text(field, record); }); };
  EXPECT_EQ(message({"/a/c", std::nullopt, std::nullopt}), "f:7:1: error: there is no field '/a/c'");
  EXPECT_EQ(message({"lst", std::nullopt, std::nullopt}),
            "f:7:1: error: unknown field 'lst' (did you mean 'list'?); known: a, list, n");
  EXPECT_EQ(field_text({"n", std::nullopt, std::nullopt}, record), "3");
  EXPECT_EQ(message({"a", std::nullopt, std::nullopt}),
            "f:7:1: error: field 'a' is object, expected a string, a number or a boolean");
  EXPECT_EQ(message({"/a/b", Regex("(y)"), std::nullopt}), "f:7:1: error: field '/a/b' has no match of '(y)'");
}

}  // namespace
}  // namespace kvc
