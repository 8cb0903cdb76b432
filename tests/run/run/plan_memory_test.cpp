// Plans against caches whose bytes are known by construction, and the public configs against the pencil.
#include "plugin_loader/plan_memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "support/program.h"

namespace kvc::test {
namespace {

// Holds so many bytes: `fixed`, and `per_token` for each of at most `max_tokens` tokens; later layers `extra` more,
// and all but the first and last two `middle` more.
struct KnownBytes {
  int64_t fixed = 0, per_token = 0, max_tokens = 1 << 30, extra = 0, middle = 0;
};

class KnownCache final : public LayerCache {
 public:
  KnownCache(const LayerInfo& info, KnownBytes known) : LayerCache(info), known_(known) {}
  void append(const NewTokens& tokens) override {
    check_new_tokens(tokens);
    length_ += tokens.k.size(1);
  }
  KeyValue dequantize() const override { throw Error("not asked for by a plan"); }
  int64_t length() const override { return length_; }
  int64_t n_encoded_tokens() const override { return length_; }
  Footprint footprint() const override {
    const bool is_middle = info().layer >= 2 && info().layer < info().n_layers - 2;
    const int64_t n_tokens = std::min(length_, known_.max_tokens);
    const int64_t extra = (info().layer > 0 ? known_.extra : 0) + (is_middle ? known_.middle : 0);
    Footprint held;
    held.add(CacheTensor::k, ByteKind::codes,
             at::empty({known_.fixed + extra + known_.per_token * n_tokens}, at::TensorOptions(at::kByte)));
    return held;
  }

 private:
  KnownBytes known_;
  int64_t length_ = 0;
};

class Known final : public Compressor {
 public:
  explicit Known(KnownBytes known) : known_(known) {}
  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    return std::make_unique<KnownCache>(info, known_);
  }
  double bits() const override { return 8; }
  double paper_bytes(const ModelShape&, int64_t, int64_t) const override { return 0; }

 private:
  KnownBytes known_;
};

const ModelShape kShape{.n_layers = 10, .n_heads = 4, .n_kv_heads = 2, .head_dim = 8};

TEST(PlanMemory, FindsSlopeAndOffsetOfAllLayers) {
  const auto line = measure_cache(Known({.fixed = 1000, .per_token = 7}), kShape);
  EXPECT_EQ(line.bytes_per_token, 70);
  EXPECT_EQ(line.fixed_bytes, 10000);
  EXPECT_EQ(line.bytes_per_step, 70);
  EXPECT_EQ(line.misfit, 0);
  EXPECT_FALSE(line.layers_differ);
  EXPECT_EQ(largest_context(line, 10000 + 70 * 500), 500);
  EXPECT_EQ(largest_context(line, 10000 + 70 * 500 - 1), 499);
  EXPECT_EQ(largest_context(line, 9999), 0);
  EXPECT_EQ(largest_context(line, -1), 0);
  EXPECT_EQ(largest_batch(line, 3 * (10000 + 70 * 100), 100), 3);
  EXPECT_EQ(largest_batch(line, 3 * (10000 + 70 * 100) - 1, 100), 2);
  EXPECT_EQ(largest_batch(line, -1, 100), 0);
}

TEST(PlanMemory, SaysWhereBytesAreNoLine) {
  // 2,500 tokens at most: the line through 1,024 and 2,048 says 3,072 x 7, held are 2,500 x 7.
  const auto bent = measure_cache(Known({.per_token = 7, .max_tokens = 2500}), kShape);
  EXPECT_DOUBLE_EQ(bent.misfit, (2500.0 - 3072.0) / 2500.0);
  EXPECT_EQ(bent.bytes_per_token, 70);
  // A method that keeps 512 tokens fits every prompt where it fits at all.
  const auto flat = measure_cache(Known({.per_token = 7, .max_tokens = 512}), kShape);
  EXPECT_EQ(flat.bytes_per_token, 0);
  EXPECT_EQ(flat.fixed_bytes, 10 * 7 * 512);
  EXPECT_EQ(largest_context(flat, 10 * 7 * 512), std::nullopt);
  EXPECT_EQ(largest_context(flat, 10 * 7 * 512 - 1), 0);
  EXPECT_TRUE(measure_cache(Known({.per_token = 7, .extra = 1}), kShape).layers_differ);
}

// Where the first and last two of ten layers are left alone.
TEST(PlanMemory, LayersThatDifferAtBothEndsAreCountedEach) {
  const Known known({.fixed = 1000, .per_token = 7, .middle = 100});
  EXPECT_EQ(prompt_bytes(known, kShape, 50), 10 * (1000 + 7 * 50) + 6 * 100);
  EXPECT_TRUE(measure_cache(known, kShape).layers_differ);
}

// The table's rows by "compressor options", each a map from the column's name to its cell; of columns with the same
// name the first counts.
std::map<std::string, std::map<std::string, std::string>> rows_of(const std::string& text) {
  std::map<std::string, std::map<std::string, std::string>> rows;
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ") || line.starts_with("| -")) continue;
    std::vector<std::string> cells;
    std::istringstream parts(line.substr(1));
    for (std::string cell; std::getline(parts, cell, '|');) {
      const auto first = cell.find_first_not_of(' ');
      cells.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') + 1 - first));
    }
    if (names.empty()) {
      names = cells;
      continue;
    }
    auto& row = rows[cells[0] + " " + cells[1]];
    for (size_t i = 0; i < names.size(); ++i) row.emplace(names[i], cells[i]);
  }
  return rows;
}

std::string config(const std::string& name) { return std::string(KVC_TEST_DATA) + "/model/" + name; }

TEST(DoctorPlan, GivesLlama2sSizesByPencil) {
  TempFolder folder;
  const auto run =
      run_program(folder, {"doctor", "--model", config("llama-2-7b.json"), "--compressor", "full", "--options", "{}",
                           "--compressor", "token_group", "--options", R"({"bits": 2, "group_size": 64})"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const char* said : {"6738415616 parameters", "26953662464 bytes at fp32", "13476831232 at 16 bits",
                           "7006265344 at int8", "524288 bytes/token", "1 GB = 1e9 bytes", "2 GB reserve"}) {
    EXPECT_NE(run.out.find(said), std::string::npos) << said << "\n" << run.out;
  }
  auto rows = rows_of(run.out);
  auto& full = rows["full {}"];
  EXPECT_EQ(full["KV [bytes/token]"], "524288.0");
  EXPECT_EQ(full["fixed [bytes]"], "0");
  // (24e9 - 13,476,831,232 - 2e9) / 524,288 = 16,256.7; a sequence of 4,096 tokens is 2,147,483,648 bytes: 3.97
  EXPECT_EQ(full["24 GB: context"], "16256");
  EXPECT_EQ(full["batch at 4096"], "3");
  EXPECT_EQ(full["80 GB: context"], "123068");   // 64,523,168,768 / 524,288 = 123,068.2
  EXPECT_EQ(full["141 GB: context"], "239416");  // 125,523,168,768 / 524,288 = 239,416.4
  // 2 bits: 32 layers x 2 tensors x 32 heads x (128 x 2 / 8 bytes of codes + 2 groups x 4 bytes)
  auto& two_bits = rows[R"(token_group {"bits":2,"group_size":64})"];
  EXPECT_EQ(two_bits["KV [bytes/token]"], "81920.0");
  EXPECT_EQ(two_bits["24 GB: context"], "104042");  // 8,523,168,768 / 81,920 = 104,042.6
}

TEST(DoctorPlan, SaysWhatDoesNotFit) {
  TempFolder folder;
  const auto run = run_program(folder, {"doctor", "--model", config("llama-3.1-70b.json"), "--compressor", "full"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.out.find("70553706496 parameters"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("327680 bytes/token"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("141 GB: the 16bit weights and the reserve do not fit"), std::string::npos) << run.out;
  EXPECT_EQ(rows_of(run.out)["full defaults"]["141 GB: context"], "does not fit");
  const auto int8 = run_program(
      folder, {"doctor", "--model", config("llama-3.1-70b.json"), "--weights", "int8", "--compressor", "full"});
  ASSERT_EQ(int8.exit_code, 0) << int8.err;
  // 68,451,041,280 weights, 6,717,440 rows (x 4), 2,102,665,216 parameters at 16 bits: 72,683,241,472 bytes.
  EXPECT_NE(int8.out.find("72683241472 at int8"), std::string::npos) << int8.out;
  auto rows = rows_of(int8.out);
  EXPECT_EQ(rows["full defaults"]["80 GB: context"], "16225");    // 5,316,758,528 / 327,680 = 16,225.5
  EXPECT_EQ(rows["full defaults"]["141 GB: context"], "202382");  // 66,316,758,528 / 327,680 = 202,382.7
  EXPECT_EQ(rows["full defaults"]["batch at 131072"], "does not fit");
  EXPECT_NE(int8.out.find("24 GB: the int8 weights and the reserve do not fit"), std::string::npos) << int8.out;
}

TEST(DoctorPlan, PrintsWhyACompressorRefusesTheModel) {
  TempFolder folder;
  auto text = read_file(config("llama-2-7b.json"));
  text.replace(text.find("\"hidden_size\": 4096"), 19, "\"hidden_size\": 4096, \"head_dim\": 24");
  const auto run = run_program(folder, {"doctor", "--model", folder.write("config.json", text).parent_path().string()});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.out.find("token_group (defaults) does not support this model: "), std::string::npos) << run.out;
  EXPECT_TRUE(rows_of(run.out).contains("full defaults")) << run.out;
}

TEST(DoctorPlan, RefusesWhatItDoesNotKnow) {
  TempFolder folder;
  const auto model = config("llama-2-7b.json");
  const auto error = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"doctor", "--model"});
    const auto run = run_program(folder, arguments);
    EXPECT_EQ(run.exit_code, 2) << run.out;
    return run.err;
  };
  EXPECT_NE(error({model, "--compressor", "ful"}).find("unknown compressor 'ful' (did you mean 'full'?)"),
            std::string::npos);
  EXPECT_NE(error({model, "--compressor", "full", "--options", "{"}).find("--options: byte"), std::string::npos);
  EXPECT_NE(error({model, "--options", "{}"}).find("--options 1 times"), std::string::npos);
  EXPECT_NE(error({model, "--compressor", "full", "--options", R"({"bit": 2})"}).find("unknown option 'bit'"),
            std::string::npos);
  EXPECT_NE(error({"models/demo", "--compressor", "full"}).find("name its config.json"), std::string::npos);
}

TEST(Doctor, StillChecksAWholeModel) {
  TempFolder folder;
  const auto run = run_program(folder, {"doctor"});
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_NE(run.out.find("ok    model        models/demo: 4 layers, 4 heads over 2 KV heads of 64, context 4096"),
            std::string::npos)
      << run.out;
}

}  // namespace
}  // namespace kvc::test
