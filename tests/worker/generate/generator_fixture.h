// A generator on the demo model, and a compressor that fails in the middle of a sequence.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "generate/exact_cache.h"
#include "generate/generator.h"

namespace kvc::test {

inline const char* const kDemo = KVC_SOURCE_DIR "/models/demo";

// Throws at the token of that position, in layer 1.
class Failing final : public ExactCompressor {
 public:
  explicit Failing(int64_t position) : position_(position) {}
  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    class Cache final : public ExactCache {
     public:
      Cache(const LayerInfo& info, int64_t position) : ExactCache(info), position_(position) {}
      void append(const NewTokens& tokens) override {
        const bool reached = tokens.first_position + tokens.k.size(1) > position_;
        KVC_CHECK(!reached || info().layer != 1, "position ", position_, " is one too many");
        ExactCache::append(tokens);
      }

     private:
      int64_t position_;
    };
    return std::make_unique<Cache>(info, position_);
  }

 private:
  int64_t position_;
};

class GeneratorOnDemo : public testing::Test {
 protected:
  GeneratorOnDemo()
      : model_(Transformer::load(kDemo, at::kFloat)),
        tokenizer_(Tokenizer::load(kDemo)),
        generator_(model_, tokenizer_, meter_) {}

  // By ticket, and compressor * 100 + continuation.
  std::map<std::pair<int64_t, size_t>, Generation> run() {
    std::map<std::pair<int64_t, size_t>, Generation> all;
    while (generator_.n_sequences() > 0) {
      for (auto& f : generator_.step()) all[{f.ticket, f.compressor * 100 + f.continuation}] = std::move(f.generation);
    }
    return all;
  }

  MemoryMeter meter_;
  Transformer model_;
  Tokenizer tokenizer_;
  Generator generator_;
};

}  // namespace kvc::test
