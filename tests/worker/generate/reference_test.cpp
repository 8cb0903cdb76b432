// Scored tokens held against a reference that reads them, too: how far the distributions are apart, and what that
// changes of the sequences themselves, which is nothing.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "generate/token_distribution.h"
#include "generator_fixture.h"

namespace kvc {
namespace {

using test::Failing;
using test::GeneratorOnDemo;

// Keys and values with noise of a known size: the same for the same token.
class Noisy final : public ExactCompressor {
 public:
  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    class Cache final : public ExactCache {
     public:
      using ExactCache::ExactCache;
      void append(const NewTokens& tokens) override {
        const auto wave = at::arange(tokens.k.size(2), at::kFloat).mul(1.7f).sin();
        ExactCache::append({tokens.q, tokens.k + 0.5f * wave, tokens.v - 0.2f * wave, tokens.first_position});
      }
      int64_t n_encoded_tokens() const override { return length(); }
    };
    return std::make_unique<Cache>(info);
  }
};

class ReferenceTest : public GeneratorOnDemo {
 protected:
  GenerationRequest request(std::vector<const Compressor*> compressors, const Compressor* reference) {
    GenerationRequest request;
    request.prompt_ids = tokenizer_.encode("Q: Ann has 3 apples and buys 4 more. How many", true);
    request.compressors = std::move(compressors);
    request.continuations = {tokenizer_.encode(" apples does Ann have?\nA: The answer is 7.", false)};
    request.reference = reference;
    return request;
  }

  const ExactCompressor exact_, other_exact_;
  const Noisy noisy_;
};

TEST_F(ReferenceTest, TheSameMethodIsExactlyNothingApart) {
  generator_.add(request({&noisy_, &exact_}, &other_exact_));
  const auto all = run();
  const auto& exact = all.at({0, 100});
  const size_t n = request({}, nullptr).continuations[0].size();
  EXPECT_EQ(exact.kl, std::vector<double>(n, 0.0));
  EXPECT_EQ(exact.top1_same, std::vector<uint8_t>(n, 1));
  const auto& noisy = all.at({0, 0});
  EXPECT_EQ(noisy.kl.at(0), 0);  // the exact prefill's own logits
  EXPECT_GT(noisy.kl.at(1), 1e-6);
}

// The logits as they come out, and their softmax by LibTorch in double.
TEST_F(ReferenceTest, KnownNoiseIsAsFarApartAsTheLogitsSay) {
  std::vector<std::vector<at::Tensor>> logits(2);
  generator_.on_logits(
      [&](int64_t, size_t compressor, const at::Tensor& x) { logits[compressor].push_back(x.to(at::kDouble)); });
  const auto asked = request({&noisy_, &exact_}, &other_exact_);
  generator_.add(asked);
  const auto got = run().at({0, 0});
  ASSERT_EQ(got.kl.size(), logits[0].size());
  double largest = 0;
  for (size_t t = 0; t < got.kl.size(); ++t) {
    const auto held = logits[0][t].log_softmax(0), exact = logits[1][t].log_softmax(0);
    const double kl = (exact.exp() * (exact - held)).sum().item<double>();
    EXPECT_NEAR(got.kl[t], kl, 1e-13 + 1e-12 * kl);
    EXPECT_EQ(got.top1_same[t], exact.argmax().item<int64_t>() == held.argmax().item<int64_t>());
    EXPECT_NEAR(got.log_likelihoods[t], held[asked.continuations[0][t]].item<double>(), 1e-12);
    largest = std::max(largest, kl);
  }
  EXPECT_GT(largest, 1e-3);
}

TEST_F(ReferenceTest, ItChangesNoBitAndNoByteOfTheOthers) {
  generator_.add(request({&noisy_, &exact_}, nullptr));
  const auto without = run();
  generator_.add(request({&noisy_, &exact_}, &other_exact_));
  const auto with = run();
  for (const size_t c : {0, 100}) {
    const auto &a = without.at({0, c}), &b = with.at({1, c});
    EXPECT_EQ(a.error, "");
    EXPECT_EQ(b.error, "");
    EXPECT_EQ(a.log_likelihoods, b.log_likelihoods);
    EXPECT_EQ(a.is_greedy, b.is_greedy);
    EXPECT_EQ(a.kv_bytes, b.kv_bytes);
    EXPECT_TRUE(a.kl.empty());
  }
  EXPECT_EQ(generator_.kv_bytes(), 0);  // the reference's went, too
}

TEST_F(ReferenceTest, ContinuationsOfDifferentLengthsHaveTheirOwn) {
  auto asked = request({&noisy_, &exact_}, &other_exact_);
  asked.continuations.push_back(tokenizer_.encode(" 9", false));
  asked.continuations.insert(asked.continuations.begin(), tokenizer_.encode(" The answer is 8. Or 9.", false));
  auto free = request({&exact_}, nullptr);
  free.continuations.clear();
  free.stop.max_new_tokens = 5;
  generator_.add(free);
  generator_.add(asked);
  const auto all = run();
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(all.at({1, 100 + c}).kl, std::vector<double>(asked.continuations[c].size(), 0.0));
    EXPECT_EQ(all.at({1, c}).kl.size(), asked.continuations[c].size());
  }
  EXPECT_EQ(all.at({0, 0}).ids.size(), 5u);
}

TEST_F(ReferenceTest, AReferenceThatFailsFailsWhatIsHeldAgainstIt) {
  const auto n_prompt = static_cast<int64_t>(request({}, nullptr).prompt_ids.size());
  for (const int64_t position : {n_prompt - 1, n_prompt + 2}) {
    const Failing failing(position);
    const auto ticket = generator_.add(request({&exact_, &noisy_}, &failing));
    const auto all = run();
    for (const size_t c : {0, 100}) {
      EXPECT_EQ(all.at({ticket, c}).error, concat("the reference: position ", position, " is one too many"));
    }
  }
  EXPECT_EQ(generator_.kv_bytes(), 0);
}

TEST_F(ReferenceTest, ACompressorThatFailsLeavesTheOthers) {
  const auto n_prompt = static_cast<int64_t>(request({}, nullptr).prompt_ids.size());
  const Failing failing(n_prompt + 2);
  generator_.add(request({&failing, &exact_}, &other_exact_));
  const auto all = run();
  EXPECT_EQ(all.at({0, 0}).error, concat("position ", n_prompt + 2, " is one too many"));
  EXPECT_EQ(all.at({0, 100}).error, "");
  EXPECT_EQ(all.at({0, 100}).kl.back(), 0);
}

// Probabilities (1/2, 1/4, 1/4) against (1/4, 1/4, 1/2): KL = ln(2) / 4.
TEST(TokenDistribution, KlIsTheClosedForm) {
  const float half = std::log(0.5f), quarter = std::log(0.25f);
  const TokenDistribution p(at::tensor({half, quarter, quarter})), q(at::tensor({quarter, quarter, half}) + 20);
  EXPECT_NEAR(kl_divergence(p, p.probabilities(), q), std::log(2) / 4, 1e-6);
  EXPECT_EQ(kl_divergence(p, p.probabilities(), p), 0);
  EXPECT_EQ(p.most_likely(), 0);
  EXPECT_EQ(q.most_likely(), 2);
  EXPECT_NEAR(q.log_probability(2), half, 1e-6);
}

// Neither the largest nor the smallest floats overflow.
TEST(TokenDistribution, TakesLogitsOfAnySize) {
  const TokenDistribution p(at::tensor({3e38f, -3e38f})), q(at::tensor({-80.f, -80.f}));
  EXPECT_EQ(p.log_probability(0), 0);
  EXPECT_NEAR(q.log_probability(1), -std::log(2), 1e-12);
  EXPECT_TRUE(std::isnan(TokenDistribution(at::tensor({0.f, NAN})).log_probability(0)));
}

}  // namespace
}  // namespace kvc
