// Sizes of filled caches, of compressors whose bytes are known by construction.
#include "worker/cache_size.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "contract/stopwatch.h"
#include "sandbox/ledger.h"
#include "worker/load_model.h"

namespace kvc {
namespace {

using Layers = std::map<int64_t, std::vector<int64_t>>;  // tokens of the prompt -> the layers that were filled with it

// What a layer does with a prompt of n tokens -> the bytes that it holds.
using Behaviour = std::function<int64_t(int64_t layer, int64_t n_tokens)>;

class BehavingCache final : public LayerCache {
 public:
  BehavingCache(const LayerInfo& info, const Behaviour& behaviour, int64_t n_hidden)
      : LayerCache(info), behaviour_(behaviour), hidden_(at::empty({n_hidden}, at::kByte)) {}
  void append(const NewTokens& tokens) override {
    check_new_tokens(tokens);
    length_ = tokens.k.size(1);
    held_ = at::empty({behaviour_(info().layer, length_)}, at::kByte);
  }
  KeyValue dequantize() const override {  // nothing of what was given
    const auto zeros = at::zeros({info().n_kv_heads, length_, info().head_dim});
    return {zeros, zeros};
  }
  int64_t length() const override { return length_; }
  int64_t n_encoded_tokens() const override { return length_ / 2; }
  Footprint footprint() const override {
    Footprint bytes;
    bytes.add(CacheTensor::k, info().layer == 0 ? ByteKind::recent : ByteKind::codes, held_);
    return bytes;
  }

 private:
  const Behaviour& behaviour_;
  at::Tensor held_, hidden_;
  int64_t length_ = 0;
};

struct Behaving final : Compressor {
  Behaving(Behaviour b, int64_t hidden) : behaviour(std::move(b)), n_hidden(hidden) {}
  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    return std::make_unique<BehavingCache>(info, behaviour, n_hidden);
  }
  double bits() const override { return 8; }
  double paper_bytes(const ModelShape&, int64_t, int64_t) const override { return 0; }
  Behaviour behaviour;
  int64_t n_hidden;
  std::vector<char> own = std::vector<char>(1 << 20);  // once for all sequences
};

struct CacheSizeTest : testing::Test {
  std::vector<CacheSize> sizes(const Behaviour& behaviour, const std::vector<int64_t>& lengths, double seconds = 20,
                               int64_t n_hidden = 0) {
    filled_.clear();
    return measure_sizes(
        [&]() -> std::unique_ptr<Compressor> {
          return std::make_unique<Behaving>(
              [&](int64_t layer, int64_t n) {
                filled_[n].push_back(layer);
                return behaviour(layer, n);
              },
              n_hidden);
        },
        model_, likely_, lengths, meter_, {.sequence_key = 7, .most_seconds = seconds});
  }

  MemoryMeter meter_;
  Transformer model_ = load_model(std::filesystem::path(KVC_SOURCE_DIR) / "models/demo", "fp32");  // 4 layers, 2 x 64
  LikelyTokens likely_{model_};
  Layers filled_;
};

TEST_F(CacheSizeTest, LayersAddUpAndEachIsFilledAtTheShortestLength) {
  const auto found = sizes([](int64_t layer, int64_t n) { return n * (1 + layer / 2); }, {1000, 100});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].n_tokens, 100);
  EXPECT_EQ(found[0].kv_bytes, 600);
  EXPECT_EQ(found[0].recent_bytes, 100);
  EXPECT_EQ(found[0].n_encoded_numbers, 4 * 2 * 128 * 50);
  EXPECT_EQ(found[0].kv_bytes_fp16, 4 * 2 * 2 * 128 * 100);
  const int64_t own = ledger::is_kept() ? 1 << 20 : 0;  // or a sanitizer has the allocator
  EXPECT_NEAR(static_cast<double>(found[0].shared_bytes.value_or(0)), static_cast<double>(own), 1 << 14);
  EXPECT_EQ(found[1].kv_bytes, 6000);
  EXPECT_EQ(filled_, (Layers{{25, {0}}, {100, {0, 1, 2, 3}}, {1000, {0, 1, 2, 3}}}));  // 25: for the time it takes
}

TEST_F(CacheSizeTest, OfLayersThatWereAlikeTheOuterOnesAreFilledAndTheOthersWhereTheseDiffer) {
  EXPECT_EQ(sizes([](int64_t, int64_t n) { return n; }, {100, 1000})[1].kv_bytes, 4000);
  EXPECT_EQ(filled_[1000], (std::vector<int64_t>{0, 1, 3}));  // the first holds what is recent
  EXPECT_EQ(sizes([](int64_t layer, int64_t n) { return n > 100 ? n + layer : n; }, {100, 1000})[1].kv_bytes, 4006);
  EXPECT_EQ(filled_[1000], (std::vector<int64_t>{0, 1, 3, 2}));
}

TEST_F(CacheSizeTest, WhatFailsIsTheErrorOfItsLengthAndOfThoseBeyond) {
  const auto found = sizes(
      [](int64_t layer, int64_t n) {
        KVC_CHECK(n < 200 || layer < 2, "no room");
        return n;
      },
      {100, 200, 300});
  EXPECT_EQ(found[0].kv_bytes, 400);
  EXPECT_EQ(found[1].error, "no room");
  EXPECT_EQ(found[1].kv_bytes, std::nullopt);
  EXPECT_EQ(found[2].error, "no room");
  EXPECT_FALSE(filled_.contains(300));
}

TEST_F(CacheSizeTest, WhatTakesTooLongIsLeft) {
  const auto slow = [](int64_t, int64_t n) {
    for (const double start = processor_seconds(); processor_seconds() - start < static_cast<double>(n) / 1000;) {
    }
    return n;
  };
  const auto found = sizes(slow, {10, 1000}, 0.5);
  EXPECT_EQ(found[0].kv_bytes, 40);
  EXPECT_EQ(found[1].error, "the layers' caches of 1000 tokens take more than 0.5 s of the processor");
  EXPECT_FALSE(filled_.contains(1000));  // a layer of 10 said so
}

TEST_F(CacheSizeTest, HiddenBytesAreRefused) {
  const auto found = sizes([](int64_t, int64_t n) { return n; }, {100}, 20, 7);
  EXPECT_NE(found[0].error.find("footprint() must count every buffer"), std::string::npos) << found[0].error;
}

}  // namespace
}  // namespace kvc
