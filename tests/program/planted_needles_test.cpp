// A positive control: the embedded model finds one needle among others, at each length, and stops finding those that a
// window of recent tokens has evicted. And what is made to a length is left out where the model's context is shorter.
#include <gtest/gtest.h>

#include "store/result_store.h"
#include "support/program.h"

namespace kvc::test {
namespace {

const char* const kTask = R"(version: 1
summary: code words of the embedded model's own language
each: {90: {tokens: 90}, 120: {tokens: 120}, 150: {tokens: 150}, 5000: {tokens: 5000}}
data:
  made:
    kind: needles
    tokens: ${tokens}
    samples: 40
    needle: "{key} {value}"
    keys: {words: [{file: names.txt, root: task}, {file: things.txt, root: task}]}
    values: {words: [{file: codes.txt, root: task}]}
    filler: {others: needles}
    between: ", "
fields: {context: context, query: query}
gold: {from: answers, list: true}
prompt: {template: "Q: The code words are {context}. What is the code word of {query}?\nA:"}
max_new_tokens: 40
stop: ["\n\n", "Q:"]
metric: match_all
extractors: [{name: all, steps: [strip], compare: match_all}]
extract_cases:
  - {extractor: all, text: " Kim nuts teal.", gold: [teal], answer: "Kim nuts teal.", score: 1}
  - {extractor: all, text: "Teal", gold: [teal], answer: Teal, score: 1}
  - {extractor: all, text: "rose", gold: [teal], answer: rose, score: 0}
  - {extractor: all, text: "", gold: [teal], answer: "", score: 0}
  - {extractor: all, text: "teal or rose", gold: [teal], answer: "teal or rose", score: 1}
  - {extractor: all, text: "tea", gold: [teal], answer: tea, score: 0}
)";

TEST(PlantedNeedles, AreFoundAtEveryLengthAndLostWhereTheyAreEvicted) {
  TempFolder folder;
  folder.write("tasks/planted/needle.yaml", kTask);
  folder.write("tasks/planted/names.txt",
               "Ana Ben Cara Dan Eva Finn Gus Hana Ida Jon Kim Leo Mia Noa Omar Pia Sam Uma Zoe");
  folder.write("tasks/planted/things.txt",
               "bags beds bells bows caps cups eggs fans figs hats jars keys logs maps mugs");
  folder.write(
      "tasks/planted/codes.txt",
      "amber azure bronze cedar cherry copper coral cotton crystal golden ivory lemon linen maple marble olive "
      "pearl rose ruby silver teal velvet violet walnut");
  const auto file =
      folder.write("x.yaml", "name: x\nmodel: models/demo\ntasks: [" + (folder / "tasks/planted/needle.yaml").string() +
                                 "]\ncompressors:\n  - full\n  - window: {sinks: 4, recent: 16}\n");
  const auto database = folder / "r.sqlite";
  const auto done = run_program(folder, {"run", file.string(), "--db", database.string()});
  EXPECT_EQ(done.exit_code, 4) << done.err;  // of one task no prompt can be made
  EXPECT_NE(done.err.find("error: data.made.tokens is 5000, and the model's context has 4096"), std::string::npos);
  auto store = ResultStore::open_readonly(database);
  const auto mean = [&](const std::string& plugin, const std::string& length) {
    auto select = store.database().prepare(
        "SELECT avg(value), count(*) FROM score JOIN cell ON key = cell_key WHERE plugin = ? AND task = ?");
    select.bind(1, plugin).bind(2, "planted/needle/" + length);
    EXPECT_TRUE(select.step());
    EXPECT_EQ(select.integer(1), 40);
    return select.real(0);
  };
  for (const char* length : {"90", "120", "150"}) {
    EXPECT_GE(mean("full", length), 0.95) << length;
    EXPECT_LE(mean("window", length), mean("full", length) - 0.2) << length;
  }
}

}  // namespace
}  // namespace kvc::test
