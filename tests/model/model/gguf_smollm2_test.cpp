// SmolLM2-135M-Instruct as a public Q4_1 GGUF: what other readers of that file found in it (an independent parser, and
// the gguf package 0.19.0). KVC_SMOLLM2_GGUF names the file.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <boost/crc.hpp>
#include <cstdlib>
#include <cstring>

#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_tensors.h"
#include "text/files.h"

namespace {

class SmolLm2 : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("KVC_SMOLLM2_GGUF");
    if (!path) GTEST_SKIP() << "KVC_SMOLLM2_GGUF names no file";
    path_ = path;
  }
  std::filesystem::path path_;
};

uint32_t crc32_of(const at::Tensor& x) {
  boost::crc_32_type crc;
  crc.process_bytes(x.const_data_ptr(), x.nbytes());
  return crc.checksum();
}

std::string first_bytes(const kvc::GgufFile& file, const std::string& name) {
  unsigned char bytes[20];
  file.read(file.tensor(name), 0, 20, bytes);
  std::string hex;
  for (const unsigned char byte : bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", byte);
    hex += two;
  }
  return hex;
}

at::Tensor as_stored(const kvc::GgufFile& file, const std::string& name) {
  const auto& tensor = file.tensor(name);
  std::vector<uint8_t> bytes(static_cast<size_t>(tensor.n_bytes));
  file.read(tensor, 0, tensor.n_bytes, bytes.data());
  auto floats = at::empty(tensor.shape, at::kFloat);
  if (const auto* type = std::get_if<kvc::kernels::BlockType>(&tensor.type)) {
    kvc::kernels::expand_blocks(*type, bytes.data(), floats.numel(), floats.mutable_data_ptr<float>());
  } else {
    std::memcpy(floats.mutable_data_ptr(), bytes.data(), bytes.size());
  }
  return floats;
}

TEST_F(SmolLm2, IsTheFileThatTheseNumbersAreOf) {
  EXPECT_EQ(kvc::sha256_file(path_), "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
}

TEST_F(SmolLm2, HeaderIsWhatOthersReadInIt) {
  const kvc::GgufFile file(path_);
  EXPECT_EQ(file.tensors().size(), 272u);
  EXPECT_EQ(file.metadata().size(), 33u);
  EXPECT_EQ(file.tensor("token_embd.weight").offset, 1'785'664);
  EXPECT_EQ(file.text("general.name"), "Smollm2 135M 8k Lc100K Mix1 Ep2");
  EXPECT_EQ(file.text("tokenizer.ggml.pre"), "smollm");
  EXPECT_EQ(file.texts("tokenizer.ggml.merges").size(), 48'900u);
  EXPECT_EQ(file.integers("tokenizer.ggml.token_type").at(16), 3);
  EXPECT_EQ(file.integers("tokenizer.ggml.token_type").at(17), 1);
  std::map<std::string, int> n_of_type;
  int64_t n_parameters = 0, end = 0;
  for (const auto& [name, tensor] : file.tensors()) {
    ++n_of_type[kvc::type_name(tensor)];
    int64_t n = 1;
    for (const int64_t size : tensor.shape) n *= size;
    n_parameters += n;
    end = std::max(end, tensor.offset + tensor.n_bytes);
  }
  EXPECT_EQ(n_of_type, (std::map<std::string, int>{{"F32", 61}, {"Q4_1", 210}, {"Q8_0", 1}}));
  EXPECT_EQ(n_parameters, 134'515'008);
  EXPECT_EQ(end, 98'362'432);
  EXPECT_EQ(kvc::weights_format(file), "Q4_1");
}

TEST_F(SmolLm2, ConfigIsItsCheckpoints) {
  const auto config = kvc::load_model_config(path_);
  EXPECT_STREQ(config.architecture->name, "LlamaForCausalLM");
  EXPECT_EQ(config.n_layers, 30);
  EXPECT_EQ(config.hidden_size, 576);
  EXPECT_EQ(config.intermediate_size, 1536);
  EXPECT_EQ(config.n_heads, 9);
  EXPECT_EQ(config.n_kv_heads, 3);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.vocab_size, 49'152);
  EXPECT_EQ(config.max_position_embeddings, 8'192);
  EXPECT_EQ(config.rope.theta, 100'000);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.bos_token_ids, std::vector<int64_t>{1});
  EXPECT_EQ(config.eos_token_ids, (std::vector<int64_t>{2, 0, 4}));  // <|im_end|>, <|endoftext|>, <reponame>
}

struct Golden {
  const char *name, *bytes;
  float first[4];
  int n_first;
  uint32_t crc;
  double sum;
};

TEST_F(SmolLm2, TensorsAreTheGoldenValues) {
  const Golden all[] = {{"token_embd.weight",
                         "3219d60d13f7e5ee08d02aa801de56818608fd21",
                         {-0.10654449462890625f, 0.032978057861328125f, 0.048198699951171875f, -0.022830963134765625f},
                         4,
                         0x39786908,
                         -15353.04449415207},
                        {"blk.0.attn_q.weight",
                         "0f30d8b9458765406f65164b677664502267655a",
                         {-0.0963134765625f, 0.1573486328125f, -0.0963134765625f, -0.73046875f},
                         4,
                         0xed20619e,
                         59.22322082519531},
                        {"blk.0.attn_k.weight",
                         "4931e8bdb8db9687a98aba9c9dfa9aa0997aa8aa",
                         {-0.1552734375f, 0.3402099609375f, -0.485595703125f, -0.3204345703125f},
                         4,
                         0xd35b933b,
                         26.937057495117188},
                        {"blk.0.attn_v.weight",
                         "af22c8adbf7d60990959267294687a8a8756873b",
                         {0.10547637939453125f},
                         1,
                         0xf4e02990,
                         4.793846130371094},
                        {"blk.29.ffn_down.weight",
                         "e229d8b5f29c4cd9bc8c71a45b82c87dd8b09725",
                         {-0.2733154296875f, 0.186279296875f},
                         2,
                         0x975c5ef1,
                         49.83570861816406},
                        {"blk.0.attn_norm.weight",
                         "0000653c0000c33c0000a2bc0000f8bc0000a1bc",
                         {0.01397705078125f, 0.0238037109375f},
                         2,
                         0xcb4130eb,
                         0.6129436492919922}};
  const kvc::GgufFile file(path_);
  for (const auto& golden : all) {
    const auto x = as_stored(file, golden.name);
    EXPECT_EQ(first_bytes(file, golden.name), golden.bytes) << golden.name;
    for (int i = 0; i < golden.n_first; ++i) EXPECT_EQ(x.flatten()[i].item<float>(), golden.first[i]) << golden.name;
    EXPECT_EQ(crc32_of(x), golden.crc) << golden.name;
    EXPECT_NEAR(x.sum(at::kDouble).item<double>(), golden.sum, 1e-6) << golden.name;
  }
}

TEST_F(SmolLm2, RowsOfQAndKComeBackInHuggingFacesOrder) {
  const kvc::GgufFile file(path_);
  const auto tensors = kvc::open_gguf_tensors(path_);
  const auto q = tensors->tensor("model.layers.0.self_attn.q_proj.weight", {576, 576});
  const auto k = tensors->tensor("model.layers.0.self_attn.k_proj.weight", {192, 576});
  EXPECT_EQ(crc32_of(q), 0x568c15c3u);
  EXPECT_EQ(crc32_of(k), 0xa784e2e2u);
  EXPECT_EQ(q[1][0].item<float>(), -0.1591796875f);
  EXPECT_EQ(q[1][1].item<float>(), 0.39794921875f);
  EXPECT_EQ(k[1][0].item<float>(), 0.203369140625f);
  EXPECT_TRUE(at::equal(q[32], as_stored(file, "blk.0.attn_q.weight")[1]));
}

}  // namespace
