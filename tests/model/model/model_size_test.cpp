// Sizes from config.json alone. The counts are those of transformers' models of the same configs on the meta device.
#include "model/model_size.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/temp_folder.h"

namespace {

using nlohmann::json;

kvc::ModelConfig public_config(const std::string& name) {
  return kvc::load_model_config(std::filesystem::path(KVC_TEST_DATA) / "model" / name);
}

kvc::ModelSize size_of(json config) {
  const kvc::test::TempFolder dir;
  const json common = {
      {"num_hidden_layers", 2},         {"num_attention_heads", 4}, {"vocab_size", 100},        {"hidden_size", 64},
      {"max_position_embeddings", 512}, {"intermediate_size", 128}, {"num_key_value_heads", 2}, {"rms_norm_eps", 1e-5}};
  for (const auto& [field, value] : common.items()) {
    if (!config.contains(field)) config[field] = value;
  }
  dir.write("any_name.json", config.dump());
  return kvc::model_size(kvc::load_model_config(dir / "any_name.json"));
}

TEST(ModelSize, CountsLlama2With7BillionParameters) {
  const auto config = public_config("llama-2-7b.json");
  const auto size = kvc::model_size(config);
  EXPECT_EQ(size.n_parameters, 6'738'415'616);
  EXPECT_EQ(kvc::kv_bytes_per_token_16bit(config), 524'288);
  EXPECT_EQ(kvc::weights_bytes(size, kvc::WeightType::fp32), 26'953'662'464);
  EXPECT_EQ(kvc::weights_bytes(size, kvc::WeightType::bits16), 13'476'831'232);
  // By pencil: each layer has 4 matrices 4096 x 4096 and 3 of 4096 x 11008. Rows: 5 x 4096 and 2 x 11008 a layer.
  // Embedding and output, 32000 x 4096 each, and 65 norms of 4096 are 16 bits.
  const int64_t weights = int64_t{32} * (4 * 4096 * 4096 + 3 * 4096 * 11008);
  const int64_t rows = 32 * (5 * 4096 + 2 * 11008);
  EXPECT_EQ(kvc::weights_bytes(size, kvc::WeightType::int8), weights + 4 * rows + 2 * (2 * 32000 + 65) * int64_t{4096});
}

TEST(ModelSize, CountsLlama31With70BillionParameters) {
  const auto config = public_config("llama-3.1-70b.json");
  const auto size = kvc::model_size(config);
  EXPECT_EQ(size.n_parameters, 70'553'706'496);
  EXPECT_EQ(kvc::kv_bytes_per_token_16bit(config), 327'680);
  EXPECT_EQ(kvc::weights_bytes(size, kvc::WeightType::bits16), 141'107'412'992);
  const int64_t weights = int64_t{80} * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672);
  const int64_t rows = 80 * (8192 + 2 * 1024 + 8192 + 2 * 28672 + 8192);
  EXPECT_EQ(kvc::weights_bytes(size, kvc::WeightType::int8),
            weights + 4 * rows + 2 * (2 * 128256 + 161) * int64_t{8192});
}

TEST(ModelSize, CountsEveryFamilyAsTransformersDoes) {
  EXPECT_EQ(size_of({{"architectures", {"LlamaForCausalLM"}},
                     {"attention_bias", true},
                     {"mlp_bias", true},
                     {"tie_word_embeddings", true}})
                .n_parameters,
            81472);
  EXPECT_EQ(size_of({{"architectures", {"MistralForCausalLM"}}, {"sliding_window", 4096}}).n_parameters, 86848);
  EXPECT_EQ(size_of({{"architectures", {"Qwen2ForCausalLM"}}}).n_parameters, 87104);
  EXPECT_EQ(size_of({{"architectures", {"Qwen3ForCausalLM"}}, {"head_dim", 32}}).n_parameters, 111552);
  EXPECT_EQ(size_of({{"architectures", {"Phi3ForCausalLM"}}}).n_parameters, 86848);
  json opt = {{"architectures", {"OPTForCausalLM"}},
              {"ffn_dim", 96},
              {"num_key_value_heads", 4},
              {"intermediate_size", nullptr},
              {"rms_norm_eps", nullptr}};
  EXPECT_EQ(size_of(opt).n_parameters, 98112);
  opt["word_embed_proj_dim"] = 32;
  EXPECT_EQ(size_of(opt).n_parameters, 99008);
}

TEST(ModelSize, CountsTheTiedOutputOnceAndNoOutputAmongTheLayersMatrices) {
  const json tied = {{"architectures", {"LlamaForCausalLM"}}, {"tie_word_embeddings", true}};
  const auto once = size_of(tied), twice = size_of({{"architectures", {"LlamaForCausalLM"}}});
  EXPECT_EQ(twice.n_parameters - once.n_parameters, 100 * 64);
  EXPECT_EQ(twice.n_in_matrices, once.n_in_matrices);
  EXPECT_EQ(twice.n_matrix_rows, once.n_matrix_rows);
}

}  // namespace
