// Files of models whose head is their embedding, stored twice in two types.
#include "checkpoint/repeated_head.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

namespace kvc {
namespace {

class Tensors : public TensorSource {
 public:
  std::map<std::string, at::Tensor> all;

  std::vector<std::string> names() const override { return {}; }
  bool has(const std::string& name) const override { return all.contains(name); }
  at::Tensor tensor(const std::string& name, const std::vector<int64_t>&) const override { return all.at(name); }
  std::optional<BlockRows> blocks(const std::string&, const std::vector<int64_t>&) const override { return {}; }
};

TEST(RepeatedHead, IsOneWithinTheRoundingOfFourBitsAndNotAnotherMatrix) {
  at::manual_seed(1);
  ModelConfig config;
  config.vocab_size = 1000;
  config.embedding_size = 96;
  Tensors tensors;
  const auto embedding = at::randn({1000, 96});
  tensors.all["model.embed_tokens.weight"] = embedding;
  EXPECT_FALSE(repeats_embedding(tensors, config)) << "there is no head";

  const auto scale = embedding.view({1000, 3, 32}).abs().amax(2, true) / 7;  // 4 bits in groups of 32
  tensors.all["lm_head.weight"] =
      (embedding.view({1000, 3, 32}) / scale).round().mul(scale).view({1000, 96}).to(at::kHalf);
  EXPECT_TRUE(repeats_embedding(tensors, config));

  tensors.all["lm_head.weight"] = at::randn({1000, 96});
  EXPECT_FALSE(repeats_embedding(tensors, config));
  tensors.all["lm_head.weight"] = embedding + 0.7 * at::randn({1000, 96});  // a head that was tied once and trained on
  EXPECT_FALSE(repeats_embedding(tensors, config));
}

}  // namespace
}  // namespace kvc
