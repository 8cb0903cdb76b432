// Weight bits, activation bits and SmoothQuant in an experiment: keys, what the database says, and refusals.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "analysis/query.h"
#include "render/table.h"
#include "store/result_store.h"
#include "support/program.h"

namespace kvc::test {
namespace {

using nlohmann::json;

class QuantizationTest : public testing::Test {
 protected:
  Finished run(const std::string& lines, const std::vector<std::string>& more = {}) {
    const auto file = folder_.write(
        "q.yaml", "name: q\nmodel: models/demo\ntasks: [demo/swaps]\nlimit: 1\n" + lines + "compressors: [full]\n");
    std::vector<std::string> arguments = {"run", file.string(), "--db", database()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(folder_, arguments);
  }
  std::string smooth(const std::string& name, const std::string& text) {
    const auto texts = folder_.write("texts.txt", text).string();
    const auto path = (folder_ / name).string();
    const auto made = run_program(folder_, {"smooth", "models/demo", "--texts", texts, "--output", path});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return path;
  }
  std::string database() const { return (folder_ / "q.sqlite").string(); }
  // Values of one column, in the order of the cells' peak_weights_bytes
  std::vector<std::string> column(const std::string& name) {
    auto store = ResultStore::open_readonly(database());
    const auto table = run_query(store.database(), "SELECT CAST(" + name +
                                                       " AS TEXT) FROM cell JOIN sample ON cell_key = key"
                                                       " ORDER BY peak_weights_bytes, key");
    std::vector<std::string> values;
    for (const auto& row : table.rows) values.push_back(std::get<std::string>(row[0]));
    return values;
  }
  TempFolder folder_;
};

TEST_F(QuantizationTest, SixteenBitsAreNoneAndOthersAreCellsOfTheirOwn) {
  ASSERT_EQ(run("").exit_code, 0);
  const auto same = run("weights: {bits: 16}\nactivations: {bits: 16}\n");
  EXPECT_NE(same.err.find("0 samples run now"), std::string::npos) << same.err;
  ASSERT_EQ(run("weights: {bits: 8}\n").exit_code, 0);
  ASSERT_EQ(run("weights: {bits: 4, group_size: 32}\n").exit_code, 0);
  ASSERT_EQ(run("weights: {bits: 4, group_size: row}\n").exit_code, 0);
  ASSERT_EQ(run("activations: {bits: 8}\n").exit_code, 0);
  const auto models = column("model_json");
  ASSERT_EQ(models.size(), 5u);
  const auto quantization = [&](size_t i) { return json::parse(models[i]).value("quantization", json()); };
  EXPECT_EQ(quantization(0), json::parse(R"({"weights": {"bits": 4, "group_size": "row", "held_bits": 4}})"));
  EXPECT_EQ(quantization(1), json::parse(R"({"weights": {"bits": 4, "group_size": 32, "held_bits": 4}})"));
  EXPECT_EQ(quantization(2), json::parse(R"({"weights": {"bits": 8, "group_size": "row", "held_bits": 8}})"));
  const auto activations = json::parse(R"({"activations": {"bits": 8, "simulated": true}})");
  EXPECT_TRUE((quantization(3) == activations && quantization(4).is_null()) ||
              (quantization(4) == activations && quantization(3).is_null()));
}

TEST_F(QuantizationTest, AWordForEightBitsGivesTheSameNumbers) {
  ASSERT_EQ(run("weights: {bits: 8}\n").exit_code, 0);
  ASSERT_EQ(run("weights: int8\n").exit_code, 0);
  for (const char* name : {"generation", "token_ids_json", "peak_weights_bytes"}) {
    const auto values = column(name);
    ASSERT_EQ(values.size(), 2u);
    EXPECT_EQ(values[0], values[1]) << name;
  }
}

TEST_F(QuantizationTest, ASmoothingFileIsNamedByItsContent) {
  const auto a = smooth("a.json", "Q: Sam has a ring. Kim has a rope.\n");
  const auto lines = "activations: {bits: 8}\nsmooth_quant: {alpha: 0.5, calibration: " + a + "}\n";
  ASSERT_EQ(run(lines).exit_code, 0) << run(lines).err;
  const auto quantization = json::parse(column("model_json").at(0))["quantization"];
  EXPECT_EQ(quantization["smooth_quant"]["alpha"], 0.5);
  EXPECT_EQ(quantization["smooth_quant"]["calibration_sha256"], sha256_file(a));
  smooth("a.json", "Another text, and so other maxima: 1 + 2 = 3.\n");
  ASSERT_EQ(run(lines).exit_code, 0);
  EXPECT_EQ(column("key").size(), 2u);
}

TEST_F(QuantizationTest, RefusesBeforeTheRunInOneLine) {
  const auto expect_refusal = [&](const std::string& lines, const std::string& part) {
    const auto refused = run(lines);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.err.find(part), std::string::npos) << refused.err;
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  };
  expect_refusal("weights: {bits: 5}\n", "q.yaml:5:17: error: weights.bits is 5, expected 16, 8, 4, 3, 2");
  expect_refusal("weights: {bit: 4}\n", "missing key 'bits' in weights (is it 'bit'?)");
  expect_refusal("weights: {bits: 4, group_size: 7}\n", "group_size 7 does not divide");
  expect_refusal("weights: int4\n", "int4");
  expect_refusal("activations: {bits: 1}\n", "activations.bits is 1");
  expect_refusal("smooth_quant: {alpha: 2, calibration: x}\n", "alpha");
  expect_refusal("smooth_quant: {alpha: 0.5}\n", "calibration");
  expect_refusal("smooth_quant: {calibration: none.json}\n", "'none.json': no such file; `kvc smooth MODEL");
  const auto file = folder_.write("x.json", "{}").string();
  expect_refusal("smooth_quant: {calibration: " + file + "}\n", "it is no smoothing file");
  auto other = json::parse(read_file(smooth("a.json", "Q: a text\n")));
  other["model"] = "0123";
  expect_refusal("smooth_quant: {calibration: " + folder_.write("b.json", other.dump()).string() + "}\n",
                 "is of another model (0123)");
  other = json::parse(read_file(folder_ / "a.json"));
  other["layers"].erase(0);
  expect_refusal("smooth_quant: {calibration: " + folder_.write("b.json", other.dump()).string() + "}\n",
                 "maxima of 3 layers, the model has 4");
  EXPECT_FALSE(std::filesystem::exists(database()));
}

}  // namespace
}  // namespace kvc::test
