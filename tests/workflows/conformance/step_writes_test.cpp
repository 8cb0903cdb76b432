// What a step writes on a device by one launch is what the CPU stores: bits of codes in every format, tokens in their
// order, and what is read before it was written.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "compress/cuda_emulator/schedules.h"
#include "conformance/filled_cache.h"
#include "kvc/quant/token_blocks.h"
#include "kvc/value_checks.h"
#include "method.h"
#include "sandbox/device_writes.h"
#include "support/test_device.h"

namespace kvc {
namespace {

constexpr int64_t kHeads = 3, kChannels = 48;

// Tokens with large channels, a constant group, zeros of both signs and a group of zeros.
at::Tensor hard_tokens(int64_t n, at::ScalarType type) {
  auto x = at::randn({kHeads, n, kChannels}) * at::rand({kHeads, 1, kChannels}).mul(4).exp();
  x.narrow(2, 0, 16).narrow(1, 0, 1).fill_(0.75);
  x.narrow(2, 16, 16).narrow(1, 0, std::min<int64_t>(n, 2)).zero_();
  x.index_put_({at::tensor({0}), at::tensor({0}), at::tensor({17})}, at::tensor({-0.f}));
  return x.to(type);
}

at::Tensor all_of(const CodeBlocks& blocks, at::Tensor GroupCodes::*part, GroupAxis axis) {
  std::vector<at::Tensor> parts;
  for (const auto& block : blocks.blocks()) {
    const auto rows = block.by_rows();
    if ((rows.*part).defined()) parts.push_back((rows.*part).cpu().contiguous());
  }
  return parts.empty() ? at::Tensor() : at::cat(parts, axis == GroupAxis::tokens ? 2 : 1);
}

at::Tensor all_of(const TokenBlocks& blocks) {
  return at::cat(std::vector<at::Tensor>(blocks.blocks().begin(), blocks.blocks().end()), 1);
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.sizes() == b.sizes() && at::equal(a.contiguous().view(at::kByte), b.contiguous().view(at::kByte));
}

// The prompt at once and then n at a time, as a generator's step does.
CodeBlocks encoded(const at::Tensor& x, const GroupFormat& format, int64_t n_prompt, int64_t n) {
  CodeBlocks blocks;
  if (n_prompt > 0) blocks.encode(x.narrow(1, 0, n_prompt), format);
  for (int64_t t = n_prompt; t < x.size(1); t += n) {
    std::optional<StepWrites> writes;
    if (!x.is_cpu()) writes.emplace(x.device(), 1, launch_of_writes(x.device()));
    ValueChecks checks;
    {
      const ValueChecks::Collecting later(checks);
      blocks.encode(x.narrow(1, t, n), format);
    }
    if (writes) writes->run();
    checks.settle();
  }
  return blocks;
}

std::vector<GroupFormat> formats() {
  std::vector<GroupFormat> all;
  for (const int64_t bits : {2, 3, 4, 5, 6, 8}) {
    for (const auto precision : {Precision::real, Precision::exact}) {
      for (const bool symmetric : {false, true}) {
        for (const int64_t group : {0, 16, 24}) {
          all.push_back({.bits = bits, .group_size = group, .precision = precision, .symmetric = symmetric});
        }
        all.push_back({.bits = bits, .merge_heads = true, .precision = precision, .symmetric = symmetric});
      }
      for (const int64_t group : {0, 16, 32}) {
        all.push_back({.bits = bits, .group_size = group, .axis = GroupAxis::tokens, .precision = precision});
      }
    }
  }
  return all;
}

TEST(StepWrites, EncodeTheBitsOfTheCpu) {
  at::manual_seed(3);
  int64_t i = 0;
  for (const auto& format : formats()) {
    const bool along_tokens = format.axis == GroupAxis::tokens;
    const auto type = std::array{at::kHalf, at::kFloat, at::kBFloat16}[i++ % 3];
    const auto x = hard_tokens(along_tokens ? 192 : 40, type);
    const int64_t n_prompt = along_tokens ? 64 : 31, n = along_tokens ? 64 : i % 2 + 1 + i % 2;
    const auto here = encoded(x.narrow(1, 0, x.size(1) - (x.size(1) - n_prompt) % n), format, n_prompt, n);
    cuda_emulated::under_all_schedules([&] {
      SCOPED_TRACE(concat(format.bits, " bits, groups of ", format.group_size, along_tokens ? " tokens" : " channels",
                          format.symmetric ? ", symmetric" : "", format.merge_heads ? ", heads merged" : "", ", ",
                          type));
      const auto there = encoded(x.narrow(1, 0, here.n_tokens()).to(test::device()), format, n_prompt, n);
      for (const auto part : {&GroupCodes::codes, &GroupCodes::scale, &GroupCodes::zero}) {
        EXPECT_TRUE(same_bits(all_of(there, part, format.axis), all_of(here, part, format.axis)));
      }
    });
  }
}

TEST(StepWrites, RoundToTheFloatsOf8BitsOfTheCpu) {
  const auto every =
      at::cat({at::arange(-600, 600).to(at::kFloat) / 7, at::pow(2.f, at::arange(-24, 17)), at::zeros({1})});
  const auto hard = at::cat({every, every * 1.0625f, every * 1.125f, every * 1.1875f, -every, every * 1e6f});
  const auto x = hard.narrow(0, 0, hard.numel() / 48 * 48).view({1, -1, 48}).expand({kHeads, -1, -1}).contiguous();
  const auto scale = at::tensor({1.f, 0.37f, 3e-5f}).view({kHeads, 1, 1});
  for (const auto type : {Float8::e4m3, Float8::e5m2}) {
    for (const auto& by : {scale, scale.narrow(0, 1, 1)}) {
      TokenBlocks here(at::kByte), there(at::kByte);
      for (int64_t t = 0; t < x.size(1); ++t) {
        StepWrites writes(test::device(), 1, launch_of_writes(test::device()));
        here.push_float8(type, x.narrow(1, t, 1), by.expand({kHeads, 1, 1}).contiguous());
        there.push_float8(type, x.narrow(1, t, 1).to(test::device()), by.to(test::device()));
        writes.run();
      }
      EXPECT_TRUE(at::equal(all_of(there).cpu(), all_of(here)));
    }
  }
}

// Caches of these plugins, decoded token by token, with values that are ties, zeros, large and subnormal.
TEST(StepWrites, StoreBlocksAsTheCpuDoes) {
  const std::pair<const char*, const char*> plugins[] = {{"llama_cpp", R"({"type_k": "q4_0", "type_v": "q4_1"})"},
                                                         {"llama_cpp", R"({"type_k": "q5_0", "type_v": "q5_1"})"},
                                                         {"llama_cpp", R"({"type_k": "q8_0", "type_v": "q8_0"})"},
                                                         {"mxfp4", "{}"},
                                                         {"nvfp4", "{}"}};
  const ModelShape model{.n_heads = 6, .n_kv_heads = 3, .head_dim = 96};
  at::manual_seed(9);
  auto x = at::randn({3, 60, 96}) * at::randn({3, 60, 1}).mul(4).exp();
  x.narrow(1, 50, 1).zero_();
  x.narrow(1, 51, 1).fill_(-2);
  x.narrow(1, 52, 1).copy_(at::randint(-8, 8, {3, 1, 96}));
  x.narrow(1, 53, 1).mul_(1e-40);
  x.narrow(1, 54, 1).copy_(at::randint(-12, 12, {3, 1, 96}).div(2));
  for (const auto& [name, options] : plugins) {
    for (const auto type : {at::kHalf, at::kFloat}) {
      const auto held_on = [&](at::Device device) {
        const auto compressor = conformance::plugin(name).make(nlohmann::json::parse(options));
        const auto cache = compressor->make_cache(layer_info(model, 0, 7, {}, device));
        const auto tokens = x.to(type).to(device);
        conformance::append(*cache, {{}, tokens.narrow(1, 0, 30), tokens.narrow(1, 0, 30), 0});
        for (int64_t t = 30; t < 60; ++t) {
          conformance::append(*cache, {{}, tokens.narrow(1, t, 1), tokens.narrow(1, t, 1), t});
        }
        const auto kv = cache->dequantize();
        return std::pair(KeyValue{kv.k.cpu(), kv.v.cpu()}, cache->footprint().total_bytes());
      };
      const auto here = held_on(at::kCPU);
      cuda_emulated::under_all_schedules([&] {
        SCOPED_TRACE(concat(name, " ", options, " ", type));
        const auto there = held_on(test::device());
        EXPECT_TRUE(at::equal(there.first.k, here.first.k));
        EXPECT_TRUE(at::equal(there.first.v, here.first.v));
        EXPECT_EQ(there.second, here.second);
      });
    }
  }
}

TEST(StepWrites, JoinChunksUpToWhatAttendCodesReads) {
  const GroupFormat format{.bits = 4, .group_size = 32, .axis = GroupAxis::tokens};
  const auto x = hard_tokens(64 * 20, at::kHalf);
  const auto there = encoded(x.to(test::device()), format, 0, 64), here = encoded(x, format, 0, 64);
  EXPECT_EQ(there.blocks().size(), 6u);  // 512, 512 and four of 64
  EXPECT_TRUE(same_bits(all_of(there, &GroupCodes::codes, format.axis), all_of(here, &GroupCodes::codes, format.axis)));
}

TEST(StepWrites, SayWhatIsNotFiniteWhenTheyAreRead) {
  const auto device = test::device();
  const auto message = [&](float value, const auto& store) {
    StepWrites writes(device, 1, launch_of_writes(device));
    ValueChecks checks;
    {
      const ValueChecks::Collecting later(checks);
      store(at::full({1, 1, 32}, value, at::TensorOptions(at::kFloat).device(device)));
    }
    writes.run();
    try {
      checks.settle();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto into_half = [](const at::Tensor& x) { TokenBlocks(at::kHalf).push_back(x); };
  const auto into_codes = [](const at::Tensor& x) { CodeBlocks().encode(x, {.bits = 4, .group_size = 16}); };
  EXPECT_EQ(message(65504, into_half), "");
  EXPECT_EQ(message(65520, into_half), "a value is beyond fp16 (65504)");
  EXPECT_EQ(message(NAN, into_half), "a value is beyond fp16 (65504)");
  EXPECT_EQ(message(-3, into_codes), "");
  EXPECT_EQ(message(70000, into_codes), codes_not_finite());
  EXPECT_EQ(message(NAN, into_codes), codes_not_finite());
}

int64_t bytes_of(const TokenBlocks& blocks, ByteKind kind) {
  Footprint bytes;
  blocks.add_to(bytes, CacheTensor::k);
  int64_t n = 0;
  for (const auto& row : bytes.rows()) n += row.kind == kind ? row.bytes : 0;
  return n;
}

// Pushes, takes and drops as they come; what is read is right before a step's writes ran and after it.
TEST(StepWrites, KeepTokensInOrderHoweverTheyAreTakenAndRead) {
  std::mt19937 random(11);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  const auto device = test::device();
  for (int trial = 0; trial < 30; ++trial) {
    const auto x = hard_tokens(400, trial % 2 ? at::kHalf : at::kFloat);
    const auto there_x = x.to(device);
    TokenBlocks here(at::kHalf, 16), there(at::kHalf, 16);
    const int64_t n_prompt = below(120);
    if (n_prompt > 1) here.push_back(x.narrow(1, 0, n_prompt)), there.push_back(there_x.narrow(1, 0, n_prompt));
    for (int64_t t = n_prompt > 1 ? n_prompt : 0; t < 400; ++t) {
      StepWrites writes(device, 1, launch_of_writes(device));
      here.push_back(x.narrow(1, t, 1)), there.push_back(there_x.narrow(1, t, 1));
      if (below(3) == 0) {
        const int64_t n = below(std::min<int64_t>(here.n_tokens(), trial % 3 ? 3 : 70)) + 1;
        ASSERT_TRUE(at::equal(there.pop_front(n).cpu(), here.pop_front(n))) << t;
      }
      if (below(20) == 0 && here.n_tokens() > 0) ASSERT_TRUE(at::equal(there.all().cpu(), here.all())) << t;
      writes.run();
      ASSERT_EQ(there.n_tokens(), here.n_tokens());
      ASSERT_EQ(bytes_of(there, ByteKind::recent), bytes_of(here, ByteKind::recent));
      ASSERT_EQ(bytes_of(here, ByteKind::reserved), 0);
      const int64_t token = kHeads * kChannels * 2;
      ASSERT_LE(bytes_of(there, ByteKind::reserved), 3 * bytes_of(there, ByteKind::recent) + 256 * token) << t;
    }
    if (here.n_tokens() > 0) ASSERT_TRUE(at::equal(there.all().cpu(), here.all()));
  }
}

// A large chunk taken in the step of the token after it: what is left moves into memory of its own.
TEST(StepWrites, LeaveTheNewestTokenOfAStepThatTakesAllOthers) {
  const auto x = hard_tokens(520, at::kFloat), there_x = x.to(test::device());
  TokenBlocks there(at::kFloat);
  for (int64_t t = 0; t < 520; ++t) {
    StepWrites writes(test::device(), 1, launch_of_writes(test::device()));
    there.push_back(there_x.narrow(1, t, 1));
    if (t == 519) EXPECT_TRUE(at::equal(there.pop_front(519).cpu(), x.narrow(1, 0, 519)));
    writes.run();
  }
  EXPECT_TRUE(at::equal(there.all().cpu(), x.narrow(1, 519, 1)));
}

}  // namespace
}  // namespace kvc
