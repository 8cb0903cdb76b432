// How many kernels a decode step takes of one layer's caches, on the emulated device, which counts. KVC_TEST_MORE=1 prints
// them for more compressors.
#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "cuda_emulator/emulated_device.h"
#include "generate/batch_attention.h"
#include "method.h"

namespace kvc::conformance {
namespace {

// After a first step, which makes room. 65 steps fill windows and buffers of 64 tokens once.
int64_t n_counted(int64_t batch) { return batch == 1 ? 65 : 4; }

struct Kernels {
  double mean = 0;
  int64_t most = 0;
};

// Sequences of 600 tokens and a few more each, so that buffers are full at different steps.
Kernels kernels_of(const std::string& name, const nlohmann::json& options, int64_t batch) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const auto device = emulated_device();
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 64};
  const auto compressor = plugin(name).make(options);
  auto input = ordinary_input(model, 600 + 4 * batch + n_counted(batch) + 1, 5);
  for (auto* x : {&input.q, &input.k, &input.v}) *x = x->to(at::kHalf).to(device);
  MemoryMeter meter;
  std::vector<SequenceCaches> caches(static_cast<size_t>(batch));
  std::vector<Generation> out(static_cast<size_t>(batch));
  std::vector<CacheStep> steps;
  const auto length = [](int64_t b) { return 600 + 4 * b; };
  for (int64_t b = 0; b < batch; ++b) {
    auto& own = caches[static_cast<size_t>(b)];
    own.push_back(compressor->make_cache(layer_info(model, 0, 7, {}, device)));
    own.front()->append(tokens_of(input, 0, length(b)));
    out[static_cast<size_t>(b)].n_hidden = {0};
    steps.push_back({compressor.get(), &own, meter.take_account(), [](bool) {}, &out[static_cast<size_t>(b)]});
  }
  Kernels kernels;
  for (int64_t step = 0; step <= n_counted(batch); ++step) {
    std::vector<NewTokens> tokens;
    for (int64_t b = 0; b < batch; ++b) tokens.push_back(tokens_of(input, length(b) + step, 1));
    auto attended = at::empty({batch, model.n_heads, model.head_dim}, at::TensorOptions(at::kFloat).device(device));
    const int64_t before = n_kernels_of_emulated_device();
    step_caches(steps, 0, 0, tokens, model.attention_scale, meter, attended);
    const int64_t n = n_kernels_of_emulated_device() - before - 3;  // that read the checks, once for all layers
    for (const auto& one : out) EXPECT_EQ(one.error, "");
    if (step == 0) continue;
    kernels.mean += static_cast<double>(n) / static_cast<double>(n_counted(batch));
    kernels.most = std::max(kernels.most, n);
  }
  return kernels;
}

struct Row {
  std::string name, options;
};

constexpr double kMostKernels = 12;

// What is stored is one launch, what is read one a kind of part.
TEST(StepOnADevice, TakesAsFewKernelsForABatchAsForASequence) {
  const Row rows[] = {{"full", "{}"},
                      {"kivi", R"({"bits": 4, "group_size": 64, "recent": 64})"},
                      {"kivi", R"({"bits": 2, "group_size": 64, "recent": 64})"},
                      {"token_group", R"({"bits": 4, "group_size": 64})"},
                      {"rtn", R"({"bits": 4})"},
                      {"fp8", "{}"},
                      {"mxfp4", "{}"}};
  for (const auto& [name, options] : rows) {
    for (const int64_t batch : {1, 16}) {
      EXPECT_LE(kernels_of(name, nlohmann::json::parse(options), batch).mean, kMostKernels)
          << name << options << ", batch of " << batch;
    }
  }
}

TEST(StepOnADevice, CountsOfOtherCompressors) {
  if (!std::getenv("KVC_TEST_MORE")) GTEST_SKIP() << "KVC_TEST_MORE=1 counts them";
  const Row rows[] = {
      {"full", "{}"},
      {"kivi", R"({"bits": 4, "group_size": 64, "recent": 64})"},
      {"token_group", R"({"bits": 4, "group_size": 64})"},
      {"rtn", R"({"bits": 4})"},
      {"kcvt", "{}"},
      {"quanto", R"({"bits": 4, "group_size": 64, "residual": 64})"},
      {"gear",
       R"({"backbone": "kivi", "bits": 2, "group_size": 64, "buffer": 64, "rank": 4, "decode_rank": 2, "sparsity": 0.02})"},
      {"gearx", R"({"backbone": "kivi", "bits": 2, "group_size": 64, "buffer": 64, "rank": 4, "decode_rank": 2})"},
      {"outlier", R"({"backbone": "kivi", "bits": 2, "group_size": 64, "buffer": 64, "sparsity": 0.02})"},
      {"tada", R"({"bits": 4, "recent": 64})"},
      {"decoquant", R"({"bits": 4, "buffer": 64})"},
      {"qjl", R"({"outlier_channels": 4, "value_bits": 2, "group_size": 64, "buffer": 64})"},
      {"kvarn", R"({"k_bits": 2, "v_bits": 2, "tile": 64, "sinks": 4})"},
      {"kitty", R"({"promote_ratio": 0.1, "page": 64, "sinks": 4})"},
      {"oscar", R"({"bits": 2, "group_size": 64, "sinks": 4, "recent": 64})"},
      {"oscar_tni", R"({"bits": 2, "group_size": 64, "buffer": 64})"},
      {"int8", R"({"scale_bits": 16})"},
      {"fp8", "{}"},
      {"nvfp4", "{}"},
      {"mxfp4", "{}"},
      {"llama_cpp", R"({"type_k": "q4_0", "type_v": "q4_0"})"},
      {"hqq", "{}"},
      {"turboquant", R"({"bits": 4})"},
      {"kvquant", R"({"bits": 4})"},
      {"h2o", R"({"heavy_ratio": 0.125, "recent_ratio": 0.125})"},
      {"snapkv", R"({"capacity": 256})"},
      {"window", R"({"sinks": 4, "recent": 252})"},
      {"think", "{}"}};
  for (const auto& [name, options] : rows) {
    for (const int64_t batch : {1, 4, 16}) {
      const auto kernels = kernels_of(name, nlohmann::json::parse(options), batch);
      std::printf("%-12s batch %2ld: %6.1f on average, %4ld at most\n", name.c_str(), batch, kernels.mean,
                  kernels.most);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace kvc::conformance
