// What compressors are called among others: by the options that differ.
#include "analysis/shared_options.h"

#include <gtest/gtest.h>

#include "analysis/entries.h"
#include "store_fixture.h"

namespace kvc {
namespace {

using Texts = std::vector<std::string>;

Table table_of(const std::vector<std::pair<std::string, std::string>>& rows, const std::string& third = "x") {
  Table table;
  table.columns = {{"compressor"}, {"options"}, {third}};
  for (const auto& [compressor, options] : rows) table.rows.push_back({compressor, options, int64_t{4}});
  return table;
}

Texts options_in(const Table& table) {
  Texts texts;
  for (const auto& row : table.rows) texts.push_back(std::get<std::string>(row[1]));
  return texts;
}

TEST(SharedOptions, AListIsOneValueAndACompositionOneOption) {
  EXPECT_EQ(options_of("bits 2, layers [0, 1], recent 4"), (Texts{"bits 2", "layers [0, 1]", "recent 4"}));
  EXPECT_EQ(options_of("snapkv capacity 64, window 8 + kivi bits 2"),
            (Texts{"snapkv capacity 64, window 8 + kivi bits 2"}));
  EXPECT_EQ(options_of("defaults"), Texts{});
  EXPECT_EQ(options_of(""), Texts{});
}

TEST(SharedOptions, WhatDiffersStaysAndTheRestIsANote) {
  auto table = table_of({{"full", "defaults"},
                         {"kivi", "bits 2, group_size 32, recent 64"},
                         {"kivi", "bits 2, group_size 64, recent 64"},
                         {"kivi", "bits 4, group_size 32, recent 64"}});
  share_options(table);
  EXPECT_EQ(options_in(table), (Texts{"", "bits 2, group_size 32", "bits 2, group_size 64", "bits 4, group_size 32"}));
  EXPECT_EQ(table.notes, Texts{"options: kivi: recent 64"});
}

TEST(SharedOptions, TheColumnGoesWhereNothingDiffersAndTonesMoveWithTheirCells) {
  auto table = table_of({{"full", "defaults"}, {"kivi", "bits 4, group_size 32"}}, "bits");
  table.tones[{1, 2}] = TableTone::kBad;
  share_options(table);
  ASSERT_EQ(table.columns.size(), 2u);
  EXPECT_EQ(table.columns[1].name, "bits");
  EXPECT_EQ(table.rows[1], (std::vector<TableCell>{"kivi", int64_t{4}}));
  EXPECT_EQ(table.tones, (decltype(table.tones){{{1, 1}, TableTone::kBad}}));
  EXPECT_EQ(table.notes, Texts{"options: kivi: group_size 32"});
}

TEST(SharedOptions, BitsStayWhereNoColumnSaysThem) {
  auto table = table_of({{"kivi", "bits 2, group_size 32"}});
  share_options(table);
  EXPECT_EQ(options_in(table), Texts{"bits 2"});
  auto other = table_of({{"gear", "bits 2, rank 4"}}, "bits");  // whose column says 4
  share_options(other);
  EXPECT_EQ(other.notes, Texts{"options: gear: bits 2, rank 4"});
}

TEST(SharedOptions, ATableWithoutTheColumnsStaysAsItIs) {
  Table table;
  table.columns = {{"compressor"}, {"score"}};
  table.rows = {{"kivi", 1.0}};
  share_options(table);
  EXPECT_EQ(table.columns.size(), 2u);
  EXPECT_TRUE(table.notes.empty());
}

using Labels = OpenStoreTest;

TEST_F(Labels, NameWhatDiffersAndNeverTwoAlike) {
  int position = 0;
  const auto put = [&](const std::string& plugin, const std::string& options, const std::string& label = "") {
    auto cell = make_cell(concat(plugin, options, label), plugin, "t");
    cell.options_label = options, cell.label = label, cell.position = position++;
    store_.put_cell(cell);
    store_.put_sample(make_sample(cell.key, 0));
  };
  put("full", "defaults");
  put("kivi", "bits 2, group_size 32");
  put("kivi", "bits 4, group_size 32");
  put("gear", "bits 2, rank 4");
  put("h2o", "recent 4");
  put("rtn", "bits 4, group_size 64", "h2o");  // called like the one above would be
  auto& db = store_.database();
  make_entries(db, {"trial"}, false);
  Texts labels;
  auto select = db.prepare("SELECT label FROM entry ORDER BY position");
  while (select.step()) labels.push_back(select.text(0));
  EXPECT_EQ(labels, (Texts{"full", "kivi bits 2", "kivi bits 4", "gear bits 2", "h2o recent 4", "h2o"}));
}

}  // namespace
}  // namespace kvc
