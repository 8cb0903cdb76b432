// One point of a bench, against what its parts must add up to.
#include "worker/bench_run.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "generate/exact_cache.h"

namespace kvc {
namespace {

// Takes its time, and says how long it was.
struct Spent {
  double append = 0, attend = 0;
};

class SlowCache final : public ExactCache {
 public:
  SlowCache(const LayerInfo& info, Spent& spent) : ExactCache(info), spent_(spent) {}
  void append(const NewTokens& tokens) override {
    const auto start = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    ExactCache::append(tokens);
    spent_.append += seconds_since(start);
  }
  at::Tensor attend(const at::Tensor& q, double scale) const override {
    const auto start = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    auto out = ExactCache::attend(q, scale);
    spent_.attend += seconds_since(start);
    return out;
  }

 private:
  static double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  Spent& spent_;
};

class SlowCompressor final : public ExactCompressor {
 public:
  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    return std::make_unique<SlowCache>(info, spent);
  }
  mutable Spent spent;
};

BenchSubject layer() {
  BenchSubject subject;
  subject.n_heads = 4;
  subject.n_kv_heads = 2;
  subject.outlier_channels = 3;
  subject.prefill = false;
  return subject;
}

// 2 sequences of a prompt and 2 new tokens: 6 appends of 30 ms or more, 4 attentions of 10 ms or more.
TEST(BenchRun, EverySequencesSecondsCountInTheirPhaseAlone) {
  MemoryMeter meter;
  const auto subject = layer();
  const auto body = make_bench_body(subject, meter);
  const SlowCompressor compressor;
  const auto seconds = run_bench_point(*body, compressor, {32, 2, 2}, meter).seconds;
  EXPECT_GE(compressor.spent.append, 6 * 0.03);
  EXPECT_GE(compressor.spent.attend, 4 * 0.01);
  EXPECT_GE(seconds.encode, compressor.spent.append);
  EXPECT_LT(seconds.encode, 1.25 * compressor.spent.append);
  EXPECT_GE(seconds.attend, compressor.spent.attend);
  EXPECT_LT(seconds.attend, 2 * compressor.spent.attend);
  EXPECT_LT(seconds.prefill + seconds.other, compressor.spent.append);
}

// Inputs: q, k and v of 128 rows, two buckets of 64, and of 4 new tokens, in fp32.
TEST(BenchRun, ThePeakIsTheAllocatorsAndInputsAreNoWorkspace) {
  MemoryMeter meter;
  const auto subject = layer();
  const auto body = make_bench_body(subject, meter);
  const auto result = run_bench_point(*body, ExactCompressor(), {96, 4, 3}, meter);
  const auto& memory = result.memory;
  EXPECT_EQ(memory.weights, 0);
  EXPECT_EQ(memory.other, (4 + 2 + 2) * 64 * (128 + 4) * 4);
  int64_t held = 0;
  {
    ExactCache cache(body->layer_info(0, 0));
    const auto k = at::zeros({2, 96, 64}), one = at::zeros({2, 1, 64});
    cache.append({at::zeros({4, 96, 64}), k, k, 0});
    for (int64_t i = 0; i < 4; ++i) cache.append({at::zeros({4, 1, 64}), one, one, 96 + i});
    held = cache.footprint().total_bytes();
  }
  EXPECT_EQ(memory.kv, 3 * held);
  EXPECT_EQ(memory.peak(), meter.peak_of_all());
  EXPECT_GT(memory.workspace, 0);
}

TEST(BenchRun, TheFirstKeyChannelsOfEveryHeadAreLarge) {
  MemoryMeter meter;
  const auto body = make_bench_body(layer(), meter);
  body->prepare({100, 0, 1});
  body->prefill([](int64_t, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    EXPECT_EQ(k.sizes(), (at::IntArrayRef{2, 100, 64}));
    EXPECT_EQ(q.size(0), 4);
    for (int64_t head = 0; head < 2; ++head) {
      const auto size = k[head].square().mean(0).sqrt();  // of each channel; 10, else 1
      EXPECT_GT(size.narrow(0, 0, 3).min().item<float>(), 5) << head;
      EXPECT_LT(size.narrow(0, 3, 61).max().item<float>(), 2) << head;
    }
    EXPECT_LT(v.square().mean(1).sqrt().max().item<float>(), 2);
  });
}

TEST(BenchRun, MoreTokensThanTheModelHoldsAreRefused) {
  MemoryMeter meter;
  BenchSubject subject;
  subject.config = std::string(KVC_SOURCE_DIR) + "/models/demo/config.json";
  const auto body = make_bench_body(subject, meter);
  try {
    run_bench_point(*body, ExactCompressor(), {body->max_tokens(), 1, 1}, meter);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("the model has max_position_embeddings"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace kvc
