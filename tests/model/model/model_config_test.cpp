// config.json: what is read, and with which words the rest is refused.
#include "checkpoint/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/message_of.h"
#include "support/temp_folder.h"
#include "text/files.h"

namespace {

using kvc::test::message_of;
using kvc::test::TempFolder;
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

json of(const char* architecture) {
  auto config = llama();
  config["architectures"] = {architecture};
  return config;
}

json of_one_head() {
  auto config = llama();
  config["hidden_size"] = 1 << 20, config["num_attention_heads"] = config["num_key_value_heads"] = 1;
  return config;
}

json opt() {
  return {{"architectures", {"OPTForCausalLM"}},
          {"hidden_size", 64},
          {"ffn_dim", 96},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"vocab_size", 100},
          {"eos_token_id", 2},
          {"max_position_embeddings", 512}};
}

kvc::ModelConfig load(const json& config, const json& generation = nullptr) {
  const TempFolder dir;
  dir.write("config.json", config.dump());
  if (!generation.is_null()) dir.write("generation_config.json", generation.dump());
  return kvc::load_model_config(dir.path());
}

TEST(ModelConfig, FillsInWhatLlamaLeavesOut) {
  auto config = llama();
  config.erase("num_key_value_heads");
  const auto model = load(config);
  EXPECT_EQ(model.n_kv_heads, 4);
  EXPECT_EQ(model.head_dim, 16);
  EXPECT_EQ(model.rope.theta, 10000.0);
  EXPECT_EQ(model.rope.type, kvc::RopeType::plain);
  EXPECT_EQ(model.sliding_window, 0);
  EXPECT_FALSE(model.qkv_bias || model.output_bias || model.mlp_bias);
  EXPECT_FALSE(model.tied_embeddings);
}

TEST(ModelConfig, ReadsRopeThetaOldAndNew) {
  auto config = llama();
  config["rope_theta"] = 5e5;
  EXPECT_EQ(load(config).rope.theta, 5e5);
  config.erase("rope_theta");
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  EXPECT_EQ(load(config).rope.theta, 1e6);
}

TEST(ModelConfig, ReadsRopeScalingOldAndNew) {
  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 128}};
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    auto config = llama();
    config[field] = {{"type", "linear"}, {"factor", 4.0}};
    EXPECT_EQ(load(config).rope.type, kvc::RopeType::linear);
    EXPECT_EQ(load(config).rope.factor, 4.0);
    config[field] = llama3;
    const auto rope = load(config).rope;
    EXPECT_EQ(rope.type, kvc::RopeType::llama3);
    EXPECT_EQ(rope.factor, 8.0);
    EXPECT_EQ(rope.high_freq_factor, 4.0);
    EXPECT_EQ(rope.original_max_position_embeddings, 128);
  }
}

TEST(ModelConfig, TakesNullForNoSlidingWindow) {
  auto config = of("MistralForCausalLM");
  config["sliding_window"] = 4096;
  EXPECT_EQ(load(config).sliding_window, 4096);
  EXPECT_EQ(load(config).shape().sliding_window, 4096);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(load(config).sliding_window, 0);
}

TEST(ModelConfig, IgnoresTheWindowThatQwenDoesNotUse) {
  auto config = of("Qwen2ForCausalLM");
  config.update({{"use_sliding_window", false}, {"sliding_window", 128}});
  EXPECT_EQ(load(config).sliding_window, 0);
  EXPECT_TRUE(load(config).qkv_bias);
  EXPECT_FALSE(load(config).output_bias);
}

TEST(ModelConfig, ReadsOptsOwnNames) {
  auto config = opt();
  auto model = load(config);
  EXPECT_EQ(model.intermediate_size, 96);
  EXPECT_EQ(model.embedding_size, 64);
  EXPECT_TRUE(model.tied_embeddings && model.qkv_bias && model.output_bias && model.mlp_bias);
  config["word_embed_proj_dim"] = 32;
  EXPECT_EQ(load(config).embedding_size, 32);
}

// Closed forms: bytes of K and V of a token in a layer, times the tokens that its window leaves.
TEST(ModelConfig, AnEngineStoresWhatTheWindowsLeave) {
  auto gemma = of("Gemma3ForCausalLM");  // 4B: every 6th of 34 layers without a window
  gemma.update({{"num_hidden_layers", 34}, {"num_attention_heads", 8}, {"num_key_value_heads", 4}, {"head_dim", 256}});
  gemma.update(
      {{"sliding_window", 1024}, {"max_position_embeddings", 131072}, {"hidden_activation", "gelu_pytorch_tanh"}});
  const auto gemma_shape = load(gemma).shape();
  for (const int64_t n : {4096, 32768}) {
    EXPECT_EQ(kvc::engine_bytes(gemma_shape, n), 4 * 4 * 256 * (29 * 1024 + 5 * n));
  }
  EXPECT_EQ(kvc::engine_bytes(gemma_shape, 1000), 4 * 4 * 256 * 34 * 1000);  // shorter than the window
  auto gpt_oss = of("GptOssForCausalLM");  // 20B: every other of 24 layers without a window
  gpt_oss.update(
      {{"num_hidden_layers", 24}, {"num_attention_heads", 64}, {"num_key_value_heads", 8}, {"head_dim", 64}});
  gpt_oss.update({{"num_local_experts", 32}, {"num_experts_per_tok", 4}, {"sliding_window", 128}});
  const auto gpt_oss_shape = load(gpt_oss).shape();
  for (const int64_t n : {4096, 32768}) {
    EXPECT_EQ(kvc::engine_bytes(gpt_oss_shape, n), 4 * 8 * 64 * (12 * 128 + 12 * n));
  }
}

TEST(ModelConfig, TakesStopIdsFromGenerationConfigFirst) {
  EXPECT_EQ(load(llama()).eos_token_ids, std::vector<int64_t>({2}));
  EXPECT_EQ(load(llama(), {{"eos_token_id", {3, 4}}}).eos_token_ids, std::vector<int64_t>({3, 4}));
  EXPECT_EQ(load(llama(), {{"do_sample", false}}).eos_token_ids, std::vector<int64_t>({2}));
  EXPECT_EQ(load(llama()).bos_token_ids, std::vector<int64_t>({1}));
}

TEST(ModelConfig, TakesLlama3sListOfStopIds) {
  auto config = llama();
  config.update({{"vocab_size", 128256}, {"bos_token_id", 128000}, {"eos_token_id", 128001}});
  EXPECT_EQ(load(config, {{"eos_token_id", {128001, 128009}}}).eos_token_ids, std::vector<int64_t>({128001, 128009}));
  EXPECT_EQ(load(config, {{"eos_token_id", 128009}}).eos_token_ids, std::vector<int64_t>({128009}));
  EXPECT_EQ(load(config, {{"eos_token_id", nullptr}}).eos_token_ids, std::vector<int64_t>({128001}));
  EXPECT_EQ(load(config).eos_token_ids, std::vector<int64_t>({128001}));  // no generation_config.json
  config["eos_token_id"] = {128001, 128009};
  EXPECT_EQ(load(config).eos_token_ids, std::vector<int64_t>({128001, 128009}));
  config.erase("eos_token_id");
  EXPECT_TRUE(load(config).eos_token_ids.empty());
  EXPECT_THAT(message_of([&] {
                load(config, {{"eos_token_id", {128001, 128256}}});
              }),
              testing::AllOf(testing::HasSubstr("generation_config.json"), testing::HasSubstr("[128001,128256]")));
}

// As LlamaConfig().to_dict() and its like give them, with each family's own values: by transformers 4.57.6 and 5.24.0.
TEST(ModelConfig, TakesWhatTransformersWrites) {
  const auto all = json::parse(kvc::read_file(std::string(KVC_TEST_DATA) + "/model/transformers_configs.json"));
  int n = 0;
  for (const auto& version : all) {
    for (auto config : version.at("families")) {
      config.update(version.at("common"));
      EXPECT_GE(load(config).n_layers, 12) << config.at("architectures");
      ++n;
    }
  }
  EXPECT_EQ(n, 12);
}

// Of files on the Hub: SmolLM2, Phi-3, Qwen2.5, OPT, what unsloth and PEFT leave, and labels of a classifier.
TEST(ModelConfig, TakesWhatLibrariesWriteForThemselves) {
  auto config = llama();
  config.update({{"is_llama_config", true},
                 {"rope_interleaved", false},
                 {"transformers.js_config", {{"dtype", "q4"}}},
                 {"pretraining_tp", 1},
                 {"auto_map", {{"AutoModelForCausalLM", "modeling_phi3.Phi3ForCausalLM"}}},
                 {"embd_pdrop", 0.1},
                 {"use_mrope", false},
                 {"unsloth_version", "2025.12.5"},
                 {"id2label", {{"0", "human"}}},
                 {"torch_dtype", "bfloat16"},
                 {"_name_or_path", "x"},
                 {"original_max_position_embeddings", 4096}});
  EXPECT_EQ(load(config).n_layers, 2);
  auto other = opt();
  other.update({{"prefix", "</s>"}, {"init_std", 0.02}, {"dropout", 0.1}, {"layerdrop", 0.0}, {"model_type", "opt"}});
  EXPECT_EQ(load(other).n_layers, 2);
}

TEST(ModelConfig, TakesKeysThatAreSwitchedOff) {
  const std::pair<const char*, json> off[] = {
      {"residual_multiplier", 1.0},    {"logits_scaling", 1},     {"attn_logit_softcapping", nullptr},
      {"use_qk_norm", false},          {"kv_lora_rank", nullptr}, {"no_rope_layers", json::array()},
      {"num_local_experts", 0},        {"use_rope", true},        {"attention_multiplier", nullptr},
      {"quantization_config", nullptr}};
  for (const auto& [key, value] : off) {
    auto config = llama();
    config[key] = value;
    EXPECT_EQ(load(config).n_layers, 2) << key;
  }
}

TEST(ModelConfig, RefusesEveryOtherKeyByNameAndValue) {
  const std::pair<const char*, json> other[] = {{"residual_multiplier", 0.22},
                                                {"embedding_multiplier", 12},
                                                {"logits_scaling", 0},
                                                {"attn_logit_softcapping", 50.0},
                                                {"final_logit_softcapping", 30.0},
                                                {"use_qk_norm", true},
                                                {"no_rope_layers", {1, 1, 1, 0}},
                                                {"kv_lora_rank", 512},
                                                {"attention_multiplier", 1.0},
                                                {"num_local_experts", 8},
                                                {"use_rope", false},
                                                {"position_embedding_type", "alibi"},
                                                {"sliding_window", 4096},
                                                {"clip_qkv", 8.0},
                                                {"quantization", {{"bits", 4}}},
                                                {"pruned_heads", {{"0", {1, 2}}}},
                                                {"is_encoder_decoder", true},
                                                {"layer_norm_eps", 1e-5},
                                                {"ffn_dim", 8},
                                                {"invented_by_somebody", "at last"}};
  for (const auto& [key, value] : other) {
    auto config = llama();
    config[key] = value;
    EXPECT_THAT(
        message_of([&, &config = config] { load(config); }),
        testing::AllOf(testing::HasSubstr(std::string("config.json: ") + key + " is " + value.dump().substr(0, 20)),
                       testing::HasSubstr("neither computed here nor known to change nothing")));
  }
  auto config = llama();
  config["residual_multiplier"] = 2;
  EXPECT_THAT(message_of([&] { load(config); }), testing::HasSubstr("allowed: absent or 1"));
  config = llama();
  config["a\nb"] = 3;
  EXPECT_EQ(message_of([&] { load(config); }).find('\n'), std::string::npos);
  // what a family does not have is refused of it, though another one reads it
  config = of("MistralForCausalLM");
  config["sliding_window"] = nullptr, config["attention_bias"] = true;
  EXPECT_THAT(message_of([&] { load(config); }), testing::HasSubstr("attention_bias is true"));
}

TEST(ModelConfig, RefusesKeysOfARotationThatItDoesNotCompute) {
  const std::pair<const char*, json> other[] = {{"mrope_section", {16, 24, 24}},
                                                {"attention_factor", 1.2},
                                                {"beta_fast", 32},
                                                {"type", "default"},
                                                {"llama_4_scaling_beta", 0.1}};
  for (const auto& [key, value] : other) {
    auto config = llama();
    config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 4.0}};
    config["rope_scaling"][key] = value;
    EXPECT_THAT(message_of([&, &config = config] { load(config); }),
                testing::HasSubstr(std::string("rope_scaling: ") + key + " is "));
  }
  auto config = llama();
  config["rope_scaling"] = {{"rope_type", "linear"}, {"type", "linear"}, {"factor", 4.0}, {"attention_factor", 1.0}};
  EXPECT_EQ(load(config).rope.factor, 4);
}

TEST(ModelConfig, TakesTheTokenizersEndWhereNoConfigurationNamesOne) {
  const TempFolder dir;
  auto config = llama();
  config["eos_token_id"] = nullptr;
  dir.write("config.json", config.dump());
  const auto ends = [&] { return kvc::load_model_config(dir.path()).eos_token_ids; };
  EXPECT_TRUE(ends().empty());
  dir.write("tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  EXPECT_TRUE(ends().empty());  // nothing says which token that is
  dir.write("added_tokens.json", R"({"<|im_end|>": 7})");
  EXPECT_EQ(ends(), std::vector<int64_t>{7});
  std::filesystem::remove(dir / "added_tokens.json");
  dir.write("tokenizer.json", R"({"added_tokens": [{"id": 8, "content": "<|im_end|>"}]})");
  EXPECT_EQ(ends(), std::vector<int64_t>{8});
  dir.write("tokenizer_config.json", R"({"eos_token": {"content": "</s>"},
                                         "added_tokens_decoder": {"9": {"content": "</s>"}, "x": 1}})");
  EXPECT_EQ(ends(), std::vector<int64_t>{9});
  dir.write("generation_config.json", R"({"eos_token_id": [3, 4]})");
  EXPECT_EQ(ends(), (std::vector<int64_t>{3, 4}));
}

TEST(ModelConfig, ReadsAFileOfAnyName) {
  const TempFolder dir;
  dir.write("small.json", llama().dump());
  EXPECT_EQ(kvc::load_model_config(dir / "small.json").hidden_size, 64);
  EXPECT_THAT(message_of([&] { kvc::load_model_config(dir / "smal.json"); }), testing::HasSubstr("smal.json"));
}

struct BadField {
  const char* name;
  const char* field;
  json value;  // null: the field is taken away
  std::vector<std::string> words;
  json config = llama();
};

class BadConfig : public testing::TestWithParam<BadField> {};

TEST_P(BadConfig, IsRefusedNamingFieldValueAndAllowed) {
  auto config = GetParam().config;
  config.erase(GetParam().field);
  if (!GetParam().value.is_null()) config[GetParam().field] = GetParam().value;
  const auto message = message_of([&] { load(config); });
  EXPECT_THAT(message, testing::HasSubstr("config.json"));
  EXPECT_THAT(message, testing::HasSubstr(GetParam().field));
  for (const auto& word : GetParam().words) EXPECT_THAT(message, testing::HasSubstr(word));
}

INSTANTIATE_TEST_SUITE_P(
    Fields, BadConfig,
    testing::Values(
        BadField{"Architecture",
                 "architectures",
                 {"BertModel"},
                 {"BertModel",
                  "LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM, "}},
        BadField{
            "LatentAttention", "architectures", {"DeepseekV3ForCausalLM"}, {"latent attention (MLA)", "use a model"}},
        BadField{"Hybrid", "architectures", {"Qwen3_5ForCausalLM"}, {"layers without K and V"}},
        BadField{"Gemma4", "architectures", {"Gemma4ForConditionalGeneration"}, {"use Gemma 3"}},
        BadField{"Glm4", "architectures", {"Glm4ForCausalLM"}, {"rotation of neighbouring channels"}},
        BadField{"NoArchitecture", "architectures", nullptr, {"missing"}},
        BadField{"AnotherModelType", "model_type", "granite", {"'granite'", "supported: llama"}},
        BadField{"SeveralFirstTokens", "bos_token_id", {1, 2}, {"is [1,2], expected one"}},
        BadField{"NoHiddenSize", "hidden_size", nullptr, {"missing"}},
        BadField{"ZeroLayers", "num_hidden_layers", 0, {"is 0", "from 1"}},
        BadField{"TextSize", "vocab_size", "many", {"\"many\"", "integer"}},
        BadField{"HugeSize", "hidden_size", uint64_t{1} << 63, {"9223372036854775808", "integer"}},
        // 4 bytes * layers * heads * channels * positions stays below 2^63 at the largest sizes that are allowed.
        BadField{"TooManyLayers", "num_hidden_layers", 4097, {"from 1 to 4096"}},
        BadField{"TooManyHeads", "num_attention_heads", 4097, {"from 1 to 4096"}},
        BadField{"TooManyPositions", "max_position_embeddings", (1 << 24) + 1, {"from 1 to 16777216"}},
        BadField{"OneHeadOfAllChannels", "head_dim", nullptr, {"head_dim is 1048576"}, of_one_head()},
        BadField{"KvHeadsDoNotDivide", "num_key_value_heads", 3, {"is 3", "divisor", "4"}},
        BadField{"OddHeadDim", "head_dim", 15, {"is 15", "even"}},
        BadField{"HiddenDoesNotDivide", "hidden_size", 66, {"is 66", "multiple", "4"}},
        BadField{"Activation", "hidden_act", "gelu", {"'gelu'", "silu"}},
        BadField{"NegativeEps", "rms_norm_eps", -1, {"-1", "number"}},
        BadField{"Scaling", "rope_scaling", {{"rope_type", "yarn"}}, {"factor", "missing"}},
        BadField{"UnknownScaling", "rope_scaling", {{"rope_type", "ntk"}}, {"'ntk'", "default, linear, llama3"}},
        BadField{"OldScaling", "rope_scaling", {{"type", "dynamic"}}, {"'dynamic'", "rotated again", "use yarn"}},
        BadField{"NoFactor", "rope_scaling", {{"type", "linear"}}, {"factor", "missing"}},
        BadField{"BigTurnsBelowSmall",
                 "rope_parameters",
                 {{"rope_type", "llama3"},
                  {"factor", 8},
                  {"low_freq_factor", 4},
                  {"high_freq_factor", 4},
                  {"original_max_position_embeddings", 128}},
                 {"high_freq_factor is 4", "more than"}},
        // Different as doubles, equal as the floats that the interpolation divides by: 0 / 0.
        BadField{"BandsEqualInFloat",
                 "rope_scaling",
                 {{"rope_type", "llama3"},
                  {"factor", 8.0},
                  {"low_freq_factor", 1.0},
                  {"high_freq_factor", 1.0 + 1e-12},
                  {"original_max_position_embeddings", 128}},
                 {"high_freq_factor"}},
        BadField{"RotationByLayer",
                 "rope_parameters",
                 {{"full_attention", {{"rope_type", "default"}}}},
                 {"full_attention", "one rotation"}},
        BadField{"RotationOfANameOfLines", "rope_parameters", {{"a\nb", json::object()}}, {"'a\\nb' is {}"}},
        BadField{"PartOfTheHead", "partial_rotary_factor", 1.5, {"1.5", "to 1"}},
        BadField{"EosOutOfRange", "eos_token_id", json::array({2, 100}), {"[2,100]", "0 to 99"}},
        BadField{"Quantized", "quantization_config", {{"bits", 4}}, {"are not read", "use the checkpoint"}},
        BadField{"Gptq", "quantization_config", {{"quant_method", "gptq"}}, {"quant_method is 'gptq'", "not read"}},
        BadField{"NoWindow", "sliding_window", nullptr, {"missing"}, of("MistralForCausalLM")},
        BadField{"EmptyWindow", "sliding_window", 0, {"is 0", "from 1"}, of("MistralForCausalLM")},
        BadField{"QwenLayers",
                 "layer_types",
                 {"full_attention", "sliding_attention"},
                 {"sliding_attention", "full_attention"},
                 of("Qwen2ForCausalLM")},
        BadField{"NoQwenHeadDim", "head_dim", nullptr, {"missing"}, of("Qwen3ForCausalLM")},
        BadField{
            "PhiLongRope", "rope_scaling", {{"type", "longrope"}}, {"long_factor", "missing"}, of("Phi3ForCausalLM")},
        BadField{"OptActivation", "activation_function", "gelu", {"'gelu'", "relu"}, opt()}),
    [](const auto& info) { return info.param.name; });

TEST(ModelConfig, NamesAGenerationConfigThatLeadsNowhere) {
  const TempFolder dir;
  dir.write("config.json", llama().dump());
  std::filesystem::create_symlink("../blobs/gone", dir / "generation_config.json");
  EXPECT_THAT(message_of([&] { kvc::load_model_config(dir.path()); }), testing::HasSubstr("generation_config.json"));
}

TEST(ModelConfig, NamesFileAndByteOfBrokenJson) {
  const TempFolder dir;
  dir.write("config.json", "{\"hidden_size\": 64,,}");
  EXPECT_THAT(message_of([&] { kvc::load_model_config(dir.path()); }),
              testing::AllOf(testing::HasSubstr("config.json"), testing::HasSubstr("byte 20")));
}

}  // namespace
