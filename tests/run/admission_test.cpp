#include "worker/admission.h"

#include <gtest/gtest.h>

namespace kvc {
namespace {

TEST(Admission, LetsAnyPromptIntoAnEmptyBatch) {
  EXPECT_TRUE(Admission(1, 0).admits(7, 1000, 0, 0, 0, 0));
  EXPECT_TRUE(Admission(0, 0).admits(7, 1000, 0, 0, 0, 0));
}

TEST(Admission, KeepsToTheBatchSizeWhereOneIsGiven) {
  const Admission four(4, 1 << 30);
  EXPECT_TRUE(four.admits(1, 1000, 3, 1 << 20, 100, 1000));
  EXPECT_FALSE(four.admits(2, 1000, 3, 1 << 20, 100, 1000));
}

// 100 bytes a token now; both will end with 1000 tokens each, which is 200,000 bytes.
TEST(Admission, FillsMemoryByTheBytesThatATokenTakesNow) {
  EXPECT_TRUE(Admission(0, 200'000).admits(1, 1000, 1, 50'000, 500, 1000));
  EXPECT_FALSE(Admission(0, 199'999).admits(1, 1000, 1, 50'000, 500, 1000));
}

TEST(AvailableMemory, IsPositiveAndBelowAPetabyte) {
  EXPECT_GT(available_memory_bytes(), 1 << 20);
  EXPECT_LT(available_memory_bytes(), int64_t{1} << 50);
}

}  // namespace
}  // namespace kvc
