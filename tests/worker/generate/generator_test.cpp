// Sequences that generate, that are scored, and that fail, beside each other.
#include "generate/generator.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <mutex>
#include <unordered_map>

#include "generator_fixture.h"
#include "kvc/quant/tensor_pair_cache.h"
#include "kvc/value_checks.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace kvc {
namespace {

using test::Failing;
using test::GeneratorOnDemo;

class Exact final : public Compressor {
 public:
  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    return std::make_unique<ExactCache>(info);
  }
  double bits() const override { return 32; }
  double paper_bytes(const ModelShape&, int64_t, int64_t) const override { return 1; }
};

// K or V as they came.
struct ExactBlocks : TokenBlocks {
  ExactBlocks() : TokenBlocks(at::kFloat, 64) {}
  int64_t n_encoded() const { return 0; }
  at::Tensor dequantize() const { return all(); }
  void score(CompressedAttention& attention) const { attention.score(*this, 0); }
  void accumulate_v(CompressedAttention& attention) const { attention.accumulate_v(*this, 0); }
};

class ExactBlocksCompressor final : public ExactCompressor {
 public:
  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    return std::make_unique<TensorPairCache<ExactBlocks>>(info, ExactBlocks(), ExactBlocks());
  }
};

class GeneratorTest : public GeneratorOnDemo {
 protected:
  GenerationRequest request(const std::string& text, std::vector<const Compressor*> compressors) {
    GenerationRequest request;
    request.prompt_ids = tokenizer_.encode(text, true);
    request.compressors = std::move(compressors);
    request.stop.max_new_tokens = 12;
    return request;
  }

  Exact exact_;
  const std::string text_ = "Q: Ann has 3 apples and buys 4 more. How many apples does Ann have?\nA:";
};

// Against one forward pass over prompt and continuation, without any cache.
TEST_F(GeneratorTest, ScoresContinuationsAsTheWholeTextWouldBe) {
  auto asked = request(text_, {&exact_});
  const std::vector<std::string> continuations = {" 3 + 4 = 7.", " 9", " The answer is 8."};
  for (const auto& c : continuations) asked.continuations.push_back(tokenizer_.encode(c, false));
  const auto prompt = asked.prompt_ids;
  const auto forced = asked.continuations;
  generator_.add(asked);
  const auto all = run();
  for (size_t c = 0; c < forced.size(); ++c) {
    auto ids = prompt;
    ids.insert(ids.end(), forced[c].begin(), forced[c].end());
    const auto n = static_cast<int64_t>(forced[c].size());
    const auto logits = model_.prefill(ids, nullptr, n + 1).narrow(0, 0, n).to(at::kDouble);
    const auto expected = logits.log_softmax(1);
    const auto& got = all.at({0, c});
    EXPECT_EQ(got.stop_reason, StopReason::scored);
    ASSERT_EQ(got.log_likelihoods.size(), forced[c].size());
    bool greedy = true;
    for (int64_t t = 0; t < n; ++t) {
      const int64_t id = forced[c][static_cast<size_t>(t)];
      EXPECT_NEAR(got.log_likelihoods[static_cast<size_t>(t)], expected[t][id].item<double>(),
                  1e-3);  // sharp attention
      greedy = greedy && logits[t].argmax().item<int64_t>() == id;
    }
    EXPECT_EQ(got.is_greedy, greedy) << continuations[c];
    EXPECT_EQ(got.n_cached_tokens, static_cast<int64_t>(prompt.size()) + n - 1);
  }
}

TEST_F(GeneratorTest, GivenTokensAreReadAndNotScored) {
  auto asked = request(text_, {&exact_});
  asked.continuations = {tokenizer_.encode(" The answer is 8.", false)};
  generator_.add(asked);
  const auto scored = run().at({0, 0});
  asked.n_given = 2;
  generator_.add(asked);
  const auto rest = run().at({1, 0});
  ASSERT_EQ(rest.log_likelihoods.size(), scored.log_likelihoods.size() - 2);
  EXPECT_TRUE(std::equal(rest.log_likelihoods.begin(), rest.log_likelihoods.end(), scored.log_likelihoods.begin() + 2));
  EXPECT_EQ(rest.n_cached_tokens, scored.n_cached_tokens);
}

// Position by position what the caches are given, and how many at a time.
class Recording final : public ExactCompressor {
 public:
  struct Given {
    int64_t first_position, n_tokens;
    size_t hash;  // of K
  };
  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    class Cache final : public ExactCache {
     public:
      Cache(const LayerInfo& info, std::vector<Given>* given) : ExactCache(info), given_(given) {}
      void append(const NewTokens& tokens) override {
        if (info().layer == 1) {
          const auto k = tokens.k.contiguous();
          const std::string_view bytes(static_cast<const char*>(k.const_data_ptr()), k.nbytes());
          given_->push_back({tokens.first_position, k.size(1), std::hash<std::string_view>()(bytes)});
        }
        ExactCache::append(tokens);
      }

     private:
      std::vector<Given>* given_;
    };
    return std::make_unique<Cache>(info, &given);
  }
  mutable std::vector<Given> given;
};

// One forward pass over the whole prompt chooses the first token, or its last tokens are read one by one.
TEST_F(GeneratorTest, AQuestionReadBehindThePromptIsAnsweredAsInIt) {
  auto asked = request(text_, {&exact_});
  std::vector<at::Tensor> logits;
  generator_.on_logits([&](int64_t, size_t, const at::Tensor& of_token) { logits.push_back(of_token.clone()); });
  generator_.add(asked);
  const auto in_prompt = run().at({0, 0});
  const auto expected = std::exchange(logits, {});
  for (const int64_t n_question : {int64_t{1}, int64_t{9}, static_cast<int64_t>(asked.prompt_ids.size()) - 1}) {
    asked.n_question_tokens = n_question;
    const auto ticket = generator_.add(asked);
    const auto behind = run().at({ticket, 0});
    EXPECT_EQ(behind.error, "");
    EXPECT_EQ(behind.ids, in_prompt.ids);
    EXPECT_EQ(behind.text, in_prompt.text);
    EXPECT_EQ(behind.stop_reason, in_prompt.stop_reason);
    EXPECT_EQ(behind.n_prompt_tokens, in_prompt.n_prompt_tokens);
    EXPECT_EQ(behind.n_cached_tokens, in_prompt.n_cached_tokens);
    ASSERT_EQ(logits.size(), expected.size());  // the question's tokens are chosen from none
    for (size_t i = 0; i < logits.size(); ++i) EXPECT_LT((logits[i] - expected[i]).abs().max().item<float>(), 2e-2);
    logits.clear();
  }
}

TEST_F(GeneratorTest, ACacheIsGivenTheContextAtOnceAndTheQuestionTokenByToken) {
  const Recording recording;
  recording.given.reserve(100);  // what a cache gains is counted
  const auto context = tokenizer_.encode("Q: Ann has 3 apples and buys 4 more.", true);
  const auto n_context = static_cast<int64_t>(context.size());
  std::vector<size_t> contexts;
  for (const char* const question : {" How many apples does Ann have?\nA:", " Who has them?\nA:"}) {
    auto asked = request("", {&recording});
    const auto ids = tokenizer_.encode(question, false);
    asked.prompt_ids = context;
    asked.prompt_ids.insert(asked.prompt_ids.end(), ids.begin(), ids.end());
    asked.n_question_tokens = static_cast<int64_t>(ids.size());
    asked.stop.max_new_tokens = 3;
    recording.given.clear();
    const auto ticket = generator_.add(asked);
    const auto out = run().at({ticket, 0});
    EXPECT_EQ(out.error, "");
    EXPECT_EQ(out.ids.size(), 3u);
    ASSERT_EQ(recording.given.size(), 1 + ids.size() + out.ids.size() - 1);
    EXPECT_EQ(recording.given[0].n_tokens, n_context);
    for (size_t i = 1; i < recording.given.size(); ++i) {
      EXPECT_EQ(recording.given[i].n_tokens, 1);
      EXPECT_EQ(recording.given[i].first_position, n_context + static_cast<int64_t>(i) - 1);
    }
    contexts.push_back(recording.given[0].hash);
  }
  EXPECT_EQ(contexts[0], contexts[1]);
}

TEST_F(GeneratorTest, AQuestionIsPartOfAPromptThatIsAnswered) {
  auto asked = request(text_, {&exact_});
  const auto n = static_cast<int64_t>(asked.prompt_ids.size());
  for (const int64_t n_question : {int64_t{-1}, n, n + 1}) {
    asked.n_question_tokens = n_question;
    EXPECT_EQ(test::message_of([&] { generator_.add(asked); }),
              concat("generate: ", n_question, " tokens of a question, allowed: 0 to ", n - 1,
                     ", and 0 of a text that is scored"));
  }
  EXPECT_EQ(generator_.n_sequences(), 0);
}

// The end that the model would choose at once is no choice before the least number of tokens: the second best is.
TEST_F(GeneratorTest, NoEndIsChosenBeforeTheLeastNumberOfTokens) {
  auto asked = request(text_, {&exact_});
  generator_.add(asked);
  const auto free = run().at({0, 0}).ids;
  asked.stop.eos_ids = {free[0]};
  generator_.add(asked);
  const auto ended = run().at({1, 0});
  EXPECT_EQ(ended.ids, std::vector{free[0]});
  EXPECT_EQ(ended.stop_reason, StopReason::eos);
  asked.stop.min_new_tokens = 1;
  generator_.add(asked);
  const auto forced = run().at({2, 0});
  auto logits = model_.prefill(asked.prompt_ids, nullptr, 1).squeeze(0).clone();
  logits[free[0]] = -1e30;
  EXPECT_EQ(forced.ids[0], logits.argmax().item<int64_t>());
  EXPECT_GT(forced.ids.size(), 1u);
}

// The demo model's tokenizer skips the text of its end token </s>, but not that of a digit which a folder calls the
// end.
TEST_F(GeneratorTest, AnAnswerHoldsNoTextOfTheTokenThatEndedIt) {
  auto asked = request(text_, {&exact_});
  generator_.add(asked);
  const auto free = run().at({0, 0});
  ASSERT_GE(free.ids.size(), 2u);
  const auto end = free.ids[1];
  ASSERT_NE(end, free.ids[0]);
  ASSERT_NE(tokenizer_.decode(std::vector{end}, true), "");
  const test::TempFolder folder;
  for (const auto& entry : std::filesystem::directory_iterator(test::kDemo)) {
    if (entry.path().filename() == "generation_config.json") continue;
    std::filesystem::create_symlink(entry.path(), folder / entry.path().filename());
  }
  folder.write("generation_config.json", concat(R"({"eos_token_id": [1, )", end, "]}"));
  const auto model = Transformer::load(folder.path(), at::kFloat);
  Generator generator(model, tokenizer_, meter_);
  asked.stop.eos_ids = model.config().eos_token_ids;
  generator.add(asked);
  std::vector<Finished> finished;
  while (generator.n_sequences() > 0) finished = generator.step();
  const auto& ended = finished.at(0).generation;
  EXPECT_EQ(ended.ids, (std::vector{free.ids[0], end}));
  EXPECT_EQ(ended.stop_reason, StopReason::eos);
  EXPECT_EQ(ended.text, tokenizer_.decode(std::vector{free.ids[0]}, true));
}

TEST_F(GeneratorTest, ACompressorThatThrowsFailsItsOwnSequenceAndChangesNoOther) {
  generator_.add(request(text_, {&exact_}));
  const auto alone = run().at({0, 0});
  const auto n_prompt = alone.n_prompt_tokens;
  const Failing at_once(n_prompt - 1), later(n_prompt + 3);
  generator_.add(request(text_, {&at_once, &exact_, &later}));
  auto all = run();
  EXPECT_NE(all.at({1, 0}).error.find("one too many"), std::string::npos);
  EXPECT_NE(all.at({1, 200}).error.find("one too many"), std::string::npos);
  EXPECT_EQ(all.at({1, 200}).ids.size(), 4u);  // three came before it
  EXPECT_EQ(all.at({1, 100}).error, "");
  EXPECT_EQ(all.at({1, 100}).ids, alone.ids);
}

// Notes of each new token, as a cache on a device does, that what it holds of it is not to be had.
class FindsOutLater final : public ExactCompressor {
 public:
  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    class Cache final : public ExactCache {
     public:
      using ExactCache::ExactCache;
      void append(const NewTokens& tokens) override {
        ValueChecks::take(at::full({1}, info().layer != 1, at::kBool), [] { return "K: a number is too large"; });
        ExactCache::append(tokens);
      }
    };
    return std::make_unique<Cache>(info);
  }
};

TEST_F(GeneratorTest, WhatADeviceFoundIsTheSequencesErrorOfThatStep) {
  const FindsOutLater later;
  generator_.add(request(text_, {&later, &exact_}));
  const auto all = run();
  EXPECT_EQ(all.at({0, 0}).error, "K: a number is too large");
  EXPECT_EQ(all.at({0, 0}).ids.size(), 1u);  // the prompt's: prompts are checked at once
  EXPECT_EQ(all.at({0, 100}).error, "");
}

TEST_F(GeneratorTest, APromptTheModelCannotTakeLeavesTheOthersAlone) {
  generator_.add(request(text_, {&exact_}));
  auto bad = request(text_, {&exact_});
  bad.prompt_ids.push_back(1 << 20);
  EXPECT_THROW(generator_.add(bad), Error);
  EXPECT_EQ(generator_.n_sequences(), 1);
  EXPECT_EQ(run().at({0, 0}).error, "");
}

// Counts what passes through the CPU's allocator, in front of it and without the meter.
class CountingAllocator final : public c10::Allocator {
 public:
  CountingAllocator() : inner_(c10::GetCPUAllocator()) {
    current_ = this;
    c10::SetCPUAllocator(this, 200);
  }
  ~CountingAllocator() override { c10::SetCPUAllocator(inner_, 200); }
  c10::DataPtr allocate(size_t n) override {
    auto inner = inner_->allocate(n);
    if (!inner.get()) return inner;
    void* const data = inner.get();
    const std::lock_guard lock(mutex_);
    held_.emplace(data, std::pair(std::move(inner), static_cast<int64_t>(n)));
    live_ += static_cast<int64_t>(n);
    peak_ = std::max(peak_, live_);
    return {data, data, &free, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free; }
  void copy_data(void* to, const void* from, size_t n) const override { inner_->copy_data(to, from, n); }
  int64_t live() const { return live_; }
  int64_t peak() const { return peak_; }

 private:
  static void free(void* data) {
    const std::lock_guard lock(current_->mutex_);
    const auto entry = current_->held_.find(data);
    current_->live_ -= entry->second.second;
    current_->held_.erase(entry);
  }
  static CountingAllocator* current_;
  c10::Allocator* inner_;
  std::mutex mutex_;
  std::unordered_map<void*, std::pair<c10::DataPtr, int64_t>> held_;
  int64_t live_ = 0, peak_ = 0;
};
CountingAllocator* CountingAllocator::current_ = nullptr;

// One sequence: weights + KV + workspace are all there is. Two: what is left of the peak is the other's cache.
TEST_F(GeneratorTest, ThePeakIsTheAllocatorsAndSplitsToTheByte) {
  const int64_t weights = meter_.live_bytes(MemoryMeter::kModel);
  const auto one = request(text_, {&exact_}), two = request(text_, {&exact_, &exact_});
  static CountingAllocator allocator;  // tensors may outlive the test
  generator_.add(one);
  const auto alone = run().at({0, 0});
  EXPECT_LE(alone.peak_bytes, weights + allocator.peak());  // which has seen the harness's own looks, too
  EXPECT_GT(alone.peak_bytes, weights + allocator.peak() * 9 / 10);
  EXPECT_EQ(alone.peak_bytes, weights + alone.peak_kv_bytes + alone.peak_workspace_bytes);
  EXPECT_GT(alone.peak_kv_bytes, alone.kv_bytes);  // attention took something, too
  EXPECT_GT(alone.peak_workspace_bytes, 0);
  generator_.add(two);
  const auto beside = run().at({1, 100});
  EXPECT_GT(beside.peak_bytes, weights + beside.peak_kv_bytes + beside.peak_workspace_bytes);
  EXPECT_EQ(allocator.live(), 0);
}

TEST_F(GeneratorTest, SamplingAtTemperatureZeroAndFromOneTokenIsGreedy) {
  generator_.add(request(text_, {&exact_}));
  const auto greedy = run().at({0, 0}).ids;
  auto asked = request(text_, {&exact_});
  asked.sampling = {.temperature = 2, .top_k = 1};
  generator_.add(asked);
  EXPECT_EQ(run().at({1, 0}).ids, greedy);
  asked.sampling = {.temperature = 2, .top_p = 0};
  generator_.add(asked);
  EXPECT_EQ(run().at({2, 0}).ids, greedy);
}

// 20,000 draws from four tokens: each count within 4 standard deviations of its expectation.
TEST(NextToken, IsDrawnWithItsProbability) {
  const auto logits = at::tensor({2.f, -1.f, 1.f, 0.f});
  const double temperature = 0.7;
  constexpr int kDraws = 20000;
  const auto check = [&](const Sampling& sampling, const std::vector<int>& kept) {
    std::vector<int> counts(4);
    for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(next_token(logits, sampling, 9, i))];
    double total = 0;
    for (const int id : kept) total += std::exp(logits[id].item<double>() / temperature);
    for (int id = 0; id < 4; ++id) {
      const bool is_kept = std::find(kept.begin(), kept.end(), id) != kept.end();
      const double p = is_kept ? std::exp(logits[id].item<double>() / temperature) / total : 0;
      EXPECT_NEAR(counts[static_cast<size_t>(id)], kDraws * p, 4 * std::sqrt(kDraws * p * (1 - p))) << id;
    }
  };
  check({.temperature = temperature}, {0, 1, 2, 3});
  check({.temperature = temperature, .top_k = 2}, {0, 2});
  check({.temperature = temperature, .top_p = 0.95}, {0, 2, 3});  // 0.77, 0.95 minus a bit, 0.99
}

TEST(NextToken, DependsOnSeedSequenceAndPositionAlone) {
  const auto logits = at::zeros({1000});
  const Sampling one{.temperature = 1, .seed = 1}, two{.temperature = 1, .seed = 2};
  EXPECT_EQ(next_token(logits, one, 3, 4), next_token(logits, one, 3, 4));
  int differ = 0;
  for (int position = 0; position < 10; ++position) {
    differ += next_token(logits, one, 3, position) != next_token(logits, two, 3, position);
    differ += next_token(logits, one, 3, position) != next_token(logits, one, 4, position);
    differ += next_token(logits, one, 3, position) != next_token(logits, one, 3, position + 1);
  }
  EXPECT_GT(differ, 25);
}

// Chunks that attend to an exact cache: the same answers and likelihoods as from the whole prompt, up to roundings.
TEST_F(GeneratorTest, PromptsInChunksOfAnExactCacheAreWholePrompts) {
  auto asked = request(text_, {&exact_});
  asked.continuations = {tokenizer_.encode(" 3 + 4 = 7.", false)};
  generator_.add(asked);
  const auto whole = run().at({0, 0});
  int64_t ticket = 0;
  for (const int64_t chunk : {1, 7, 1000}) {
    for (const bool through_all : {false, true}) {
      asked.prefill = {chunk, through_all};
      generator_.add(asked);
      const auto parts = run().at({++ticket, 0});
      ASSERT_EQ(parts.error, "");
      EXPECT_EQ(parts.n_cached_tokens, whole.n_cached_tokens);
      for (size_t t = 0; t < whole.log_likelihoods.size(); ++t) {
        EXPECT_NEAR(parts.log_likelihoods[t], whole.log_likelihoods[t], 1e-3) << chunk << " at " << t;
      }
    }
  }
}

// A cache that fails in the middle of a prompt is its own sequence's error.
TEST_F(GeneratorTest, AFailureInAChunkLeavesOthersAlone) {
  const Failing failing(9);
  auto asked = request(text_, {&failing, &exact_});
  asked.prefill = {4, false};
  generator_.add(asked);
  const auto all = run();
  EXPECT_EQ(all.at({0, 0}).error, "position 9 is one too many");
  EXPECT_EQ(all.at({0, 100}).error, "");
  EXPECT_FALSE(all.at({0, 100}).text.empty());
}

// 200 prompt tokens and 150 new ones in layers with a window of 32: the tokens of a forward pass over the whole text, and
// at most a block more than the window is held, in fp32.
TEST(WindowedGenerator, HoldsTheWindowAndAnswersAsTheWholeTextDoes) {
  constexpr int64_t kPrompt = 200, kNew = 150, kWindow = 32;
  test::TempFolder folder;
  std::ofstream(folder.path() / "config.json")
      << R"({"architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 64, "vocab_size": 2048,
             "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
             "rms_norm_eps": 1e-5, "rope_theta": 10000, "max_position_embeddings": 512, "sliding_window": 32})";
  const auto model = Transformer::draw(folder.path() / "config.json", {.dtype = at::kFloat}, 5);
  const auto tokenizer = Tokenizer::load(test::kDemo);
  MemoryMeter meter;
  Generator generator(model, tokenizer, meter);
  const ExactBlocksCompressor exact;
  GenerationRequest asked{.compressors = {&exact}};
  for (int64_t i = 0; i < kPrompt; ++i) asked.prompt_ids.push_back(100 + i * 37 % 900);
  asked.stop.max_new_tokens = kNew;
  generator.add(asked);
  Generation out;
  while (generator.n_sequences() > 0) {
    for (auto& finished : generator.step()) out = std::move(finished.generation);
  }
  ASSERT_EQ(out.error, "");
  ASSERT_EQ(out.ids.size(), static_cast<size_t>(kNew));
  auto all = asked.prompt_ids;
  all.insert(all.end(), out.ids.begin(), out.ids.end());
  const auto logits = model.prefill(all, nullptr, kNew + 1);
  for (int64_t t = 0; t < kNew; ++t)
    EXPECT_EQ(logits[t].argmax().item<int64_t>(), out.ids[static_cast<size_t>(t)]) << t;
  for (size_t layer = 0; layer < 2; ++layer) {
    const int64_t n_held = kPrompt + kNew - 1 - out.n_hidden[layer];
    EXPECT_GE(n_held, kWindow);
    EXPECT_LT(n_held, kWindow + 2 * 64);
    EXPECT_EQ(out.footprints[layer].total_bytes(), 2 * 4 * 2 * 16 * n_held);  // K and V, fp32, KV heads, head_dim
  }
}

}  // namespace
}  // namespace kvc
