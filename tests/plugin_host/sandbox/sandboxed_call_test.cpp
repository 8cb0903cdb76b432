#include "sandbox/sandboxed_call.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cfenv>
#include <cmath>

#include "sandbox/audit.h"
#include "sandbox/cuda_library.h"
#include "sandbox/host_state.h"
#include "sandbox/private_tokens.h"
#include "support/message_of.h"

namespace kvc {
namespace {

using testing::HasSubstr;

std::string error_of(const std::function<void()>& body) {
  MemoryMeter meter;
  return sandboxed_call(meter, meter.take_account(), CallMode::plain, body);
}

TEST(SandboxedCall, LeavesTheProcessAsItWas) {
  const auto changes = [](const std::function<void()>& change, const char* what) {
    EXPECT_THAT(error_of(change), HasSubstr(what));
  };
  const int n_threads = at::get_num_threads();
  changes([] { std::fesetround(FE_UPWARD); }, "the rounding mode");
  changes([&] { at::set_num_threads(n_threads + 2); }, "the number of threads");
  changes([] { at::globalContext().setFloat32MatmulPrecision("medium"); }, "precision");
  changes([] { at::globalContext().setUserEnabledMkldnn(false); }, "oneDNN");
  changes([] { c10::set_default_dtype(c10::scalarTypeToTypeMeta(at::kDouble)); }, "default type");
  changes([] { c10::GradMode::set_enabled(!c10::GradMode::is_enabled()); }, "gradient mode");
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  EXPECT_EQ(at::get_num_threads(), n_threads);
  EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::HIGHEST);
  EXPECT_TRUE(at::globalContext().userEnabledMkldnn());
  EXPECT_EQ(error_of([] {}), "");
}

// LibTorch looks for CUDA once: were it asked before the library is open, this process would have none.
TEST(SandboxedCall, LooksAfterSettingsWithoutAskingForCuda) {
  EXPECT_EQ(HostState().put_back(), "");
  EXPECT_FALSE(is_cuda_open());
  if (!::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) GTEST_SKIP() << ::dlerror();
  open_cuda_library();
  EXPECT_TRUE(is_cuda_open());
  const HostState state;
  at::globalContext().setFloat32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL, at::Float32Precision::TF32);
  EXPECT_EQ(state.put_back(), "the precision of fp32 products on CUDA");
  EXPECT_EQ(state.put_back(), "");
}

TEST(CudaLibrary, OpenedTooLateIsToldAsSuch) {
  if (!::dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD)) {
    at::hasCUDA();
    const auto message = test::message_of([] { open_cuda_library(); });
    if (message.find("cannot open shared object") != std::string::npos) GTEST_SKIP() << message;
    EXPECT_NE(message.find("was asked about CUDA before"), std::string::npos) << message;
  }
}

TEST(SandboxedCall, SaysInOneLineWhatItThrew) {
  const auto error = error_of([] { throw std::runtime_error("a\nb\x1b[31m" + std::string(5 << 20, 'x')); });
  EXPECT_EQ(error.substr(0, 9), "a b [31mx");
  EXPECT_LT(error.size(), 1000u);
}

TEST(PrivateTokens, ReachNobodyElseAndTurnToNaN) {
  const auto k = at::ones({2, 3, 4});
  PrivateTokens copies;
  const auto& tokens = copies.copy_in({at::Tensor(), k, k, 0});
  tokens.k.add_(1);
  EXPECT_TRUE(at::equal(k, at::ones({2, 3, 4})));
  const float* kept = tokens.v.const_data_ptr<float>();
  copies.reclaim();
  copies.invalidate();
  EXPECT_TRUE(std::isnan(kept[5]));
}

TEST(PrivateTokens, MustNotBeKept) {
  const auto k = at::ones({2, 3, 4});
  PrivateTokens copies;
  for (const bool as_view : {false, true}) {
    const auto& tokens = copies.copy_in({at::Tensor(), k, k, 0});
    const auto kept = as_view ? tokens.v.narrow(1, 0, 1) : tokens.v;
    EXPECT_THROW(copies.reclaim(), Error);
    copies.copy_in({at::Tensor(), k + 1, k + 1, 0});
    EXPECT_EQ(kept.max().item<float>(), 1);  // its own from there on
    EXPECT_NO_THROW(copies.reclaim());
  }
}

// 4,096 tokens of independent normal numbers: no code of b bits a number has a smaller error than 2^-b.
TEST(AuditedPrompt, BoundIsTheRateDistortionFunctionOfAGaussian) {
  const auto x = at::randn({2, 4096, 16}, at::kFloat);
  const AuditedPrompt prompt({}, x, 3 * x, 0);
  for (const int64_t bits : {1, 2, 4}) {
    EXPECT_NEAR(prompt.least_k_error(bits * x.numel()) / std::exp2(-bits), 1, 0.15) << bits;  // of 128 tokens
    EXPECT_NEAR(prompt.least_v_error(bits * x.numel()) / std::exp2(-bits), 1, 0.15) << bits;
  }
}

// Half of the components a hundredth of the others: few bits all go to the large ones.
TEST(AuditedPrompt, BoundGivesBitsToTheLargeComponentsFirst) {
  auto x = at::randn({1, 8192, 16}, at::kFloat);
  x.narrow(2, 8, 8).mul_(0.01);
  const AuditedPrompt prompt({}, x, x, 0);
  const double expected = std::sqrt(std::exp2(-4) + 1e-4);  // 2 bits for each of the eight, none for the others
  EXPECT_NEAR(prompt.least_k_error(16 * 8192) / expected, 1, 0.15);
}

// Holds what the test says, in as many bytes.
class SayingCache final : public LayerCache {
 public:
  SayingCache(const LayerInfo& info, KeyValue held, at::Tensor positions, int64_t length, int64_t n_bytes)
      : LayerCache(info), held_(std::move(held)), positions_(std::move(positions)), length_(length) {
    bytes_ = at::empty({n_bytes / 2}, at::kByte), more_ = bytes_.clone();
  }
  void append(const NewTokens&) override {}
  KeyValue dequantize() const override { return held_; }
  at::Tensor positions() const override { return positions_; }
  int64_t length() const override { return length_; }
  int64_t n_encoded_tokens() const override { return length_; }
  Footprint footprint() const override {
    Footprint bytes;
    bytes.add(CacheTensor::k, ByteKind::codes, bytes_), bytes.add(CacheTensor::v, ByteKind::codes, more_);
    return bytes;
  }

 private:
  KeyValue held_;
  at::Tensor positions_, bytes_, more_;
  int64_t length_;
};

// Exact K and V of the tokens at these positions, in 2 bits/value of all tokens: what the audit says of them.
std::string audited(const at::Tensor& positions, bool may_evict, double error = 0) {
  at::manual_seed(3);
  const LayerInfo info{.n_heads = 2, .n_kv_heads = 2, .head_dim = 16};
  const int64_t n = 200;
  const auto k = at::randn({2, n, 16}), v = at::randn({2, n, 16}), q = at::randn({2, 1, 16});
  const auto rows = positions.clamp(0, n - 1).unsqueeze(2).expand({2, positions.size(1), 16});
  const auto kept = [&](const at::Tensor& x) {
    const auto held = x.gather(1, rows);
    return held + error * at::randn_like(held);
  };
  const SayingCache cache(info, {kept(k), kept(v)}, positions, n, 2 * 2 * n * 16 * 2 / 8);
  return test::message_of(
      [&] { LayerAudit(std::make_shared<AuditedPrompt>(info, k, v, 0.5), may_evict).audit_prompt(cache, q); });
}

at::Tensor all_but(int64_t n_first) { return at::arange(n_first, 200).expand({2, 200 - n_first}).contiguous(); }

TEST(LayerAudit, HoldsTheTokensThatAreKeptAgainstTheirBits) {
  for (const int64_t n_dropped : {0, 1, 100}) {
    EXPECT_THAT(audited(all_but(n_dropped), true), HasSubstr("bits/value, which cannot give less than")) << n_dropped;
  }
  auto one_head = all_but(0);
  one_head[1][0] = -1;
  EXPECT_THAT(audited(one_head, true), HasSubstr("bits/value, which cannot give less than"));
  EXPECT_EQ(audited(all_but(1), true, 0.3), "no error");  // 2^-2 is 0.25
  EXPECT_EQ(audited(one_head, true, 0.3), "no error");
}

TEST(LayerAudit, TakesNoTokenFromAPluginThatDoesNotSayThatItEvicts) {
  EXPECT_EQ(audited(all_but(0), false, 0.3), "no error");
  EXPECT_EQ(audited(all_but(1), false, 0.3),
            "KV head 0 keeps 199 of 200 tokens, and the plugin does not say that it evicts");
  auto one_head = all_but(0);
  one_head[1][0] = -1;
  EXPECT_THAT(audited(one_head, false, 0.3), HasSubstr("KV head 1 keeps 199 of 200 tokens"));
}

TEST(LayerAudit, TakesPositionsInTheirOrderAlone) {
  for (const auto& [place, position] : {std::pair(5, 4), std::pair(5, 200), std::pair(0, -2), std::pair(7, 3)}) {
    auto positions = all_but(0);
    positions[1][place] = position;
    EXPECT_THAT(audited(positions, true, 0.3), HasSubstr("expected ascending ones below 200")) << position;
  }
}

// One head keeps a tenth of the tokens, in 8 bits/value as the other: 2^-8 is 0.004. Its rows that hold nothing take
// none.
TEST(LayerAudit, CountsTheTokensOfEachHead) {
  auto positions = all_but(0);
  positions[1].narrow(0, 0, 180).fill_(-1);
  at::manual_seed(3);
  const LayerInfo info{.n_heads = 2, .n_kv_heads = 2, .head_dim = 16};
  const auto k = at::randn({2, 200, 16}), v = at::randn({2, 200, 16}), q = at::randn({2, 1, 16});
  const SayingCache cache(info, {k + 0.006 * at::randn_like(k), v + 0.006 * at::randn_like(v)}, positions, 200,
                          2 * 220 * 16);
  LayerAudit(std::make_shared<AuditedPrompt>(info, k, v, 0.5), true).audit_prompt(cache, q);
}

TEST(Audit, LooksSoonAndThenMoreAndMoreSeldom) {
  Audit audit(1);
  int n_looks = 0;
  for (int step = 0; step < 400; ++step) {
    audit.begin_step();
    n_looks += audit.inspects();
  }
  EXPECT_GE(n_looks, 2);
  EXPECT_LE(n_looks, 8);
}

TEST(CheckCounts, HoldsEncodedValuesAgainstThoseThatWereGiven) {
  const SayingCache cache({.n_kv_heads = 1, .head_dim = 4}, {}, at::arange(6).view({1, 6}), 6, 0);  // says: all
  EXPECT_EQ(test::message_of([&] { check_counts(cache, 6, 48); }), "no error");
  EXPECT_EQ(test::message_of([&] { check_counts(cache, 6, 47); }), "n_encoded_numbers() is 48, expected 0 to 47");
  EXPECT_EQ(test::message_of([&] { check_counts(cache, 5, 48); }), "length() is 6 after 5 tokens were appended");
}

TEST(RecentBytes, AreAtMost16BitsForEachValueThatIsNotEncoded) {
  Footprint bytes;
  bytes.add(CacheTensor::k, ByteKind::recent, at::empty({64}, at::kByte));
  bytes.add(CacheTensor::v, ByteKind::codes, at::empty({7}, at::kByte));
  EXPECT_EQ(recent_bytes(bytes, 48, 0), 64);
  EXPECT_EQ(recent_bytes(bytes, 48, 16), 64);
  EXPECT_EQ(recent_bytes(bytes, 48, 40), 16);
  EXPECT_EQ(recent_bytes(bytes, 48, 48), 0);
}

}  // namespace
}  // namespace kvc
