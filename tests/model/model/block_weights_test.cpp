// A model whose matrices come in blocks: what is kept, what is widened, what it takes.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "checkpoint/safetensors.h"
#include "model/quantized_linear.h"
#include "model/weights.h"
#include "random_blocks.h"
#include "support/message_of.h"

namespace kvc {
namespace {

using kernels::BlockType;

const std::filesystem::path kDemo = KVC_SOURCE_DIR "/models/demo";

// The demo model's shapes; matrices in blocks but those named.
class Blocks : public TensorSource {
 public:
  explicit Blocks(std::set<std::string> in_floats = {}) : in_floats_(std::move(in_floats)) {}

  std::vector<std::string> names() const override { return demo_.names(); }
  bool has(const std::string& name) const override { return demo_.has(name); }
  at::Tensor tensor(const std::string& name, const std::vector<int64_t>& shape) const override {
    const auto held = blocks(name, shape);
    if (!held) return demo_.tensor(name, shape);
    return expanded(Linear{{}, {}, {}, shape[1], 0, {*held}}, at::kFloat).weight;
  }
  std::optional<BlockRows> blocks(const std::string& name, const std::vector<int64_t>& shape) const override {
    if (shape.size() != 2 || in_floats_.contains(name)) return {};
    const auto type = name.find("embed") != name.npos    ? BlockType::q8_0
                      : name.find("v_proj") != name.npos ? BlockType::q6_k
                                                         : BlockType::q4_1;
    return kvc::test::random_blocks(type, shape[0], shape[1], std::hash<std::string>()(name));
  }

 private:
  Checkpoint demo_{kDemo};
  std::set<std::string> in_floats_;
};

Weights load(const LoadOptions& options, std::set<std::string> in_floats = {}) {
  return load_weights(std::make_unique<Blocks>(std::move(in_floats)), "blocks", load_model_config(kDemo), options);
}

TEST(BlockWeights, StayAsTheFileHoldsThem) {
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const auto weights = load({.dtype = type});
    const auto& layer = weights.layers[1];
    EXPECT_EQ(weights.type, type);
    for (const auto* linear :
         {&weights.embedding, &weights.logits, &layer.qkv, &layer.output, &layer.up, &layer.down}) {
      EXPECT_FALSE(linear->weight.defined());
      EXPECT_TRUE(is_defined(*linear));
      EXPECT_TRUE(device_of(*linear).is_cpu());
    }
    ASSERT_EQ(layer.qkv.blocks.size(), 3u);
    EXPECT_EQ(layer.qkv.blocks[1].type, BlockType::q4_1);
    EXPECT_EQ(layer.qkv.blocks[2].type, BlockType::q6_k);
    EXPECT_EQ(n_rows_of(layer.qkv), (4 + 2 + 2) * 64);
    EXPECT_EQ(n_rows_of(layer.up), 2 * 704);
    EXPECT_EQ(n_columns_of(layer.down), 704);
  }
}

// 608 x 256 in Q8_0 (once), a layer's (256 + 128 + 256 + 3 * 704) x 256 in Q4_1 and 128 x 256 in Q6_K; 9 norms of fp32.
TEST(BlockWeights, TakeTheBytesOfTheirBlocksAndATiedOutputNone) {
  const auto weights = load({});
  const int64_t q4_1 = (256 + 128 + 256 + 3 * 704) * 256 / 32 * 20, q6_k = 128 * 210;
  EXPECT_EQ(weights.bytes(), 608 * 256 / 32 * 34 + 4 * (q4_1 + q6_k) + 9 * 256 * 4);
  EXPECT_EQ(weights.embedding.blocks[0].bytes.const_data_ptr(), weights.logits.blocks[0].bytes.const_data_ptr());
}

TEST(BlockWeights, AreFloatsWhereAPartOfTheMatrixIs) {
  const auto weights = load({.dtype = at::kHalf}, {"model.layers.1.self_attn.k_proj.weight"});
  EXPECT_TRUE(weights.layers[1].qkv.blocks.empty());
  EXPECT_EQ(weights.layers[1].qkv.weight.scalar_type(), at::kHalf);
  EXPECT_EQ(weights.layers[0].qkv.blocks.size(), 3u);
  const Blocks source;
  const auto expected = source.tensor("model.layers.1.self_attn.v_proj.weight", {128, 256}).to(at::kHalf);
  EXPECT_TRUE(at::equal(weights.layers[1].qkv.weight.narrow(0, 256 + 128, 128), expected));
}

TEST(BlockWeights, AreFloatsBeforeTheyAreQuantizedOrSmoothed) {
  const auto kept = load({});
  const auto coded = load({.quantization = {.weight_bits = 8}});
  EXPECT_TRUE(coded.layers[0].down.blocks.empty());
  const auto expected = quantized(expanded(kept.layers[0].down, at::kFloat), 8, 0);
  EXPECT_TRUE(at::equal(coded.layers[0].down.weight, expected.weight));
  EXPECT_TRUE(at::equal(coded.layers[0].down.scale, expected.scale));
  EXPECT_FALSE(coded.embedding.blocks.empty());  // not a layer's

  Smoothing smoothing;
  smoothing.maxima.qkv = smoothing.maxima.up = std::vector<at::Tensor>(4, at::ones({256}));
  const auto smoothed = load({.quantization = {.smoothing = smoothing}});
  EXPECT_TRUE(smoothed.layers[0].qkv.blocks.empty());
  EXPECT_FALSE(smoothed.layers[0].down.blocks.empty());  // nothing takes the division before it
  const auto product = [](const Weights& w) {
    return expanded(w.layers[0].qkv, at::kFloat).weight * w.layers[0].attention_norm.weight;
  };
  EXPECT_TRUE(at::allclose(product(smoothed), product(kept), 1e-5, 1e-6));

  const auto rounded = load({.quantization = {.activation_bits = 8}});
  EXPECT_EQ(rounded.layers[0].qkv.blocks.size(), 3u);
  EXPECT_EQ(rounded.layers[0].qkv.input_bits, 8);
}

TEST(BlockWeights, NameTheSourceOfATensorThatHasNoPlace) {
  class More : public Blocks {
   public:
    std::vector<std::string> names() const override { return {"model.norm.weight", "surplus"}; }
  };
  EXPECT_EQ(test::message_of([] { load_weights(std::make_unique<More>(), "x.gguf", load_model_config(kDemo), {}); }),
            "x.gguf: tensor 'surplus' has no place in this architecture");
}

}  // namespace
}  // namespace kvc
