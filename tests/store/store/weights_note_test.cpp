// A model whose weights are quantized is told in the captions of its tables.
#include "analysis/weights_note.h"

#include "analysis/compare.h"
#include "analysis/group_table.h"
#include "analysis/query.h"
#include "analysis/summary.h"
#include "store/bench_store.h"
#include "store_fixture.h"

namespace kvc {
namespace {

class WeightsNote : public OpenStoreTest {
 protected:
  void put(const std::string& key, const std::string& model, const std::string& model_json,
           const std::string& generation_json = "{}", const std::string& plugin = "full") {
    auto cell = make_cell(key, plugin, "t/a");
    cell.model_label = model, cell.model_json = model_json, cell.generation_json = generation_json;
    store_.put_cell(cell);
    for (int64_t i : {0, 1}) store_.put_sample(make_sample(key, i));
  }

  std::string note(const std::set<std::string>& keys) { return weights_note(store_.database(), keys); }
};

TEST_F(WeightsNote, NamesAFilesFormatWithoutItsFloats) {
  put("a", "models/smollm2-135m", R"({"weights_format":"Q4_1"})");
  put("b", "/m/big-00001-of-00002.gguf", R"({"weights_format":"F32, Q4_K, Q6_K"})");
  EXPECT_EQ(note({"a"}), "weights quantized: Q4_1 (smollm2-135m)");
  EXPECT_EQ(note({"a", "b"}), "weights quantized: Q4_1 (smollm2-135m), Q4_K, Q6_K (big-00001-of-00002.gguf)");
}

TEST_F(WeightsNote, NamesTheBitsThatAnExperimentAskedFor) {
  put("a", "models/demo", R"({"quantization":{"weights":{"bits":8,"group_size":64,"held_bits":8}}})");
  put("b", "models/demo", "{}", R"({"weights":{"bits":3,"group_size":"row","held_bits":4}})");
  put("c", "models/demo", "{}", R"({"weights":"int8"})");
  put("d", "x.gguf", R"({"weights_format":"Q4_0","quantization":{"weights":{"bits":2}}})", R"({"weights":{"bits":2}})");
  EXPECT_EQ(note({"a"}), "weights quantized: 8 bits (demo)");
  EXPECT_EQ(note({"b"}), "weights quantized: 3 bits (demo)");
  EXPECT_EQ(note({"a", "c"}), "weights quantized: 8 bits (demo)");  // said once
  EXPECT_EQ(note({"d"}), "weights quantized: Q4_0, 2 bits (x.gguf)");
}

TEST_F(WeightsNote, OfFloatsAndOfWhatSaysNothingThereIsNone) {
  int i = 0;
  for (const char* json :
       {R"({"weights_format":"F32"})", R"({"weights_format":"BF16, F16"})", "{}", R"({"weights_format":""})",
        R"({"weights_format":7})", R"({"weights":"random"})", R"({"quantization":{"activations":{"bits":8}}})",
        R"({"quantization":"none"})", "[]", "no json"}) {
    const auto key = concat("k", i++);
    put(key, "m", json, R"({"weights":"dtype"})");
    EXPECT_EQ(note({key}), "") << json;
  }
  EXPECT_EQ(note({}), "");
  EXPECT_EQ(note({"nowhere"}), "");
}

TEST_F(WeightsNote, StandsInTheTitlesOfTablesWhoseCellsAreShown) {
  put("a", "small", R"({"weights_format":"Q4_1"})");
  put("b", "small", R"({"weights_format":"Q4_1"})", "{}", "low");
  auto& db = store_.database();
  const std::string note = "weights quantized: Q4_1 (small)";
  EXPECT_EQ(summary_table(db).title, "Scores, sizes and speed, small; " + note);
  EXPECT_EQ(group_table(db, {}, {{.name = "g", .members = {{"t/a"}}}}).title, "groups of tasks; " + note);
  CompareOptions options;
  options.a = "full";
  EXPECT_EQ(compare_table(compare_groups(db, db, options)).title, "B against A = full, small; " + note);

  auto other = make_cell("c", "full", "t/a");  // a cell that is not shown says nothing
  other.experiment = "other";
  store_.put_cell(other);
  EXPECT_EQ(summary_table(db, {.experiment = "other"}).title, "other, tiny");
  EXPECT_EQ(summary_table(db, {.cell_keys = {"c"}}).title, "Scores, sizes and speed, tiny");
}

TEST_F(WeightsNote, StandsAboveTablesWithoutATitleOfTheirKindOfCells) {
  auto cell = make_cell("k", "full", "model, 8 + 1 tokens, batch 1");
  cell.kind = RunKind::bench, cell.model_json = R"({"weights_format":"Q8_0"})";
  store_.put_cell(cell);
  auto& db = store_.database();
  EXPECT_EQ(named_table(db, "bench", "trial").title, "weights quantized: Q8_0 (tiny)");
  EXPECT_EQ(named_table(db, "bench", "all").title, "weights quantized: Q8_0 (tiny)");
  EXPECT_EQ(named_table(db, "bench", "other").title, "");
  EXPECT_EQ(named_table(db, "capacity", "all").title, "");
  EXPECT_EQ(named_table(db, "stages", "all").title, "");
}

}  // namespace
}  // namespace kvc
