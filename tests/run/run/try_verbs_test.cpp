// The verbs for trying one thing by hand.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "kvc/layer_cache.h"
#include "support/program.h"

namespace kvc::test {
namespace {

TEST(Apply, WritesWhatAttentionSeesAndCountsItsBytes) {
  TempFolder folder;
  at::manual_seed(1);
  const int64_t n_kv_heads = 2, n_tokens = 100, head_dim = 64;
  const auto k = at::randn({n_kv_heads, n_tokens, head_dim}), v = at::randn({n_kv_heads, n_tokens, head_dim});
  const auto q = at::randn({8, 1, head_dim});
  write_safetensors(folder / "in.safetensors", {{"k", k}, {"v", v}, {"q", q}});
  const auto run = run_program(folder, {"apply", "token_group", "--options", R"({"bits": 4, "group_size": 32})",
                                        "--input", (folder / "in.safetensors").string(), "--output",
                                        (folder / "out.safetensors").string(), "--prompt_tokens", "90"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const SafetensorsFile out(folder / "out.safetensors");
  const KeyValue held{out.tensor("k"), out.tensor("v")};
  ASSERT_EQ(held.k.sizes(), k.sizes());
  // 4 bits over groups of 32 normal numbers: the step is about 4/15, its error at most half of that.
  EXPECT_LT((held.k - k).abs().max().item<float>(), 0.3);
  EXPECT_GT((held.k - k).abs().max().item<float>(), 0.05);
  const auto expected = reference_attention(q, held, out.tensor("positions"), n_tokens, 1.0 / 8.0);
  EXPECT_LT((out.tensor("attention") - expected).abs().max().item<float>(), 1e-5);

  const auto report = nlohmann::json::parse(run.out);
  // Pencil: 2 tensors x 2 heads x 100 tokens x (32 bytes of codes + 2 groups x (2 + 2) bytes)
  EXPECT_EQ(report["bytes"], 2 * 2 * 100 * (32 + 2 * 4));
  EXPECT_EQ(report["fp16_bytes"], 2 * 2 * 100 * 64 * 2);
  EXPECT_EQ(report["n_encoded_tokens"], 100);
}

TEST(Apply, RefusesShapesThatDoNotFitInOneLine) {
  TempFolder folder;
  write_safetensors(folder / "in.safetensors", {{"k", at::zeros({2, 10, 64})}, {"v", at::zeros({2, 9, 64})}});
  const auto run = run_program(folder, {"apply", "full", "--input", (folder / "in.safetensors").string(), "--output",
                                        (folder / "out.safetensors").string()});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("k has shape [2, 10, 64] and v [2, 9, 64]"), std::string::npos) << run.err;
}

TEST(Logits, ThroughAnExactCacheEqualThoseOfThePrefill) {
  TempFolder folder;
  // Text the model was made for: on ids that are no text, its sharp attention makes 1e-3 of fp32's last bits.
  const auto text = read_file(std::filesystem::path(KVC_SOURCE_DIR) / "prompts/demo/truth.txt");
  auto ids =
      nlohmann::json::parse(run_program(folder, {"tokenize", "models/demo"}, nlohmann::json(text).dump() + "\n").out);
  ids.erase(ids.begin() + 80, ids.end());
  const auto file = folder.write("ids.json", ids.dump()).string();
  const auto exact = (folder / "exact.safetensors").string(), cached = (folder / "cached.safetensors").string();
  const auto first = run_program(folder, {"logits", "models/demo", "--ids", file, "--output", exact});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const auto second = run_program(folder, {"logits", "models/demo", "--ids", file, "--output", cached, "--compressor",
                                           "full", "--options", R"({"dtype": "fp32"})", "--prompt-tokens", "20"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  const auto a = SafetensorsFile(exact).tensor("logits"), b = SafetensorsFile(cached).tensor("logits");
  ASSERT_EQ(a.size(0), 80);
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_LT((a - b).abs().max().item<float>(), 1e-4);  // other orders of summation
}

TEST(Tokenize, GivesBackItsText) {
  TempFolder folder;
  const std::string text = R"("Q: How many?\nA: 23 — é 你好 🙂")";
  const auto ids = run_program(folder, {"tokenize", "models/demo"}, text + "\n");
  ASSERT_EQ(ids.exit_code, 0) << ids.err;
  const auto back = run_program(folder, {"tokenize", "models/demo", "--decode"}, ids.out);
  ASSERT_EQ(back.exit_code, 0) << back.err;
  EXPECT_EQ(nlohmann::json::parse(back.out), nlohmann::json::parse(text));
}

TEST(Tokenize, NamesTheLineThatIsNoString) {
  TempFolder folder;
  const auto run = run_program(folder, {"tokenize", "models/demo"}, "\"fine\"\n{oops\n");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("standard input:2: not JSON"), std::string::npos) << run.err;
}

TEST(Generate, WithTheUncompressedPluginIsWhatTheExactCacheGives) {
  TempFolder folder;
  const auto prompt = (std::filesystem::path(KVC_SOURCE_DIR) / "prompts/demo/truth.txt").string();
  const std::vector<std::string> arguments{"generate",         "models/demo", "--prompt-file", prompt,
                                           "--max-new-tokens", "60",          "--ids"};
  const auto exact = run_program(folder, arguments);
  ASSERT_EQ(exact.exit_code, 0) << exact.err;
  auto with_plugin = arguments;
  for (const char* argument : {"--compressor", "full", "--options", R"({"dtype": "fp32"})"})
    with_plugin.push_back(argument);
  EXPECT_EQ(run_program(folder, with_plugin).out, exact.out);
}

}  // namespace
}  // namespace kvc::test
