// config.json: what is read, and with which words the rest is refused.
#include "model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "temporary_dir.h"

namespace {

using kvc_test::message_of;
using kvc_test::TemporaryDir;
using kvc_test::write_file;
using nlohmann::json;

json llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"hidden_size", 64},
          {"intermediate_size", 128},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"vocab_size", 100},
          {"max_position_embeddings", 512},
          {"rms_norm_eps", 1e-5},
          {"hidden_act", "silu"},
          {"bos_token_id", 1},
          {"eos_token_id", 2}};
}

kvc::ModelConfig load(const json& config, const json& generation = nullptr) {
  const TemporaryDir dir;
  write_file(dir / "config.json", config.dump());
  if (!generation.is_null()) write_file(dir / "generation_config.json", generation.dump());
  return kvc::load_model_config(dir.path());
}

TEST(ModelConfig, FillsInWhatLlamaLeavesOut) {
  auto config = llama();
  config.erase("num_key_value_heads");
  const auto model = load(config);
  EXPECT_EQ(model.n_kv_heads, 4);
  EXPECT_EQ(model.head_dim, 16);
  EXPECT_EQ(model.rope_theta, 10000.0);
  EXPECT_FALSE(model.tied_embeddings);
}

TEST(ModelConfig, ReadsRopeThetaOldAndNew) {
  auto config = llama();
  config["rope_theta"] = 5e5;
  EXPECT_EQ(load(config).rope_theta, 5e5);
  config.erase("rope_theta");
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  EXPECT_EQ(load(config).rope_theta, 1e6);
}

TEST(ModelConfig, TakesStopIdsFromGenerationConfigFirst) {
  EXPECT_EQ(load(llama()).eos_token_ids, std::vector<int64_t>({2}));
  EXPECT_EQ(load(llama(), {{"eos_token_id", {3, 4}}}).eos_token_ids, std::vector<int64_t>({3, 4}));
  EXPECT_EQ(load(llama(), {{"do_sample", false}}).eos_token_ids, std::vector<int64_t>({2}));
  EXPECT_EQ(load(llama()).bos_token_ids, std::vector<int64_t>({1}));
}

struct BadField {
  const char* name;
  const char* field;
  json value;  // null: the field is taken away
  std::vector<std::string> words;
};

class BadConfig : public testing::TestWithParam<BadField> {};

TEST_P(BadConfig, IsRefusedNamingFieldValueAndAllowed) {
  auto config = llama();
  config.erase(GetParam().field);
  if (!GetParam().value.is_null()) config[GetParam().field] = GetParam().value;
  const auto message = message_of([&] { load(config); });
  EXPECT_THAT(message, testing::HasSubstr("config.json"));
  EXPECT_THAT(message, testing::HasSubstr(GetParam().field));
  for (const auto& word : GetParam().words) EXPECT_THAT(message, testing::HasSubstr(word));
}

INSTANTIATE_TEST_SUITE_P(
    Fields, BadConfig,
    testing::Values(BadField{"Architecture", "architectures", {"BertModel"}, {"BertModel", "LlamaForCausalLM"}},
                    BadField{"NoArchitecture", "architectures", nullptr, {"missing"}},
                    BadField{"NoHiddenSize", "hidden_size", nullptr, {"missing"}},
                    BadField{"ZeroLayers", "num_hidden_layers", 0, {"is 0", "from 1"}},
                    BadField{"TextSize", "vocab_size", "many", {"\"many\"", "integer"}},
                    BadField{"HugeSize", "hidden_size", uint64_t{1} << 63, {"9223372036854775808", "integer"}},
                    BadField{"KvHeadsDoNotDivide", "num_key_value_heads", 3, {"is 3", "divisor", "4"}},
                    BadField{"OddHeadDim", "head_dim", 15, {"is 15", "even"}},
                    BadField{"HiddenDoesNotDivide", "hidden_size", 66, {"is 66", "multiple", "4"}},
                    BadField{"Activation", "hidden_act", "gelu", {"'gelu'", "silu"}},
                    BadField{"Bias", "attention_bias", true, {"true", "supported: false"}},
                    BadField{"NegativeEps", "rms_norm_eps", -1, {"-1", "number"}},
                    BadField{"Scaling", "rope_scaling", {{"rope_type", "yarn"}}, {"'yarn'", "default"}},
                    BadField{"OldScaling", "rope_scaling", {{"type", "linear"}}, {"'linear'", "default"}},
                    BadField{"EosOutOfRange", "eos_token_id", json::array({2, 100}), {"[2,100]", "0 to 99"}},
                    BadField{"Quantized", "quantization_config", {{"bits", 4}}, {"floating point"}}),
    [](const auto& info) { return info.param.name; });

TEST(ModelConfig, NamesFileAndByteOfBrokenJson) {
  const TemporaryDir dir;
  write_file(dir / "config.json", "{\"hidden_size\": 64,,}");
  EXPECT_THAT(message_of([&] { kvc::load_model_config(dir.path()); }),
              testing::AllOf(testing::HasSubstr("config.json"), testing::HasSubstr("byte 20")));
}

}  // namespace
