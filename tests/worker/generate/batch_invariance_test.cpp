// What is decoded beside a sequence, before it or on how many threads, changes no bit of its logits.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "checkpoint/safetensors.h"
#include "generate/generator.h"
#include "kvc/plugin.h"
#include "plugin_loader/plugin_library.h"
#include "support/small_llama.h"
#include "support/temp_folder.h"

namespace kvc {
namespace {

constexpr int64_t kShared = 150;  // tokens that all prompts begin with
const char* const kDemo = KVC_SOURCE_DIR "/models/demo";

void write_random_model(const test::TempFolder& dir) {
  const test::SmallLlama model{.hidden = 72, .mlp = 152, .head_dim = 32, .vocab = 101, .layers = 3, .positions = 600};
  at::manual_seed(5);
  write_safetensors(dir / "model.safetensors", model.weights());
  dir.write("config.json", model.config().dump());
}

std::vector<int64_t> prompt(size_t i, int64_t vocab_size) {
  std::vector<int64_t> ids;
  const auto n = kShared + 3 + static_cast<int64_t>(i * i * 7 % 90);
  for (int64_t t = 0; t < n; ++t) {
    const int64_t salt = t < kShared ? 0 : static_cast<int64_t>(i) + 1;
    ids.push_back((t * t * 31 + 17 * t + salt * 13) % vocab_size);
  }
  return ids;
}

struct Setting {
  std::string name;
  int64_t batch = 1;  // prompts under way at a time
  bool reversed = false, share_prefix = false, together = true;
  int threads = 1;
};

// The bits of all logits of each (prompt, compressor), in the order of their tokens.
using Bits = std::map<std::pair<size_t, size_t>, std::vector<float>>;

class BatchInvariance : public testing::TestWithParam<std::tuple<bool, at::ScalarType>> {
 protected:
  // The demo model takes most of the time: as many prompts as make a batch that is not full and one that is.
  static size_t n_prompts() { return std::get<0>(GetParam()) ? 16 : 6; }

  Bits run(const Transformer& model, const Tokenizer& tokenizer, MemoryMeter& meter,
           const std::vector<const Compressor*>& compressors, const Setting& setting) {
    at::set_num_threads(setting.threads);
    struct Work {
      size_t prompt;
      std::vector<size_t> compressors;
    };
    std::vector<Work> work;
    for (size_t p = 0; p < n_prompts(); ++p) {
      if (setting.together) work.push_back({p, {0, 1, 2}});
      for (size_t c = 0; c < 3 && !setting.together; ++c) work.push_back({p, {c}});
    }
    if (setting.reversed) std::reverse(work.begin(), work.end());

    Bits bits;
    std::map<int64_t, Work> by_ticket;
    Generator generator(model, tokenizer, meter, setting.share_prefix);
    generator.on_logits([&](int64_t ticket, size_t compressor, const at::Tensor& logits) {
      const auto& job = by_ticket.at(ticket);
      auto& all = bits[{job.prompt, job.compressors[compressor]}];
      all.insert(all.end(), logits.const_data_ptr<float>(), logits.const_data_ptr<float>() + logits.numel());
    });
    int64_t n_reused = 0;
    size_t next = 0, running = 0;
    while (next < work.size() || generator.n_sequences() > 0) {
      for (; next < work.size() && running < static_cast<size_t>(setting.batch); ++next, ++running) {
        GenerationRequest request;
        request.prompt_ids = prompt(work[next].prompt, model.config().vocab_size);
        for (const size_t c : work[next].compressors) request.compressors.push_back(compressors[c]);
        request.sequence_key = work[next].prompt;
        request.stop.max_new_tokens = 8 + static_cast<int64_t>(work[next].prompt % 5) * 5;
        request.n_shared_tokens = kShared;
        by_ticket[generator.add(std::move(request))] = work[next];
      }
      for (const auto& finished : generator.step()) {
        EXPECT_EQ(finished.generation.error, "") << setting.name;
        n_reused += finished.generation.n_reused_tokens;
        if (finished.compressor + 1 == by_ticket.at(finished.ticket).compressors.size()) --running;
      }
    }
    EXPECT_EQ(n_reused > 0, setting.share_prefix) << setting.name;
    at::set_num_threads(1);
    return bits;
  }
};

TEST_P(BatchInvariance, LogitsHaveTheSameBitsHoweverSequencesAreRun) {
  const auto& [random, dtype] = GetParam();
  const test::TempFolder dir;
  if (random) write_random_model(dir);
  MemoryMeter meter;
  const auto model = Transformer::load(random ? dir.path() : std::filesystem::path(kDemo), dtype);
  const auto tokenizer = Tokenizer::load(kDemo);
  std::vector<std::unique_ptr<Compressor>> made;
  std::vector<const Compressor*> compressors;
  const std::vector<std::pair<std::string, nlohmann::json>> choices = {
      {"full", nullptr},
      {"kivi", {{"bits", 2}, {"group_size", 32}, {"recent", 32}}},
      {"gear", {{"backbone", "kivi"}, {"bits", 2}, {"group_size", 32}, {"rank", 2}}}};
  for (const auto& [name, options] : choices) {
    made.push_back(PluginLibrary(std::string(KVC_BINARY_DIR) + "/plugins/" + name + ".so").make(options));
    compressors.push_back(made.back().get());
  }

  const auto alone = run(model, tokenizer, meter, compressors, {.name = "alone"});
  ASSERT_EQ(alone.size(), n_prompts() * 3);
  const std::vector<Setting> settings = {
      {.name = "batch of 4", .batch = 4},
      {.name = "batch of 16, reversed", .batch = 16, .reversed = true},
      {.name = "two threads, batch of 16", .batch = 16, .threads = 2},
      {.name = "two threads, alone, prefix shared", .share_prefix = true, .threads = 2},
      {.name = "batch of 4, prefix shared", .batch = 4, .share_prefix = true},
      {.name = "compressors apart, batch of 16, prefix shared, reversed",
       .batch = 16,
       .reversed = true,
       .share_prefix = true,
       .together = false}};
  for (const auto& setting : settings) {
    const auto bits = run(model, tokenizer, meter, compressors, setting);
    for (const auto& [key, logits] : alone) {
      const auto& other = bits.at(key);
      ASSERT_EQ(other.size(), logits.size()) << setting.name;
      EXPECT_EQ(std::memcmp(other.data(), logits.data(), logits.size() * sizeof(float)), 0)
          << setting.name << ": prompt " << key.first << ", " << choices[key.second].first;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Models, BatchInvariance,
                         testing::Combine(testing::Bool(), testing::Values(at::kFloat, at::kBFloat16)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "Random" : "Demo") +
                                  at::toString(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace kvc
