// duoattention against attention in float64 over the tokens that each head may keep; patterns as files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "../pattern.h"
#include "attention64.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace kvc::conformance {
namespace {

using duoattention::Heads;
using test::TempFolder;

const LayerInfo kInfo{.layer = 1, .n_layers = 2, .n_heads = 6, .n_kv_heads = 3, .head_dim = 32};

nlohmann::json small(const std::string& pattern, nlohmann::json more = nlohmann::json::object()) {
  nlohmann::json options = {{"pattern", pattern}, {"select", "threshold"}, {"sinks", 4}, {"recent", 10}};
  options.update(more);
  return options;
}

TEST(DuoAttention, HeadsKeepWhatTheirKindKeepsAndDecodeFor300Steps) {
  TempFolder folder;
  const auto pattern = folder.write("p.tsv", "1\t1\t1\n0\t1\t0\n").string();
  const RandomTokens x(kInfo, 360);
  const OpenCache cache("duoattention", small(pattern), kInfo);
  cache->append(x.part(0, 60));
  for (int64_t t = 60; t < 360; ++t) {
    cache->append(x.part(t, 1));
    if (t % 10 != 0 && t != 359) continue;
    std::vector<int64_t> all, streaming;
    for (int64_t s = 0; s <= t; ++s) {
      all.push_back(s);
      if (s < 4 || s > t - 10) streaming.push_back(s);
    }
    ASSERT_LT(attention_error(*cache.cache, x, t, {streaming, all, streaming}), 2e-6) << t;
    streaming.resize(all.size(), -1);
    ASSERT_EQ(positions_of(*cache.cache), (std::vector<std::vector<int64_t>>{streaming, all, streaming})) << t;
  }
  EXPECT_EQ(cache->n_encoded_tokens(), 360 - 14);
  const auto held = cache->dequantize();
  EXPECT_TRUE(at::equal(held.k[1], x.k[1]));
  EXPECT_TRUE(at::equal(held.k[2].narrow(0, 4, 10), x.k[2].narrow(0, 350, 10)));
  EXPECT_EQ(held.v[0].narrow(0, 14, 346).abs().max().item<double>(), 0);
}

// Ragged: R retrieval heads of all tokens, S streaming ones of 14 each. Layers of one kind alone, too.
TEST(DuoAttention, BytesAreRaggedAndTheClosedForm) {
  TempFolder folder;
  const RandomTokens x(kInfo, 100);
  for (const auto& [line, n_retrieval] : {std::pair{"0\t1\t0", 1}, {"1\t1\t1", 3}, {"0\t0\t0", 0}}) {
    const auto pattern = folder.write("p.tsv", std::string("0\t0\t0\n") + line + "\n").string();
    const OpenCache cache("duoattention", small(pattern), kInfo);
    for (const auto& [first, n] : {std::pair{0, 3}, {3, 1}, {4, 1}}) cache->append(x.part(first, n));
    EXPECT_EQ(cache->footprint().total_bytes(), 3 * 5 * 4 * 32);
    EXPECT_EQ(cache->n_encoded_tokens(), 0);
    for (int64_t t = 5; t < 100; ++t) cache->append(x.part(t, 1));
    EXPECT_EQ(cache->footprint().total_bytes(), 4 * 32 * (n_retrieval * 100 + (3 - n_retrieval) * 14)) << line;
    EXPECT_EQ(cache->n_encoded_tokens(), n_retrieval == 3 ? 0 : 86) << line;
    EXPECT_EQ(cache->positions().size(1), n_retrieval == 0 ? 14 : 100) << line;
    // Of the model, whose other layer has streaming heads alone.
    const ModelShape shape{.n_layers = 2, .n_heads = 6, .n_kv_heads = 3, .head_dim = 32};
    EXPECT_NEAR(cache.compressor->paper_bytes(shape, 60, 40),
                4 * 32 * (n_retrieval * 100 + (6 - n_retrieval) * 14) / 2.0, 1e-6);
  }
}

// numpy's quantile of the published code: the heads whose score reaches it, of distinct scores.
TEST(DuoAttentionPattern, SparsityIsThePublishedQuantile) {
  auto generator = at::detail::createCPUGenerator(2);
  for (const int64_t n : {1, 2, 7, 32}) {
    const auto drawn = at::rand({4, n}, generator, at::kDouble);
    duoattention::Scores scores;
    for (int64_t i = 0; i < 4; ++i) {
      const auto* row = drawn.const_data_ptr<double>() + i * n;
      scores.emplace_back(row, row + n);
    }
    for (const double sparsity : {0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0}) {
      const double threshold = sparsity >= 1   ? 2
                               : sparsity <= 0 ? -1
                                               : at::quantile(drawn.flatten(), sparsity).item<double>();
      EXPECT_EQ(duoattention::retrieval_by_sparsity(scores, sparsity),
                duoattention::retrieval_by_threshold(scores, threshold))
          << n << " " << sparsity;
    }
  }
  EXPECT_EQ(duoattention::retrieval_by_sparsity({{1, 1}, {1, 1}}, 0.5), (Heads{{false, false}, {true, true}}));
}

TEST(DuoAttentionPattern, ReadsThePublishedFormat) {
  TempFolder folder;
  const auto file = folder
                        .write("full_attention_heads.tsv",
                               "6.054687500000000000e-01\t0.000000000000000000e+00\t1.2\n"
                               "-0.25\t4.310607910156250000e-04\t1\r\n")
                        .string();
  EXPECT_EQ(duoattention::read_scores(file),
            (duoattention::Scores{{0.60546875, 0, 1}, {0, 4.310607910156250000e-04, 1}}));
  EXPECT_EQ(duoattention::read_scores(folder.write("spaces", "1 0\n0 1").string()),
            (duoattention::Scores{{1, 0}, {0, 1}}));
}

TEST(DuoAttentionPattern, RefusesInOneLineWhatIsNone) {
  TempFolder folder;
  const auto refusal = [&](const std::string& text) {
    const auto file = folder.write("p.tsv", text).string();
    const auto message = test::message_of([&] { duoattention::read_scores(file); });
    EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 0);
    return message;
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has(refusal(""), "is empty"));
  EXPECT_TRUE(has(refusal("1\t0\n1\n"), ":2: 1 scores, the first line has 2"));
  EXPECT_TRUE(has(refusal("1\t0\n\n"), ":2: an empty line"));
  EXPECT_TRUE(has(refusal("1\tx\n"), ":1: column 2 is not a number"));
  for (const char* bad : {"nan\n", "inf\n", "1e999\n", "1,0\n", "0.5x\n", "0x1\n"}) {
    EXPECT_TRUE(has(refusal(bad), "column 1 is not a number")) << bad;
  }
  EXPECT_TRUE(has(refusal(std::string("1\0\n", 3)), "column 1 is not a number"));
  EXPECT_TRUE(has(refusal(std::string((1 << 20) + 1, '1')), "more than 1048576 bytes"));
  EXPECT_THROW(duoattention::read_scores("/no/such/file"), Error);

  const auto pattern = folder.write("p.tsv", "1\t0\t1\n0\t1\t0\n").string();
  const auto compressor = plugin("duoattention").make(small(pattern));
  const auto check = [&](int64_t n_layers, int64_t n_kv_heads) {
    return test::message_of([&] { compressor->check_model({n_layers, n_kv_heads, n_kv_heads, 32}); });
  };
  EXPECT_EQ(check(2, 3), "no error");
  EXPECT_TRUE(has(check(3, 3), "is for 2 layers of 3 KV heads, the model has 3 of 3"));
  EXPECT_TRUE(has(check(2, 4), "is for 2 layers of 3 KV heads, the model has 2 of 4"));
}

}  // namespace
}  // namespace kvc::conformance
