// What changed in an experiment, said in fields.
#include "analysis/definition_change.h"

#include "analysis/summary.h"
#include "store_fixture.h"

namespace kvc {
namespace {

CellRecord cell_of(const std::string& key, const std::string& plugin, const std::string& task,
                   const std::string& options) {
  auto cell = make_cell(key, plugin, task);
  cell.options_json = options;
  return cell;
}

using Fields = std::vector<std::string>;

TEST(DefinitionChange, NamesTheFieldOfTheNearestCellOnceForAllTasks) {
  std::vector<CellRecord> before{cell_of("a", "kivi", "t", R"({"bits":4,"group_size":64})"),
                                 cell_of("b", "kivi", "t", R"({"bits":2,"group_size":64})"),
                                 cell_of("c", "kivi", "u", R"({"bits":2,"group_size":64})")};
  std::vector<CellRecord> after{before[0], cell_of("d", "kivi", "t", R"({"bits":2,"group_size":32})"),
                                cell_of("e", "kivi", "u", R"({"bits":2,"group_size":32})")};
  const auto change = definition_change(before, after);
  EXPECT_EQ(change.fields, Fields{"kivi.group_size: 64 -> 32"});
  EXPECT_EQ(change.replaced, (std::set<std::string>{"b", "c"}));
  EXPECT_EQ(change.n_alike, 1);
}

TEST(DefinitionChange, NamesSettingsCompressorsAndTasks) {
  auto kept = cell_of("a", "full", "t", "{}"), changed = cell_of("b", "full", "t", "{}");
  kept.generation_json = R"({"dtype":"fp32","chat":{"name":"none"}})";
  changed.generation_json = R"({"dtype":"bf16","chat":{"name":"chatml"}})";
  const auto change =
      definition_change({kept, cell_of("c", "kivi", "t", R"({"bits":2})"), cell_of("g", "full", "old", "{}")},
                        {changed, cell_of("d", "gear", "t", "{}"), cell_of("e", "full", "new", "{}")});
  EXPECT_EQ(change.fields,
            (Fields{"settings.chat.name: none -> chatml", "settings.dtype: fp32 -> bf16", "task added: new",
                    "task gone: old", "compressor added: gear", "compressor gone: kivi"}));
  EXPECT_EQ(change.gone, std::set<std::string>{"c"});  // not g: its task may have been left out for once
  EXPECT_NE(change_in_words(change).find("; and 2 more"), std::string::npos);
}

// A prompt's template may be long, and of any language.
TEST(DefinitionChange, CutsLongValuesBetweenCharacters) {
  auto a = cell_of("a", "full", "t", "{}"), b = cell_of("b", "full", "t", "{}");
  a.task_json = R"({"prompt":"x"})", b.task_json = "{\"prompt\":\"";
  for (int i = 0; i < 40; ++i) b.task_json += "\xC3\xA9";
  b.task_json += "\"}";
  const auto fields = definition_change({a}, {b}).fields;
  ASSERT_EQ(fields.size(), 1u);
  EXPECT_TRUE(fields[0].starts_with("task.prompt: x -> \xC3\xA9")) << fields[0];
  EXPECT_TRUE(fields[0].ends_with("\xC3\xA9...")) << fields[0];
}

TEST_F(OpenStoreTest, TablesLeaveOutOlderCellsAndSayHowToSeeThem) {
  for (const std::string key : {"a", "b"}) {
    store_.put_cell(cell_of(key, "kivi", "t", key == "a" ? R"({"bits":4})" : R"({"bits":2})"));
    store_.put_sample(make_sample(key, 0));
  }
  store_.put_aside("trial", {"a"});
  const auto note = "1 cells of an older definition are not shown; `--experiment trial@older` shows them";
  for (const std::string experiment : {"all", "trial"}) {
    const auto table = summary_table(store_.database(), {experiment, true});
    EXPECT_EQ(table.rows.size(), 1u) << experiment;
    EXPECT_EQ(std::count(table.notes.begin(), table.notes.end(), note), 1) << experiment;
  }
  EXPECT_EQ(summary_table(store_.database(), {"trial@older", true}).rows.size(), 1u);
  store_.put_cell(cell_of("a", "kivi", "t", R"({"bits":4})"));  // the file is as it was
  EXPECT_EQ(stored_cells(store_.database(), "trial").size(), 2u);
  EXPECT_EQ(older_note(store_.database(), "all"), "");
}

}  // namespace
}  // namespace kvc
