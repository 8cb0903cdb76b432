// What a GGUF file says of its model, and its tensors in Hugging Face's order.
#include "checkpoint/gguf_config.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "../gguf/gguf_writer.h"
#include "checkpoint/gguf_tensors.h"
#include "support/message_of.h"
#include "support/temp_folder.h"
#include "text/json_reader.h"

namespace {

using namespace kvc::test;
using ::testing::HasSubstr;

constexpr int64_t kHidden = 64, kHeads = 4, kKvHeads = 2, kHeadDim = 16, kInner = 96, kVocab = 8;

std::string floats(const at::Tensor& x) {
  const auto values = x.to(at::kFloat).contiguous();
  return {static_cast<const char*>(values.const_data_ptr()), values.nbytes()};
}

// A decoder of one layer, drawn; its Q and K as they stand in Hugging Face's checkpoint.
struct SmallModel {
  GgufWriter writer;
  at::Tensor q, k, embedding;
};

void add(GgufWriter& writer, const std::string& name, const at::Tensor& x) {
  std::vector<uint64_t> shape;
  for (const auto size : x.sizes()) shape.push_back(static_cast<uint64_t>(size));
  writer.tensors.push_back({name, shape, 0, floats(x)});
}

// llama.cpp's rows: neighbours are rotated together. Written the other way round than the reader's: entry by entry.
at::Tensor neighbours(const at::Tensor& rows, int64_t head_dim) {
  auto out = at::empty_like(rows);
  for (int64_t row = 0; row < rows.size(0); ++row) {
    const int64_t head = row / head_dim, channel = row % head_dim, half = head_dim / 2;
    const int64_t stored = channel < half ? 2 * channel : 2 * (channel - half) + 1;
    out[head * head_dim + stored].copy_(rows[row]);
  }
  return out;
}

SmallModel small_model(const std::string& architecture = "llama") {
  at::manual_seed(1);
  SmallModel model{{},
                   at::randn({kHeads * kHeadDim, kHidden}),
                   at::randn({kKvHeads * kHeadDim, kHidden}),
                   at::randn({kVocab, kHidden})};
  auto& w = model.writer;
  const auto key = [&](const char* name) { return architecture + "." + name; };
  w.set("general.architecture", text(architecture));
  w.set(key("block_count"), u32(1));
  w.set(key("context_length"), u32(128));
  w.set(key("embedding_length"), u64(kHidden));
  w.set(key("feed_forward_length"), u32(kInner));
  w.set(key("attention.head_count"), u32(kHeads));
  w.set(key("attention.head_count_kv"), u32(kKvHeads));
  w.set(key("attention.layer_norm_rms_epsilon"), f32(1e-5f));
  w.set(key("rope.freq_base"), f32(50000.f));
  w.set("tokenizer.ggml.eos_token_id", u32(2));
  const bool swaps = architecture == "llama";
  add(w, "token_embd.weight", model.embedding);
  add(w, "output_norm.weight", at::ones({kHidden}));
  add(w, "blk.0.attn_norm.weight", at::ones({kHidden}));
  add(w, "blk.0.attn_q.weight", swaps ? neighbours(model.q, kHeadDim) : model.q);
  add(w, "blk.0.attn_k.weight", swaps ? neighbours(model.k, kHeadDim) : model.k);
  add(w, "blk.0.attn_v.weight", at::randn({kKvHeads * kHeadDim, kHidden}));
  add(w, "blk.0.attn_output.weight", at::randn({kHidden, kHeads * kHeadDim}));
  add(w, "blk.0.ffn_norm.weight", at::ones({kHidden}));
  add(w, "blk.0.ffn_gate.weight", at::randn({kInner, kHidden}));
  add(w, "blk.0.ffn_up.weight", at::randn({kInner, kHidden}));
  add(w, "blk.0.ffn_down.weight", at::randn({kHidden, kInner}));
  return model;
}

class GgufModel : public ::testing::Test {
 protected:
  std::filesystem::path write(const GgufWriter& writer) {
    writer.write(dir_ / "m.gguf");
    return dir_ / "m.gguf";
  }
  kvc::ModelConfig config(const GgufWriter& writer) { return kvc::load_model_config(write(writer)); }
  std::string refusal(const GgufWriter& writer) {
    return message_of([&] { config(writer); });
  }
  TempFolder dir_;
};

TEST_F(GgufModel, ConfigIsTheMetadata) {
  const auto model = config(small_model().writer);
  EXPECT_STREQ(model.architecture->name, "LlamaForCausalLM");
  EXPECT_EQ(model.n_layers, 1);
  EXPECT_EQ(model.n_heads, kHeads);
  EXPECT_EQ(model.n_kv_heads, kKvHeads);
  EXPECT_EQ(model.head_dim, kHeadDim);
  EXPECT_EQ(model.vocab_size, kVocab);
  EXPECT_EQ(model.max_position_embeddings, 128);
  EXPECT_EQ(model.rope.theta, 50000);
  EXPECT_EQ(model.norm_eps, 1e-5f);
  EXPECT_TRUE(model.tied_embeddings);
  EXPECT_EQ(model.eos_token_ids, std::vector<int64_t>{2});
}

TEST_F(GgufModel, EveryEndThatTheMetadataNamesEndsAnAnswer) {
  auto small = small_model();
  small.writer.set("tokenizer.ggml.eot_token_id", u32(5));
  small.writer.set("tokenizer.ggml.eom_token_id", u32(2));
  small.writer.set("tokenizer.ggml.fim_pad_token_id", u32(7));
  small.writer.set("tokenizer.ggml.fim_rep_token_id", u32(6));
  small.writer.set("tokenizer.ggml.fim_sep_token_id", u32(4));
  EXPECT_EQ(config(small.writer).eos_token_ids, (std::vector<int64_t>{2, 5, 7, 6, 4}));
  small.writer.set("tokenizer.ggml.fim_sep_token_id", u32(2));
  small.writer.set("tokenizer.ggml.eot_token_id", u32(kVocab));
  EXPECT_THAT(refusal(small.writer), HasSubstr("eos_token_id is [2,8,7,6], expected one or more integers from 0 to 7"));
}

// The sets that llama.cpp prints for such vocabularies ("EOG token"), where it trusts the types.
TEST_F(GgufModel, EveryEndThatIsKnownByItsTextEndsAnAnswer) {
  constexpr int32_t kNormal = 1, kControl = 3, kUserDefined = 4;
  const auto ends = [&](std::vector<std::string> tokens, std::vector<int32_t> types) {
    auto small = small_model();
    tokens.resize(kVocab), types.resize(kVocab, kNormal);
    small.writer.set("tokenizer.ggml.tokens", texts(tokens));
    small.writer.set("tokenizer.ggml.token_type", i32s(types));
    return config(small.writer).eos_token_ids;
  };
  using Ids = std::vector<int64_t>;
  const std::vector<int32_t> control(kVocab, kControl);
  EXPECT_EQ(ends({"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, control), (Ids{2, 0}));  // Qwen2.5
  EXPECT_EQ(ends({"<|begin_of_text|>", "<|end_of_text|>", "a", "<|eom_id|>", "<|eot_id|>"}, control),
            (Ids{2, 1, 3, 4}));
  EXPECT_EQ(ends({"<s>", "<|user|>", "</s>", "<|end|>", "<|endoftext|>"}, control), (Ids{2, 3, 4}));  // Phi-3
  EXPECT_EQ(ends({"<bos>", "<eos>", "x", "<end_of_turn>", "<start_of_turn>"}, control), (Ids{2, 1, 3}));
  EXPECT_EQ(ends({"<EOT>", "_<EOT>", "x", "[EOT]", "[EOS]", "<｜end▁of▁sentence｜>"}, control),
            (Ids{2, 0, 1, 3, 4, 5}));
  EXPECT_EQ(ends({"<|fim_prefix|>", "<|fim_pad|>", "x", "<|repo_name|>", "<|file_sep|>"}, control), (Ids{2, 1, 3, 4}));
  EXPECT_EQ(ends({"</s>", "<|endoftext|>", "x"}, {kNormal, kUserDefined}), Ids{2});      // tags that texts hold
  EXPECT_EQ(ends({"<|end|>", "<|return|>", "x", "<|call|>"}, control), (Ids{2, 1, 3}));  // a message of several
  EXPECT_EQ(ends({"<|end|>", "<|return|>", "x"}, control), (Ids{2, 0, 1}));
  EXPECT_EQ(ends({"<|end|>", "<|flush|>", "x", "<|calls|>"}, control), (Ids{2, 1, 3}));
  EXPECT_EQ(ends({"</s>", "<|tool_response>", "x", "<turn|>"}, control), (Ids{2, 1, 3}));
}

TEST_F(GgufModel, TextsAloneTellTheEndWhereAFileHasNoTypes) {
  auto small = small_model();
  small.writer.set("tokenizer.ggml.tokens", texts({"a", "<|endoftext|>", "b", "c", "d", "e", "f", "g"}));
  EXPECT_EQ(config(small.writer).eos_token_ids, (std::vector<int64_t>{2, 1}));
  small.writer.erase("tokenizer.ggml.eos_token_id");
  small.writer.set("tokenizer.ggml.tokens", texts({"<unk>", "<s>", "</s>", "c", "d", "e", "f", "[PAD]"}));
  small.writer.set("tokenizer.ggml.fim_pad_token_id", u32(3));  // it says which one is
  EXPECT_EQ(config(small.writer).eos_token_ids, (std::vector<int64_t>{3, 2}));
  small.writer.set("tokenizer.ggml.model", text("llama"));  // 1 and 2 by their place
  EXPECT_EQ(config(small.writer).bos_token_ids, std::vector<int64_t>{1});
  EXPECT_EQ(config(small.writer).eos_token_ids, (std::vector<int64_t>{2, 3}));
}

TEST_F(GgufModel, AValueForEachLayerHasToBeOneForAll) {
  auto small = small_model();
  small.writer.set("llama.attention.head_count_kv", i32s({2, 2}));
  EXPECT_EQ(config(small.writer).n_kv_heads, 2);
  small.writer.set("llama.attention.head_count_kv", i32s({2, 1}));
  EXPECT_THAT(refusal(small.writer), HasSubstr("'llama.attention.head_count_kv' differs from layer to layer"));
}

TEST_F(GgufModel, WhatIsNotComputedIsRefusedByName) {
  const auto with = [](const std::string& key, const GgufValueBytes& value) {
    auto writer = small_model().writer;
    writer.set(key, value);
    return writer;
  };
  EXPECT_THAT(
      refusal(with("general.architecture", text("mpt"))),
      HasSubstr("general.architecture is 'mpt', supported: llama, mistral3, qwen2, qwen3, qwen3moe, gpt-oss, "));
  EXPECT_THAT(refusal(with("general.architecture", text("qwen3next"))), HasSubstr("layers without K and V"));
  EXPECT_THAT(refusal(with("general.architecture", text("gemma4"))), HasSubstr("use gemma3"));
  EXPECT_THAT(refusal(with("llama.expert_count", u32(8))), HasSubstr("'num_experts_per_tok' is missing"));
  const std::pair<const char*, GgufValueBytes> other[] = {
      {"llama.attention.scale", f32(0.1f)},
      {"llama.attention.scale", f32(1)},
      {"llama.attn_logit_softcapping", f32(50)},
      {"llama.residual_scale", f32(0.22f)},
      {"llama.logit_scale", f32(0.0625f)},
      {"llama.embedding_scale", f32(12)},
      {"llama.attention.causal", boolean(false)},
      {"llama.use_parallel_residual", boolean(true)},
      {"llama.attention.sliding_window_pattern", array(7, {boolean(true), boolean(false)})},
      {"llama.hidden_activation", text("gelu")}};
  for (const auto& [key, value] : other) {
    EXPECT_THAT(refusal(with(key, value)), HasSubstr(std::string("m.gguf: key '") + key + "'"));
    EXPECT_THAT(refusal(with(key, value)), HasSubstr("is none that is computed here"));
  }
  EXPECT_THAT(refusal(with("llama.logit_scale", f32(2))), HasSubstr("'llama.logit_scale' (2) is none"));
  const std::pair<const char*, GgufValueBytes> nothing[] = {{"llama.expert_count", u32(0)},
                                                            {"llama.attention.scale", f32(0)},
                                                            {"llama.residual_scale", f32(1)},
                                                            {"llama.attn_logit_softcapping", f32(0)},
                                                            {"llama.attention.causal", boolean(true)},
                                                            {"llama.rope.scaling.attn_factor", f32(1)},
                                                            {"llama.use_parallel_residual", boolean(false)}};
  for (const auto& [key, value] : nothing) EXPECT_EQ(config(with(key, value)).n_layers, 1) << key;
  EXPECT_THAT(refusal(with("llama.rope.dimension_count", u32(8))),
              HasSubstr("rope.dimension_count is 8, supported: the head's 16 channels"));
  EXPECT_THAT(refusal(with("llama.rope.scaling.type", text("yarn"))), HasSubstr("factor is 0.0, expected"));
  EXPECT_THAT(refusal(with("llama.block_count", text("1"))), HasSubstr("is of another type, expected an integer"));
  EXPECT_THAT(refusal(with("llama.attention.head_count", u32(0))), HasSubstr("head_count is 0"));
  EXPECT_THAT(refusal(with("llama.attention.head_count", u32(3))), HasSubstr("num_key_value_heads is 2"));
  EXPECT_THAT(refusal(with("llama.block_count", u64(uint64_t{1} << 62))), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(refusal(with("llama.embedding_length", i64(-64))), HasSubstr("hidden_size"));
}

TEST_F(GgufModel, LinearScalingIsReadAndAWindowMakesItAMistral) {
  auto small = small_model();
  small.writer.set("llama.rope.scaling.type", text("linear"));
  small.writer.set("llama.rope.scaling.factor", f32(4.f));
  small.writer.set("llama.attention.sliding_window", u32(32));
  const auto model = config(small.writer);
  EXPECT_EQ(model.rope.type, kvc::RopeType::linear);
  EXPECT_EQ(model.rope.factor, 4);
  EXPECT_EQ(model.sliding_window, 32);
  small.writer.erase("llama.rope.scaling.type");  // what llama.cpp takes then, and files had before there were types
  EXPECT_EQ(config(small.writer).rope.factor, 4);
  small.writer.erase("llama.rope.scaling.factor");
  EXPECT_EQ(config(small.writer).rope.type, kvc::RopeType::plain);
  small.writer.set("llama.rope.scale_linear", f32(8.f));
  EXPECT_EQ(config(small.writer).rope.factor, 8);
  small.writer.set("llama.rope.scaling.type", text("none"));
  EXPECT_EQ(config(small.writer).rope.type, kvc::RopeType::plain);
}

TEST_F(GgufModel, AWindowIsReadOfPhi3AndRefusedOfQwen) {
  auto phi3 = small_model("phi3"), qwen2 = small_model("qwen2");
  phi3.writer.set("phi3.attention.sliding_window", u32(32));
  EXPECT_EQ(config(phi3.writer).sliding_window, 32);
  qwen2.writer.set("qwen2.attention.sliding_window", u32(32));
  EXPECT_THAT(refusal(qwen2.writer), HasSubstr("the file does not say in which layers; supported: 0"));
}

// Llama 3.1's scaling as llama.cpp's converter writes it: divisors in a tensor, no key. The expected frequencies are
// Hugging Face's rope_type llama3.
TEST_F(GgufModel, RopeDivisorsAreLlama3sScaling) {
  auto small = small_model();
  kvc::RopeConfig llama3{kvc::RopeType::llama3, 50000, 8, 1, 4, 64, {}};
  kvc::RopeConfig plain{kvc::RopeType::plain, 50000, 1, 1, 4, 64, {}};
  const auto expected = kvc::rope_frequencies(llama3, kHeadDim), unscaled = kvc::rope_frequencies(plain, kHeadDim);
  auto divisors = at::empty({kHeadDim / 2});
  for (int64_t i = 0; i < kHeadDim / 2; ++i) {
    divisors[i].fill_(unscaled[static_cast<size_t>(i)] / expected[static_cast<size_t>(i)]);
  }
  add(small.writer, "rope_freqs.weight", divisors);
  const auto found = kvc::rope_frequencies(config(small.writer).rope, kHeadDim);
  EXPECT_GT(divisors.max().item<float>(), 7.9f);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i] / expected[i], 1, 1e-6) << i;
  small.writer.tensors.back().bytes = floats(at::zeros({kHeadDim / 2}));
  EXPECT_THAT(refusal(small.writer), HasSubstr("rope_freqs.weight holds 0, expected numbers above 0"));
  small.writer.tensors.back() = {"rope_freqs.weight", {kHeadDim}, 0, floats(at::ones({kHeadDim}))};
  EXPECT_THAT(refusal(small.writer), HasSubstr("expected F32 of 8"));
}

TEST_F(GgufModel, RowsOfQAndKComeBackInHuggingFacesOrder) {
  const auto small = small_model();
  const auto tensors = kvc::open_gguf_tensors(write(small.writer));
  EXPECT_TRUE(at::equal(tensors->tensor("model.layers.0.self_attn.q_proj.weight", {64, 64}), small.q));
  EXPECT_TRUE(at::equal(tensors->tensor("model.layers.0.self_attn.k_proj.weight", {32, 64}), small.k));
  EXPECT_TRUE(at::equal(tensors->tensor("model.embed_tokens.weight", {kVocab, kHidden}), small.embedding));
}

TEST_F(GgufModel, BiasesAreSwappedAsTheRowsAre) {
  auto small = small_model();
  const auto bias = at::randn({kHeads * kHeadDim});
  add(small.writer, "blk.0.attn_q.bias", neighbours(bias, kHeadDim));
  const auto path = write(small.writer);
  EXPECT_TRUE(kvc::load_model_config(path).qkv_bias);
  const auto tensors = kvc::open_gguf_tensors(path);
  EXPECT_TRUE(at::equal(tensors->tensor("model.layers.0.self_attn.q_proj.bias", {kHeads * kHeadDim}), bias));
}

TEST_F(GgufModel, OtherFamiliesKeepTheirRows) {
  for (const std::string family : {"qwen2", "qwen3"}) {
    auto small = small_model(family);
    small.writer.set(family + ".attention.key_length", u32(kHeadDim));
    const auto tensors = kvc::open_gguf_tensors(write(small.writer));
    EXPECT_TRUE(at::equal(tensors->tensor("model.layers.0.self_attn.q_proj.weight", {64, 64}), small.q)) << family;
  }
}

// Rows of blocks are swapped whole: what comes out is what swapping the floats gives.
TEST_F(GgufModel, BlocksAreSwappedAsRows) {
  auto small = small_model();
  std::string bytes;
  for (int i = 0; i < 64 * 2; ++i) {  // 64 rows of two Q8_0 blocks: scale 1, and the row's number
    bytes += std::string("\x00\x3C", 2) + std::string(32, static_cast<char>(i / 2));
  }
  small.writer.tensors[3] = {"blk.0.attn_q.weight", {64, 64}, 8, bytes};
  const auto tensors = kvc::open_gguf_tensors(write(small.writer));
  const auto name = "model.layers.0.self_attn.q_proj.weight";
  const auto rows = tensors->tensor(name, {64, 64}).select(1, 63);
  const auto expected = at::arange(64).view({4, 8, 2}).transpose(1, 2).reshape({64}).to(at::kFloat);
  EXPECT_TRUE(at::equal(rows, expected));
  const auto blocks = tensors->blocks(name, {64, 64});
  ASSERT_TRUE(blocks.has_value());
  EXPECT_EQ(blocks->bytes.sizes(), (std::vector<int64_t>{64, 68}));
  EXPECT_EQ(blocks->bytes[1][2].item<uint8_t>(), 2);  // Hugging Face's row 1 is the stored row 2
  EXPECT_FALSE(tensors->blocks("model.norm.weight", {kHidden}).has_value());
}

TEST_F(GgufModel, ShapesAndNamesThatDoNotFitAreToldWithBoth) {
  const auto tensors = kvc::open_gguf_tensors(write(small_model().writer));
  EXPECT_THAT(message_of([&] { tensors->tensor("model.norm.weight", {32}); }),
              HasSubstr("tensor 'output_norm.weight' has shape [64], expected [32] from the metadata"));
  EXPECT_THAT(message_of([&] {
                tensors->tensor("lm_head.weight", {8, 64});
              }),
              HasSubstr("no tensor for 'lm_head.weight'"));
  auto small = small_model();
  add(small.writer, "blk.0.attn_sinks.weight", at::ones({4}));
  EXPECT_THAT(kvc::open_gguf_tensors(write(small.writer))->names(), ::testing::Contains("blk.0.attn_sinks.weight"));
}

TEST_F(GgufModel, WeightsFormatIsThatOfTheLayersMatrices) {
  auto small = small_model();
  EXPECT_EQ(kvc::weights_format(kvc::GgufFile(write(small.writer))), "F32");
  small.writer.tensors[3] = {"blk.0.attn_q.weight", {64, 64}, 8, std::string(64 * 68, '\0')};
  EXPECT_EQ(kvc::weights_format(kvc::GgufFile(write(small.writer))), "F32, Q8_0");
}

// Attention scores are the same whichever way rows are rotated, since both rotate the same pairs.
TEST_F(GgufModel, HalvesRotatedAfterSwappingAreNeighboursRotatedBefore) {
  const auto hf_q = at::randn({kHeadDim, kHidden}), hf_k = at::randn({kHeadDim, kHidden}), x = at::randn({5, kHidden});
  const auto score = [&](const at::Tensor& q_rows, const at::Tensor& k_rows, bool halves) {
    const auto turn = [&](at::Tensor rows) {  // [5, D]
      auto turned = at::empty_like(rows);
      for (int64_t t = 0; t < 5; ++t) {
        for (int64_t i = 0; i < kHeadDim / 2; ++i) {
          const double angle = static_cast<double>(t) * std::pow(10000.0, -2.0 * static_cast<double>(i) / kHeadDim);
          const int64_t a = halves ? i : 2 * i, b = halves ? i + kHeadDim / 2 : 2 * i + 1;
          const auto first = rows[t][a] * std::cos(angle) - rows[t][b] * std::sin(angle);
          turned[t][b].copy_(rows[t][b] * std::cos(angle) + rows[t][a] * std::sin(angle));
          turned[t][a].copy_(first);
        }
      }
      return turned;
    };
    return turn(at::matmul(x, q_rows.t())).matmul(turn(at::matmul(x, k_rows.t())).t());
  };
  const auto a = score(hf_q, hf_k, true), b = score(neighbours(hf_q, kHeadDim), neighbours(hf_k, kHeadDim), false);
  EXPECT_LT((a - b).abs().max().item<float>(), 1e-3f * a.abs().max().item<float>());
}

}  // namespace
