// The end of a prompt's prefill: what the model reads for an observation, who gets it, and when.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "generator_fixture.h"

namespace kvc {
namespace {

using test::Failing;
using test::GeneratorOnDemo;

// What a compressor's code was called for.
struct Call {
  std::string what;
  int64_t layer = -1, first_token = -1;
  at::Tensor q = {}, k = {}, prompt_k = {};
};
using Calls = std::vector<Call>;

struct ObservedCache final : ExactCache {
  ObservedCache(const LayerInfo& info, Calls& calls) : ExactCache(info), layer(info.layer), calls(calls) {}
  void append(const NewTokens& tokens) override {
    calls.push_back({length() == 0 ? "prompt" : "step", layer});
    ExactCache::append(tokens);
  }
  int64_t layer;
  Calls& calls;
};

// Exact caches; notes what it is asked.
class Observer final : public ExactCompressor, public ObservationPass {
 public:
  Observer(MemoryMeter& meter, Observation observation, Calls& calls, std::string fails = "")
      : meter_(meter), observation_(std::move(observation)), calls_(calls), fails_(std::move(fails)) {}

  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    return std::make_unique<ObservedCache>(info, calls_);
  }
  Observation observation() const override { return observation_; }
  void observe(LayerCache& cache, const ObservedChunk& chunk) const override {
    KVC_CHECK(fails_ != "throws", "no pass for me");
    if (fails_ == "keeps") kept_ = chunk.prompt_k;
    const MemoryMeter::Scope notes_are_the_tests(meter_, MemoryMeter::kUnseen);
    calls_.push_back({"observe", dynamic_cast<ObservedCache&>(cache).layer, chunk.first_token, chunk.q.clone(),
                      chunk.k.clone(), chunk.prompt_k.clone()});
  }
  void finish_prefill(std::span<LayerCache* const> caches) const override {
    for (auto* cache : caches) calls_.push_back({"finish", dynamic_cast<ObservedCache&>(*cache).layer});
  }

 private:
  MemoryMeter& meter_;
  Observation observation_;
  Calls& calls_;
  std::string fails_;
  mutable at::Tensor kept_;
};

const Observation kRepeat{"\nAgain. ", "\nGo on after ", "\n", 40, 8};

class PromptEndTest : public GeneratorOnDemo {
 protected:
  GenerationRequest request(std::vector<const Compressor*> compressors, int64_t n_tokens = 100) {
    GenerationRequest request;
    for (int64_t i = 0; i < n_tokens; ++i) request.prompt_ids.push_back(3 + (7 * i * i + i) % 500);
    request.compressors = std::move(compressors);
    request.stop.max_new_tokens = 4;
    return request;
  }

  // Of a forward pass over all tokens at once, [layer]: {q, k} of the last n.
  std::vector<NewTokens> last_of(const std::vector<int64_t>& ids, int64_t n) {
    std::vector<NewTokens> layers;
    model_.prefill(ids, [&](int64_t, const at::Tensor& q, const at::Tensor& k, const at::Tensor&) {
      layers.push_back({q.narrow(1, q.size(1) - n, n).clone(), k.narrow(1, k.size(1) - n, n).clone(), k.clone()});
    });
    return layers;
  }
};

TEST_F(PromptEndTest, TheModelReadsTextLeadInAndChunkBehindTheWholePrompt) {
  Calls calls;
  const Observer observer(meter_, kRepeat, calls);
  const auto asked = request({&observer});
  generator_.add(asked);
  const auto& prompt = asked.prompt_ids;
  const auto exact = last_of(prompt, 1);
  std::erase_if(calls, [](const Call& call) { return call.what != "observe"; });
  ASSERT_EQ(calls.size(), 3u * 4u);  // chunks of 40, 40, 20 tokens, four layers
  for (int64_t chunk = 0; chunk < 3; ++chunk) {
    const int64_t first = 40 * chunk, end = std::min<int64_t>(100, first + 40);
    auto ids = prompt;
    const auto add = [&](const std::vector<int64_t>& more) { ids.insert(ids.end(), more.begin(), more.end()); };
    add(tokenizer_.encode(chunk == 0 ? "\nAgain. " : "\nGo on after ", false));
    if (chunk > 0) add({prompt.begin() + first - 8, prompt.begin() + first});
    add(tokenizer_.encode("\n", false));
    add({prompt.begin() + first, prompt.begin() + end});
    const auto n_pass = static_cast<int64_t>(ids.size() - prompt.size());
    const auto layers = last_of(ids, n_pass);
    for (int64_t layer = 0; layer < 4; ++layer) {
      const auto& call = calls[static_cast<size_t>(4 * chunk + layer)];
      const auto& expected = layers[static_cast<size_t>(layer)];
      EXPECT_EQ(call.layer, layer);
      EXPECT_EQ(call.first_token, first);
      EXPECT_TRUE(at::equal(call.q, expected.q)) << chunk << layer;
      EXPECT_TRUE(at::equal(call.k, expected.k)) << chunk << layer;
      EXPECT_TRUE(at::equal(call.prompt_k, exact[static_cast<size_t>(layer)].v)) << chunk << layer;
    }
  }
}

TEST_F(PromptEndTest, TheEndComesOnceOverAllLayersBehindThePromptAndBeforeTheFirstStep) {
  Calls calls;
  const Observer observer(meter_, {"\nAgain. ", "", "\n"}, calls);
  generator_.add(request({&observer}, 30));
  run();
  std::string order;
  for (const auto& call : calls) order += call.what[0] + std::to_string(call.layer) + " ";
  const std::string step = "s0 s1 s2 s3 ";
  EXPECT_EQ(order, "p0 p1 p2 p3 o0 o1 o2 o3 f0 f1 f2 f3 " + step + step + step);
}

// The tokens that the prompt brings and the pass leaves are those of a compressor that knows of no pass.
TEST_F(PromptEndTest, ThePassLeavesNothingInTheCachesAndItsTimeIsPrefills) {
  Calls calls;
  const Observer observer(meter_, kRepeat, calls);
  const ExactCompressor exact;
  generator_.add(request({&exact, &observer}));
  const auto all = run();
  const auto &plain = all.at({0, 0}), &observed = all.at({0, 100});
  EXPECT_EQ(observed.error, "");
  EXPECT_EQ(observed.ids, plain.ids);
  EXPECT_EQ(observed.n_cached_tokens, plain.n_cached_tokens);
  EXPECT_EQ(observed.kv_bytes, plain.kv_bytes);
  EXPECT_GT(observed.prefill_seconds, plain.prefill_seconds);
}

TEST_F(PromptEndTest, OnePassServesAllThatAskForTheSame) {
  Calls calls;
  const Observer a(meter_, kRepeat, calls), b(meter_, kRepeat, calls),
      other(meter_, {"\nOnce more. ", "", "\n"}, calls);
  std::vector<int64_t> entered;
  generator_.on_entering([&](int64_t, int compressor) {
    if (compressor >= 0) entered.push_back(compressor);
  });
  generator_.add(request({&a, &other, &b}));
  std::erase_if(calls, [](const Call& call) { return call.what != "observe"; });
  ASSERT_EQ(calls.size(), 2u * 12u + 4u);
  for (size_t i = 0; i < 12; ++i) {  // the two take turns at each layer of each chunk
    EXPECT_EQ(calls[2 * i].layer, calls[2 * i + 1].layer);
    EXPECT_TRUE(at::equal(calls[2 * i].q, calls[2 * i + 1].q));
  }
  EXPECT_FALSE(at::equal(calls[0].q, calls[24].q));
}

TEST_F(PromptEndTest, WhatAnObserverThrowsOrKeepsCostsItsOwnSample) {
  Calls calls;
  const Observer fine(meter_, kRepeat, calls), throwing(meter_, kRepeat, calls, "throws"),
      keeping(meter_, kRepeat, calls, "keeps");
  generator_.add(request({&throwing, &fine, &keeping}));
  const auto all = run();
  EXPECT_NE(all.at({0, 0}).error.find("no pass for me"), std::string::npos) << all.at({0, 0}).error;
  EXPECT_NE(all.at({0, 200}).error.find("kept the caller's"), std::string::npos) << all.at({0, 200}).error;
  EXPECT_EQ(all.at({0, 100}).error, "");
  EXPECT_EQ(all.at({0, 100}).ids.size(), 4u);
}

// Whose append throws has caches of some layers only, and takes part in nothing that comes after.
TEST_F(PromptEndTest, WhoFailsInThePromptIsNotObserved) {
  Calls calls;
  const Observer observer(meter_, kRepeat, calls);
  const Failing failing(50);
  generator_.add(request({&failing, &observer}));
  const auto all = run();
  EXPECT_NE(all.at({0, 0}).error, "");
  EXPECT_EQ(all.at({0, 100}).error, "");
}

TEST_F(PromptEndTest, APassThatDoesNotFitTheModelIsAnErrorOfThoseThatAskForIt) {
  Calls calls;
  const Observer wide(meter_, {"", "", "", 2048, 0}, calls), wrong(meter_, {"", "", "", 0, 0}, calls);
  const ExactCompressor exact;
  generator_.add(request({&exact, &wide, &wrong}, 2200));
  const auto all = run();
  EXPECT_EQ(all.at({0, 0}).error, "");
  const auto& error = all.at({0, 100}).error;
  EXPECT_NE(error.find("2048 tokens after the prompt's 2200"), std::string::npos) << error;
  EXPECT_NE(error.find("max_position_embeddings 4096"), std::string::npos) << error;
  EXPECT_NE(all.at({0, 200}).error.find("chunk_tokens 0"), std::string::npos) << all.at({0, 200}).error;
}

// A prefix that other prompts share is not computed again, and changes no bit of what is observed.
TEST_F(PromptEndTest, ASharedPrefixChangesNothingThatIsObserved) {
  Calls calls, again;
  const Observer first(meter_, kRepeat, calls), second(meter_, kRepeat, again);
  auto asked = request({&first});
  asked.n_shared_tokens = 80;
  generator_.add(asked);
  asked.compressors = {&second};
  generator_.add(asked);
  EXPECT_GT(run().at({1, 0}).n_reused_tokens, 0);
  std::erase_if(calls, [](const Call& call) { return call.what != "observe"; });
  std::erase_if(again, [](const Call& call) { return call.what != "observe"; });
  ASSERT_EQ(calls.size(), again.size());
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_TRUE(at::equal(calls[i].q, again[i].q)) << i;
}

}  // namespace
}  // namespace kvc
