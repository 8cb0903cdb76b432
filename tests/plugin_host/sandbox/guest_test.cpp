#include "sandbox/guest.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cfenv>
#include <cmath>

#include "sandbox/cuda_library.h"
#include "sandbox/host_state.h"
#include "sandbox/private_tokens.h"
#include "sandbox/watch.h"
#include "support/message_of.h"

namespace kvc {
namespace {

using testing::HasSubstr;

std::string error_of(const std::function<void()>& body) {
  MemoryMeter meter;
  return as_guest(meter, meter.take_account(), Visit::plain, body);
}

TEST(Guest, LeavesTheProcessAsItWas) {
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
TEST(Guest, LooksAfterSettingsWithoutAskingForCuda) {
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

TEST(Guest, SaysInOneLineWhatItThrew) {
  const auto error = error_of([] { throw std::runtime_error("a\nb\x1b[31m" + std::string(5 << 20, 'x')); });
  EXPECT_EQ(error.substr(0, 9), "a b [31mx");
  EXPECT_LT(error.size(), 1000u);
}

TEST(PrivateTokens, ReachNobodyElseAndTurnToNaN) {
  const auto k = at::ones({2, 3, 4});
  PrivateTokens lent;
  const auto& tokens = lent.lend({at::Tensor(), k, k, 0});
  tokens.k.add_(1);
  EXPECT_TRUE(at::equal(k, at::ones({2, 3, 4})));
  const float* kept = tokens.v.const_data_ptr<float>();
  lent.take_back();
  lent.poison();
  EXPECT_TRUE(std::isnan(kept[5]));
}

TEST(PrivateTokens, MustNotBeKept) {
  const auto k = at::ones({2, 3, 4});
  PrivateTokens lent;
  for (const bool as_view : {false, true}) {
    const auto& tokens = lent.lend({at::Tensor(), k, k, 0});
    const auto kept = as_view ? tokens.v.narrow(1, 0, 1) : tokens.v;
    EXPECT_THROW(lent.take_back(), Error);
    lent.lend({at::Tensor(), k + 1, k + 1, 0});
    EXPECT_EQ(kept.max().item<float>(), 1);  // its own from there on
    EXPECT_NO_THROW(lent.take_back());
  }
}

// 4,096 tokens of independent normal numbers: no code of b bits a number has a smaller error than 2^-b.
TEST(WatchedPrompt, BoundIsTheRateDistortionFunctionOfAGaussian) {
  const auto x = at::randn({2, 4096, 16}, at::kFloat);
  const WatchedPrompt prompt({}, x, 3 * x, 0);
  for (const int64_t bits : {1, 2, 4}) {
    EXPECT_NEAR(prompt.least_k_error(bits * x.numel()) / std::exp2(-bits), 1, 0.15) << bits;  // of 128 tokens
    EXPECT_NEAR(prompt.least_v_error(bits * x.numel()) / std::exp2(-bits), 1, 0.15) << bits;
  }
}

// Half of the components a hundredth of the others: few bits all go to the large ones.
TEST(WatchedPrompt, BoundGivesBitsToTheLargeComponentsFirst) {
  auto x = at::randn({1, 8192, 16}, at::kFloat);
  x.narrow(2, 8, 8).mul_(0.01);
  const WatchedPrompt prompt({}, x, x, 0);
  const double expected = std::sqrt(std::exp2(-4) + 1e-4);  // 2 bits for each of the eight, none for the others
  EXPECT_NEAR(prompt.least_k_error(16 * 8192) / expected, 1, 0.15);
}

}  // namespace
}  // namespace kvc
