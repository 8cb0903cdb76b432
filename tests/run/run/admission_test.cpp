#include "worker/admission.h"

#include <gtest/gtest.h>

namespace kvc {
namespace {

TEST(Admission, LetsAnyPromptIntoAnEmptyBatch) {
  EXPECT_TRUE(Admission(1, 0).admits({.n_sequences = 7, .final_tokens = 1000}, {}));
  EXPECT_TRUE(Admission(0, 0).admits({.n_sequences = 7, .final_tokens = 1000}, {}));
}

TEST(Admission, KeepsToTheBatchSizeWhereOneIsGiven) {
  const Admission four(4, 1 << 30);
  const Admission::Batch three{.n_sequences = 3, .final_tokens = 1000, .kv_bytes = 1 << 20, .cached_tokens = 100};
  EXPECT_TRUE(four.admits({.n_sequences = 1, .final_tokens = 1000}, three));
  EXPECT_FALSE(four.admits({.n_sequences = 2, .final_tokens = 1000}, three));
}

// 100 bytes a token now; both will end with 1000 tokens each, which is 200,000 bytes.
TEST(Admission, FillsMemoryByTheBytesThatATokenTakesNow) {
  const Admission::Prompt prompt{.n_sequences = 1, .final_tokens = 1000};
  const Admission::Batch one{.n_sequences = 1, .final_tokens = 1000, .kv_bytes = 50'000, .cached_tokens = 500};
  EXPECT_TRUE(Admission(0, 200'000).admits(prompt, one));
  EXPECT_FALSE(Admission(0, 199'999).admits(prompt, one));
}

TEST(AvailableMemory, IsPositiveAndBelowAPetabyte) {
  EXPECT_GT(available_memory_bytes(), 1 << 20);
  EXPECT_LT(available_memory_bytes(), int64_t{1} << 50);
}

}  // namespace
}  // namespace kvc
