#include "sandbox/ledger.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace kvc::ledger {
namespace {

constexpr int kAccount = 40000;

// What the account has gained by f, which is to be seen by the compiler as needed.
int64_t gained(const std::function<void()>& f) {
  const int64_t before = live_bytes(kAccount);
  const int outer = open(kAccount);
  f();
  open(outer);
  return live_bytes(kAccount) - before;
}

class Ledger : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_kept()) GTEST_SKIP() << "a sanitizer has the allocator";
  }
  void TearDown() override { forget_opened(kAccount); }
};

TEST_F(Ledger, CountsWhatWasAskedForWhoeverHandsItOut) {
  void* p = nullptr;
  EXPECT_EQ(gained([&] { p = std::malloc(2000); }), 2000);
  EXPECT_EQ(gained([&] { p = std::realloc(p, 3000); }), 1000);
  EXPECT_EQ(gained([&] { std::free(p); }), -3000);
  EXPECT_EQ(gained([&] { p = std::calloc(70, 90); }), 6300);
  std::free(p);
  EXPECT_EQ(gained([&] { ASSERT_EQ(::posix_memalign(&p, 64, 1100), 0); }), 1100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u);
  std::free(p);
  EXPECT_EQ(gained([&] { p = ::operator new(7777); }), 7777);
  ::operator delete(p);
}

TEST_F(Ledger, CountsSmallThingsInWhatTheyTake) {
  std::vector<void*> held(1000);
  const int64_t bytes = gained([&] {
    for (auto& p : held) p = std::malloc(100);
  });
  EXPECT_GE(bytes, 100 * 1000);
  EXPECT_LE(bytes, 128 * 1000);
  EXPECT_EQ(gained([&] {
              for (auto* p : held) std::free(p);
            }),
            -bytes);
}

TEST_F(Ledger, CountsOffTheAccountOfWhoeverGained) {
  void* p = nullptr;
  EXPECT_EQ(gained([&] { p = std::malloc(5000); }), 5000);
  const int64_t before = live_bytes(kAccount);
  std::free(p);  // by nobody
  EXPECT_EQ(live_bytes(kAccount), before - 5000);
}

TEST_F(Ledger, CountsMappingsAndTheirParts) {
  constexpr size_t kPage = 4096;
  char* p = nullptr;
  const auto map = [&] {
    p = static_cast<char*>(::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  };
  EXPECT_EQ(gained(map), 4 * kPage);
  EXPECT_EQ(gained([&] { ::munmap(p, kPage); }), -static_cast<int64_t>(kPage));  // the rest is there still
  EXPECT_EQ(gained([&] { ::munmap(p + kPage, 3 * kPage); }), -static_cast<int64_t>(3 * kPage));
}

TEST_F(Ledger, CountsWhatThreadsGainForWhoStartedThem) {
  void* p = nullptr;
  std::thread thread;
  const int outer = open(kAccount);
  thread = std::thread([&] { p = std::malloc(12345); });
  open(outer);
  thread.join();
  EXPECT_GE(live_bytes(kAccount), 12345);
  std::free(p);
}

// Whenever the team was made: OpenMP keeps its threads for whoever comes next.
TEST_F(Ledger, CountsWhatATeamGainsForWhoeverHasItWork) {
  std::vector<void*> held(4);
  const auto allocate = [&] {
    at::parallel_for(0, 4, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) held[static_cast<size_t>(i)] = std::malloc(100'000);
    });
  };
  const int before = at::get_num_threads();
  at::set_num_threads(4);
  allocate();  // nobody's
  for (auto* p : held) std::free(p);
  EXPECT_EQ(gained(allocate) / 1000, 400);
  EXPECT_EQ(gained([&] {
              at::parallel_for(0, 4, 1, [&](int64_t, int64_t) {
                const Scope own(kNobody);
                std::free(std::malloc(100'000));
              });
            }) / 1000,
            0);
  const int64_t left = live_bytes(kAccount);
  for (auto* p : held) std::free(p);
  EXPECT_EQ((left - live_bytes(kAccount)) / 1000, 400);
  allocate();  // nobody's again
  EXPECT_EQ((left - live_bytes(kAccount)) / 1000, 400);
  for (auto* p : held) std::free(p);
  at::set_num_threads(before);
}

TEST_F(Ledger, LeavesEverybodyElseAlone) {
  const int64_t before = live_bytes(kAccount);
  std::vector<double> nobodys(1000);
  EXPECT_EQ(live_bytes(kAccount), before);
}

TEST_F(Ledger, NamesTheFirstThatIsOpened) {
  gained([] { std::ifstream harmless("/proc/self/status"); });
  EXPECT_EQ(opened(kAccount), "");
  gained([] { std::ofstream("/tmp/kvc_ledger_test") << "x"; });
  EXPECT_NE(opened(kAccount).find("/tmp/kvc_ledger_test)"), std::string::npos) << opened(kAccount);
  std::remove("/tmp/kvc_ledger_test");
  forget_opened(kAccount);
  int ends[2];
  gained([&] { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0); });
  EXPECT_EQ(opened(kAccount), "socketpair()");
  ::close(ends[0]);
  ::close(ends[1]);
}

// Two libraries of the same code, one of which is called as a driver's is.
TEST_F(Ledger, WhatADriverGainsAndOpensForItselfIsNobodys) {
  spare_drivers();
  for (const std::string name : {"plain-test", "nvidia-test"}) {
    SCOPED_TRACE(name);
    void* library = ::dlopen((std::string(KVC_BINARY_DIR) + "/lib/lib" + name + ".so").c_str(), RTLD_NOW);
    ASSERT_TRUE(library) << ::dlerror();
    const auto call = [&](const char* function) { reinterpret_cast<void (*)()>(::dlsym(library, function))(); };
    const bool is_driver = name == "nvidia-test";
    const int64_t bytes = gained([&] { call("gain"); });
    if (is_driver) {
      EXPECT_EQ(bytes, 0);
    } else {
      EXPECT_GE(bytes, 3 << 20);
    }
    EXPECT_EQ(opened(kAccount), is_driver ? "" : "open(/etc/hostname)");
    EXPECT_EQ(gained([&] { call("give_back"); }) == 0, is_driver);
    forget_opened(kAccount);
  }
}

}  // namespace
}  // namespace kvc::ledger
