#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "attention64.h"
#include "generate/generator.h"
#include "kvc/joint_prefill.h"

namespace kvc::conformance {
namespace {

constexpr int64_t kLayers = 3;
const LayerInfo kInfo{.n_layers = kLayers, .n_heads = 4, .n_kv_heads = 2, .head_dim = 32};
const ModelShape kShape{.n_layers = kLayers, .n_heads = 4, .n_kv_heads = 2, .head_dim = 32};
const std::filesystem::path kDemo = std::filesystem::path(KVC_SOURCE_DIR) / "models/demo";

// A chunk of the prompt, and what the model would compute as it repeats it.
struct Chunk {
  int64_t first, n;
  RandomTokens pass;
};

// One sequence: a prompt of n tokens in each layer, observed in chunks whose passes are drawn.
struct Sequence {
  Sequence(const nlohmann::json& options, int64_t n, std::vector<int64_t> chunks) : method("kvzip", options), n(n) {
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      auto info = kInfo;
      info.layer = layer;
      caches.push_back(method.compressor().make_cache(info));
      prompts.emplace_back(info, n, 100 + layer);
      passes.emplace_back();
      int64_t first = 0;
      for (const int64_t size : chunks) {
        passes.back().push_back({first, size, RandomTokens(info, size + 9, 1000 * first + layer)});
        first += size;
      }
    }
  }

  void append() {
    for (size_t l = 0; l < caches.size(); ++l) caches[l]->append(prompts[l].part(0, n));
  }
  void observe(size_t layer, const Chunk& chunk) const {
    const auto& pass = dynamic_cast<const ObservationPass&>(method.compressor());
    pass.observe(*caches[layer], {chunk.pass.q, chunk.pass.k, prompts[layer].k, chunk.first, chunk.n});
  }
  void finish() const {
    std::vector<LayerCache*> all;
    for (const auto& cache : caches) all.push_back(cache.get());
    finish_prefill(method.compressor(), all);
  }
  Sequence& end() {
    append();
    for (size_t l = 0; l < caches.size(); ++l) {
      for (const auto& chunk : passes[l]) observe(l, chunk);
    }
    finish();
    return *this;
  }

  // Of all heads of all layers, in order: the positions that are held.
  std::vector<std::vector<int64_t>> held() const {
    std::vector<std::vector<int64_t>> all;
    for (const auto& cache : caches) {
      for (auto& list : positions_of(*cache)) {
        std::erase(list, -1);
        all.push_back(std::move(list));
      }
    }
    return all;
  }
  int64_t n_held() const {
    int64_t sum = 0;
    for (const auto& list : held()) sum += static_cast<int64_t>(list.size());
    return sum;
  }
  int64_t bytes() const {
    int64_t sum = 0;
    for (const auto& cache : caches) sum += cache->footprint().total_bytes();
    return sum;
  }

  Method method;
  int64_t n;
  std::vector<std::unique_ptr<LayerCache>> caches;
  std::vector<RandomTokens> prompts;
  std::vector<std::vector<Chunk>> passes;
};

// Loop by loop: the most that a query of the pass gives to token t of the chunk, where it sees the prompt's first
// tokens, the chunk, and the pass up to itself.
double slow_score(const RandomTokens& prompt, const Chunk& chunk, int64_t h, int64_t t, int64_t n_sinks) {
  const int64_t group = kInfo.n_heads / kInfo.n_kv_heads, n_pass = chunk.pass.k.size(1);
  const auto k = at::cat({prompt.k[h], chunk.pass.k[h]});
  double most = 0;
  for (int64_t i = group * h; i < group * (h + 1); ++i) {
    for (int64_t j = 0; j < n_pass; ++j) {
      std::vector<int64_t> seen;
      for (int64_t s = 0; s < std::min(n_sinks, chunk.first); ++s) seen.push_back(s);
      const auto before = static_cast<int64_t>(seen.size());
      for (int64_t s = 0; s < chunk.n; ++s) seen.push_back(chunk.first + s);
      for (int64_t s = 0; s <= j; ++s) seen.push_back(prompt.k.size(1) + s);
      const auto p = probabilities64(chunk.pass.q[i][j], k, seen, 1 / std::sqrt(32.0));
      most = std::max(most, p[static_cast<size_t>(before + t - chunk.first)]);
    }
  }
  return most;
}

// One pair after another: each head's first tokens, then the best that is left of all heads and layers.
std::vector<std::vector<int64_t>> slow_held(const Sequence& x, int64_t n_kept, int64_t n_sinks) {
  std::vector<std::vector<int64_t>> held;
  std::vector<std::vector<double>> scores;
  for (size_t l = 0; l < x.caches.size(); ++l) {
    for (int64_t h = 0; h < kInfo.n_kv_heads; ++h) {
      scores.emplace_back();
      for (const auto& chunk : x.passes[l]) {
        for (int64_t t = chunk.first; t < chunk.first + chunk.n; ++t) {
          scores.back().push_back(slow_score(x.prompts[l], chunk, h, t, n_sinks));
        }
      }
      held.emplace_back();
      for (int64_t t = 0; t < n_sinks; ++t) held.back().push_back(t), scores.back()[static_cast<size_t>(t)] = -1;
    }
  }
  for (int64_t i = n_sinks * static_cast<int64_t>(held.size()); i < n_kept; ++i) {
    size_t best = 0;
    for (size_t h = 0; h < scores.size(); ++h) {
      if (*std::ranges::max_element(scores[h]) > *std::ranges::max_element(scores[best])) best = h;
    }
    const auto token = std::ranges::max_element(scores[best]);
    held[best].push_back(token - scores[best].begin());
    *token = -1;
  }
  for (auto& list : held) std::ranges::sort(list);
  return held;
}

TEST(KvZip, KeepsWhatASlowReferenceKeepsOverAllLayersAndDecodes) {
  for (const double keep : {0.3, 0.62}) {
    Sequence x({{"keep", keep}, {"sinks", 3}}, 50, {20, 20, 10});
    x.end();
    const auto expected = slow_held(x, std::llround(keep * 50 * 2 * kLayers), 3);
    ASSERT_EQ(x.held(), expected) << keep;
    std::vector<size_t> sizes;
    for (const auto& list : expected) sizes.push_back(list.size());
    ASSERT_NE(*std::ranges::min_element(sizes), *std::ranges::max_element(sizes)) << "all heads keep as many";
    const auto more = RandomTokens(kInfo, 60, 5);
    for (int64_t t = 50; t < 60; ++t) {
      for (size_t l = 0; l < x.caches.size(); ++l) {
        x.caches[l]->append({more.q.narrow(1, t, 1), more.k.narrow(1, t, 1), more.v.narrow(1, t, 1), t});
      }
    }
    for (size_t l = 0; l < x.caches.size(); ++l) {
      RandomTokens all = x.prompts[l];
      all.q = at::cat({all.q, more.q.narrow(1, 50, 10)}, 1);
      all.k = at::cat({all.k, more.k.narrow(1, 50, 10)}, 1), all.v = at::cat({all.v, more.v.narrow(1, 50, 10)}, 1);
      std::vector<std::vector<int64_t>> kept{expected[2 * l], expected[2 * l + 1]};
      for (auto& list : kept) {
        for (int64_t t = 50; t < 60; ++t) list.push_back(t);
      }
      EXPECT_LT(attention_error(*x.caches[l], all, 59, kept), 2e-6) << l;
    }
  }
}

TEST(KvZip, MeetsTheBudgetToThePairAndToTheByte) {
  for (const int64_t n : {1, 3, 7, 40, 333}) {
    for (const double keep : {0.0, 0.1, 0.3, 0.5, 0.99, 1.0}) {
      const nlohmann::json options{{"keep", keep}};
      Sequence x(options, n, {n});
      x.end();
      const int64_t least = 2 * kLayers * std::min<int64_t>(4, n), all = 2 * kLayers * n;
      const int64_t expected = std::max<int64_t>(std::llround(keep * static_cast<double>(all)), least);
      ASSERT_EQ(x.n_held(), expected) << n << " " << keep;
      int64_t n_pairs_with_positions = 0;  // of layers that lost something
      for (size_t l = 0; l < x.caches.size(); ++l) {
        const auto in_layer = static_cast<int64_t>(x.held()[2 * l].size() + x.held()[2 * l + 1].size());
        n_pairs_with_positions += in_layer < 2 * n ? in_layer : 0;
        EXPECT_EQ(x.caches[l]->n_encoded_tokens() > 0, in_layer < 2 * n);
      }
      EXPECT_EQ(x.bytes(), 4 * 32 * expected + 4 * n_pairs_with_positions) << n << " " << keep;
      EXPECT_EQ(std::llround(kLayers * Method("kvzip", options).compressor().paper_bytes(kShape, n, 0)),
                4 * 32 * expected);
      EXPECT_EQ(std::llround(kLayers * Method("kvzip", options).compressor().paper_bytes(kShape, n, 11)),
                4 * 32 * (expected + 2 * kLayers * 11));
    }
  }
}

// A head without tokens could not attend, so each has its sinks.
TEST(KvZip, AHeadThatNobodyLooksAtKeepsItsFirstTokensAndNoMore) {
  Sequence x({{"keep", 0.5}}, 60, {60});
  for (auto& chunk : x.passes[1]) {  // the pass's own keys take all of head 1's attention
    chunk.pass.q.narrow(0, 2, 2).fill_(4);
    chunk.pass.k[1].fill_(4);
  }
  x.prompts[1].k[1].fill_(-4);
  x.end();
  EXPECT_EQ(x.held()[3], (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(x.n_held(), 180);
}

TEST(KvZip, AKeyThatOneQueryAttendsToWhollyStays) {
  Sequence x({{"keep", 0.1}}, 80, {30, 30, 20});
  for (const int64_t token : {37, 59, 79}) {  // of the last head of the last layer: one query of one head points at it
    auto& chunk = x.passes[2][token < 60 ? 1 : 2];
    chunk.pass.q[3][token % 5].copy_(x.prompts[2].k[1][token] * 8);
  }
  x.end();
  for (const int64_t token : {37, 59, 79}) EXPECT_TRUE(std::ranges::count(x.held()[5], token)) << token;
}

// Behind a chunk's own prompt only sinks, chunk and pass count: another order gives the same.
TEST(KvZip, TheOrderOfChunksAndLayersChangesNothing) {
  Sequence a({{"keep", 0.4}}, 70, {30, 30, 10}), b({{"keep", 0.4}}, 70, {30, 30, 10});
  a.end();
  b.append();
  for (size_t chunk = 3; chunk-- > 0;) {
    for (size_t l = b.caches.size(); l-- > 0;) b.observe(l, b.passes[l][chunk]);
  }
  b.finish();
  EXPECT_EQ(a.held(), b.held());
}

// What the model says of the chunk's keys alone: a pass in one go or in pieces of rows is the same pass.
TEST(KvZip, OfEqualScoresTheOlderTokenStaysAndThenTheLowerLayersAndHeads) {
  Sequence x({{"keep", 0.25}, {"sinks", 1}}, 31, {31});
  for (auto& layer : x.passes) layer[0].pass.q.fill_(0);  // each token gets as much
  x.end();
  const auto kept = x.held();
  ASSERT_EQ(x.n_held(), 47);  // round(46.5): 7 tokens of 6 heads, and of token 7 those of the first 5
  std::vector<int64_t> eight(8);
  std::iota(eight.begin(), eight.end(), 0);
  const std::vector<int64_t> seven(eight.begin(), eight.end() - 1);
  EXPECT_EQ(kept, (std::vector<std::vector<int64_t>>{eight, eight, eight, eight, eight, seven}));
}

TEST(KvZip, HoldsThePromptWholeAndItsScoresUntilTheEnd) {
  Sequence x({}, 40, {25, 15});
  x.append();
  EXPECT_EQ(x.bytes(), kLayers * 2 * 4 * 32 * 40);
  x.observe(0, x.passes[0][0]);
  EXPECT_EQ(x.bytes(), kLayers * 2 * 4 * 32 * 40 + 2 * 4 * 40);
  EXPECT_EQ(x.caches[0]->n_encoded_tokens(), 0);
  EXPECT_TRUE(at::equal(x.caches[0]->dequantize().k, x.prompts[0].k));
}

TEST(KvZip, AsksForWhatItsOptionsSay) {
  const Method method("kvzip", {{"chunk", 300}, {"lead_in", 5}});
  const auto observation = dynamic_cast<const ObservationPass&>(method.compressor()).observation();
  EXPECT_EQ(observation.chunk_tokens, 300);
  EXPECT_EQ(observation.lead_in_tokens, 5);
  EXPECT_NE(observation.before_first.find("Repeat the previous context exactly"), std::string::npos);
}

TEST(KvZip, RefusesBadOptionsAndAnEndWithoutObservation) {
  for (const auto& bad : std::vector<nlohmann::json>{
           {{"keep", 1.1}}, {{"keep", -0.1}}, {{"sinks", 0}}, {{"chunk", 0}}, {{"lead_in", -1}}, {{"ratio", 0.3}}}) {
    EXPECT_THROW(Method("kvzip", bad), Error) << bad;
  }
  Sequence some({}, 40, {25, 15});
  some.append();
  some.observe(0, some.passes[0][0]);
  EXPECT_THROW(some.finish(), Error);
  Sequence blind({}, 40, {40});
  blind.append();
  for (auto& layer : blind.passes) layer[0].pass.q = at::Tensor();
  EXPECT_THROW(blind.observe(0, blind.passes[0][0]), Error);
}

// The embedded model: a prompt of several questions, each compressor's answer to the last.
class KvZipOnDemo : public testing::Test {
 protected:
  std::vector<Generation> answers(const std::vector<const Compressor*>& compressors) {
    GenerationRequest request;
    request.prompt_ids = tokenizer_.encode(
        "Q: Ann has 3 apples and buys 4 more. How many apples does Ann have?\nA: Ann has 3 + 4 = 7 apples. The answer "
        "is 7.\n\nQ: Ben has 9 pens and gives away 2. How many pens does Ben have?\nA: Ben has 9 - 2 = 7 pens. The "
        "answer is 7.\n\nQ: Eve has 5 books and buys 3 more. How many books does Eve have?\nA:",
        true);
    n_prompt_ = static_cast<int64_t>(request.prompt_ids.size());
    request.compressors = compressors;
    request.stop.max_new_tokens = 24;
    Generator generator(model_, tokenizer_, meter_);
    generator.add(request);
    std::vector<Generation> all(compressors.size());
    while (generator.n_sequences() > 0) {
      for (auto& finished : generator.step()) all[finished.compressor] = std::move(finished.generation);
    }
    return all;
  }

  MemoryMeter meter_;
  Transformer model_ = Transformer::load(kDemo, at::kFloat);
  Tokenizer tokenizer_ = Tokenizer::load(kDemo);
  int64_t n_prompt_ = 0;
};

TEST_F(KvZipOnDemo, AnswersAsFullWhereAllStaysAndHoldsItsShareOfAllLayersWhereNot) {
  const Method full("full"), all("kvzip", {{"keep", 1}}), some("kvzip", {{"keep", 0.3}, {"chunk", 64}});
  const auto got = answers({&full.compressor(), &all.compressor(), &some.compressor()});
  for (const auto& generation : got) ASSERT_EQ(generation.error, "");
  EXPECT_EQ(got[1].ids, got[0].ids);
  EXPECT_EQ(got[1].n_encoded_tokens, 0);
  EXPECT_EQ(got[1].kv_bytes, got[0].kv_bytes);
  const auto shape = model_.shape();
  const int64_t n_heads = shape.n_layers * shape.n_kv_heads, d = shape.head_dim;
  const int64_t n_new = got[2].n_cached_tokens - n_prompt_;
  const int64_t pairs = std::llround(0.3 * static_cast<double>(n_heads * n_prompt_));
  EXPECT_GT(n_prompt_, 100);
  EXPECT_EQ(got[2].kv_bytes, pairs * (4 * d + 4) + n_new * n_heads * 4 * d);
  EXPECT_GT(got[2].n_encoded_tokens, 0);
  EXPECT_GT(got[2].k_error, 0);
}

}  // namespace
}  // namespace kvc::conformance
