// What a worker answers against what its parent knows: one contradiction at a time.
#include "run/check_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "support/message_of.h"

namespace kvc {
namespace {

using testing::HasSubstr;

// Two layers of one KV head of 4: a token takes 2 * 2 * 4 values, 32 bytes at 16 bits.
class CheckAnswer : public testing::Test {
 protected:
  CheckAnswer() {
    grid_.shape = {.n_layers = 2, .n_heads = 2, .n_kv_heads = 1, .head_dim = 4};
    grid_.vocab_size = tokenizer_.vocab_size(), grid_.context = 100;
    grid_.eos_ids = {tokenizer_.vocab_size() - 1};
    job_.asked = GenerateJob{.prompt = {{1, 2, 3, 4, 5}}, .stop = {.max_new_tokens = 3}};
    result_.ids = tokenizer_.encode("abc", false);
    result_.ids.resize(3, result_.ids.front());
    result_.text = tokenizer_.decode(result_.ids, true);
    result_.stop_reason = "limit";
    auto& m = result_.measured;  // of 7 tokens
    m.n_prompt_tokens = 5, m.n_new_tokens = 3, m.kv_bytes_fp16 = 7 * 32, m.kv_bytes_engine = 7 * 32;
    m.n_encoded_tokens = 3, m.n_encoded_numbers = 3 * 16;
    result_.bytes = {{0, "k", "codes", 20}, {0, "v", "recent", 60}, {1, "k", "codes", 20}, {1, "v", "recent", 60}};
    m.kv_bytes = 160, m.recent_bytes = 120;
    m.k_error = 0.1, m.v_error = 0.2, m.paper_bytes = std::nan("");
    m.peak_weights_bytes = 1000, m.peak_kv_bytes = 200, m.peak_workspace_bytes = 50;
    m.peak_bytes = 1300, m.peak_other_bytes = 50;
    m.prefill_seconds = 1, m.encode_seconds = 0.5, m.attend_seconds = 0.25, m.other_seconds = 0.125;
    cell_.evicts = false;
  }

  std::string said(decltype(JobResult::answer) answer) const {
    const JobResult result{.answer = std::move(answer)};
    return test::message_of([&] { check_answer(job_, result, {grid_, tokenizer_, cell_, 2}); });
  }
  using Change = std::function<void(GenerateResult&)>;
  std::string said(const Change& change) const {
    auto result = result_;
    change(result);
    return said(result);
  }

  const Tokenizer tokenizer_ = Tokenizer::load(std::filesystem::path(KVC_SOURCE_DIR) / "models/demo");
  Grid grid_;
  CellRecord cell_;
  Job job_;
  GenerateResult result_;
};

TEST_F(CheckAnswer, TakesWhatFits) {
  EXPECT_EQ(said(result_), "no error");
  EXPECT_EQ(said(FailedResult{"the plugin threw"}), "no error");
}

TEST_F(CheckAnswer, TakesNoAnswerToAnotherKindOfJob) {
  EXPECT_EQ(said(SizesResult()), "its kind is sizes, which was not asked for");
  EXPECT_EQ(said(LikelihoodResult()), "its kind is likelihoods, which was not asked for");
  EXPECT_EQ(said(FailedResult()), "it failed without an error");
  job_.asked = ProbeJob();
  EXPECT_EQ(said(result_), "its kind is generate, which was not asked for");
}

TEST_F(CheckAnswer, CountsTokensItself) {
  EXPECT_EQ(said([](GenerateResult& r) { r.measured.n_prompt_tokens = 6; }), "n_prompt_tokens is 6, expected 5");
  EXPECT_EQ(said([](GenerateResult& r) { r.measured.n_new_tokens = 2; }), "n_new_tokens is 2, expected 3");
  EXPECT_EQ(said([](GenerateResult& r) { r.measured.kv_bytes_fp16 = 8 * 32; }), "kv_bytes_fp16 is 256, expected 224");
  EXPECT_EQ(said([](GenerateResult& r) { r.measured.n_encoded_tokens = int64_t{1} << 60; }),
            "n_encoded_tokens is 1152921504606846976, expected 0 to 7");
  EXPECT_EQ(said([](GenerateResult& r) { r.measured.n_reused_tokens = -1; }), "n_reused_tokens is -1, expected 0 to 5");
  EXPECT_THAT(said([](GenerateResult& r) { r.ids.clear(), r.text.clear(), r.measured.n_new_tokens = 0; }),
              HasSubstr("n_new_tokens is 0, expected 1 to 3"));
}

TEST_F(CheckAnswer, ReadsTheTextOffTheTokens) {
  EXPECT_EQ(said([](GenerateResult& r) { r.text = "The answer is 7"; }), "the text is not that of its 3 tokens");
  EXPECT_THAT(said([](GenerateResult& r) { r.ids.back() = -1; }), HasSubstr("a token's id is -1"));
  EXPECT_THAT(said([&](GenerateResult& r) { r.ids.back() = grid_.vocab_size; }), HasSubstr("a token's id is"));
  for (const char* reason : {"eos", "stop", "context", "scored", ""}) {
    EXPECT_THAT(said([&](GenerateResult& r) { r.stop_reason = reason; }), HasSubstr("which its 3 tokens do not give"));
  }
  EXPECT_THAT(said([&](GenerateResult& r) {
                r.ids.front() = grid_.eos_ids.front();
                r.text = tokenizer_.decode(r.ids, true);
              }),
              HasSubstr("token 0 of 3 ends the answer"));
}

TEST_F(CheckAnswer, AddsUpBytesItself) {
  EXPECT_EQ(said([](GenerateResult& r) { r.measured.kv_bytes = 1; }), "kv_bytes is 1, expected 160");
  EXPECT_EQ(said([](GenerateResult& r) { r.measured.recent_bytes = 121; }), "recent_bytes is 121, expected 0 to 120");
  EXPECT_EQ(said([](GenerateResult& r) { r.bytes[0].bytes = -20; }).substr(0, 23), "bytes of a kind is -20,");
  EXPECT_EQ(said([](GenerateResult& r) { r.bytes[0].layer = 2; }), "a layer is 2, expected 0 to 1");
  EXPECT_EQ(said([](GenerateResult& r) { r.bytes[0].kind = "magic"; }), "bytes of a kind that there is not");
  EXPECT_EQ(said([](GenerateResult& r) { r.bytes.push_back(r.bytes[0]); }), "bytes are listed twice");
  // A row with nothing, whose sums fit: 4 tokens are not encoded, and one byte cannot hold their 64 values.
  const auto empty = [](GenerateResult& r) {
    r.bytes = {{0, "k", "codes", 1}};
    r.measured.kv_bytes = 1, r.measured.recent_bytes = 0;
  };
  EXPECT_EQ(said(empty), "kv_bytes is 1, which cannot hold 64 values that are not encoded");
  cell_.evicts = true;
  EXPECT_EQ(said(empty), "no error");
}

TEST_F(CheckAnswer, BoundsWhatIsCalledRecentByWhatIsNotEncoded) {
  EXPECT_EQ(said([](GenerateResult& r) { r.measured.n_encoded_numbers = 7 * 16; }),
            "recent_bytes is 120, expected 0 to 0");
  EXPECT_EQ(said([](GenerateResult& r) { r.measured.n_encoded_numbers = 7 * 16 + 1; }),
            "n_encoded_numbers is 113, expected 0 to 112");
}

TEST_F(CheckAnswer, TakesNoNumberThatIsNone) {
  const double none = std::nan(""), endless = std::numeric_limits<double>::infinity();
  for (const double value : {none, endless, -1.0, 100.0}) {
    EXPECT_THAT(said([&](GenerateResult& r) { r.measured.attend_seconds = value; }), HasSubstr("a time is"));
    EXPECT_THAT(said([&](GenerateResult& r) {
                  r.stages = {{0, value == -1 ? -5 : value, 0}};
                }),
                HasSubstr("a stage's time"));
  }
  for (const double value : {none, endless, -1.0}) {
    EXPECT_THAT(said([&](GenerateResult& r) { r.measured.k_error = value; }), HasSubstr("an error of K or V is"));
  }
  EXPECT_THAT(said([&](GenerateResult& r) { r.measured.paper_bytes = endless; }), HasSubstr("paper_bytes is inf"));
  EXPECT_THAT(said([&](GenerateResult& r) { r.measured.peak_bytes = int64_t{1} << 62; }), HasSubstr("peak_bytes is"));
  EXPECT_THAT(said([&](GenerateResult& r) { r.measured.peak_other_bytes = 7; }), HasSubstr("peak_other_bytes is 7"));
}

TEST_F(CheckAnswer, KnowsWhatWasScored) {
  job_.asked = LikelihoodJob{{{{1, 2}, {{3, 4, 5}, {1}}}}};
  LikelihoodResult right{{result_.measured, result_.bytes, {}},
                         {{{{-1, -2, -3}, false, {}, {}, {}}, {{-1}, true, {}, {}, {}}}}};
  auto& m = right.measured;
  m.n_prompt_tokens = 2, m.kv_bytes_fp16 = 6 * 32, m.kv_bytes_engine = 6 * 32, m.n_encoded_numbers = 32;
  EXPECT_EQ(said(right), "no error");
  const auto changed = [&](const std::function<void(LikelihoodResult&)>& change) {
    auto result = right;
    change(result);
    return said(result);
  };
  EXPECT_THAT(changed([](auto& r) { r.likelihoods[0][1].log_likelihoods = {-1, -1}; }), HasSubstr("is 2, expected 1"));
  EXPECT_THAT(changed([](auto& r) { r.likelihoods[0].pop_back(); }), HasSubstr("continuations is 1, expected 2"));
  EXPECT_THAT(changed([](auto& r) { r.likelihoods.clear(); }), HasSubstr("scored texts is 0, expected 1"));
  EXPECT_THAT(changed([](auto& r) { r.likelihoods[0][0].log_likelihoods[1] = 2; }), HasSubstr("a log-likelihood is 2"));
  EXPECT_THAT(changed([](auto& r) { r.likelihoods[0][0].log_likelihoods[1] = std::nan(""); }),
              HasSubstr("a log-likelihood is nan"));
  EXPECT_THAT(changed([](auto& r) { r.likelihoods[0][0].kl = {0, 0, 0}; }), HasSubstr("divergences is 3, expected 0"));
  EXPECT_THAT(changed([](auto& r) { r.likelihoods[0][0].acceptance = {1}; }),
              HasSubstr("acceptances is 1, expected 0"));
  EXPECT_EQ(changed([](auto& r) { r.measured.n_new_tokens = 1; }), "n_new_tokens is 1, expected 3");
}

TEST_F(CheckAnswer, KnowsWhichSizesWereAskedFor) {
  job_.asked = SizesJob{{100}};
  const auto size = [](int64_t n, int64_t bytes) {
    CacheSize s;
    s.n_tokens = n, s.kv_bytes = bytes, s.kv_bytes_fp16 = n * 32, s.kv_bytes_engine = n * 32, s.recent_bytes = 0,
    s.shared_bytes = 0;
    s.n_encoded_numbers = n * 16;
    return s;
  };
  const auto answered = [&](std::vector<CacheSize> sizes) { return said(SizesResult{std::move(sizes)}); };
  EXPECT_EQ(answered({size(100, 400)}), "no error");
  EXPECT_THAT(answered({}), HasSubstr("sizes at 0 lengths"));
  EXPECT_THAT(answered({size(100, 400), size(100, 400)}), HasSubstr("sizes at 2 lengths"));
  EXPECT_THAT(answered({size(200, 400)}), HasSubstr("sizes at 1 lengths"));
  auto wrong = size(100, 400);
  wrong.kv_bytes_fp16 = 1;
  EXPECT_THAT(answered({wrong}), HasSubstr("kv_bytes_fp16 is 1"));
  EXPECT_THAT(answered({size(100, -1)}), HasSubstr("kv_bytes is -1"));
}

}  // namespace
}  // namespace kvc
