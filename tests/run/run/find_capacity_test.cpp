#include "run/find_capacity.h"

#include <gtest/gtest.h>

#include <set>

namespace kvc {
namespace {

TEST(LargestThat, IsTheLastThatFitsWhateverTheGuess) {
  for (const int64_t most : {0, 1, 2, 7, 64, 100}) {
    for (int64_t last = 0; last <= 110; last += 3) {
      for (int64_t guess = 0; guess <= 120; guess += 7) {
        std::set<int64_t> asked;
        const auto fits = [&](int64_t n) {
          EXPECT_TRUE(n >= 1 && n <= most && asked.insert(n).second) << n << " of " << most << ", guess " << guess;
          return n <= last;
        };
        EXPECT_EQ(largest_that(guess, most, fits), std::min(last, most)) << "most " << most << ", guess " << guess;
      }
    }
  }
}

TEST(LargestThat, AGoodGuessCostsFewQuestions) {
  int64_t n_asked = 0;
  const auto fits = [&](int64_t n) {
    ++n_asked;
    return n <= 9'000;
  };
  EXPECT_EQ(largest_that(9'000, 1 << 20, fits), 9'000);
  EXPECT_LE(n_asked, 12);  // the guess, one sixteenth above it, and the bits of that sixteenth
}

TEST(ParseBytes, KnowsDecimalAndBinaryUnits) {
  EXPECT_EQ(parse_bytes("2GB"), 2'000'000'000);
  EXPECT_EQ(parse_bytes("500 MB"), 500'000'000);
  EXPECT_EQ(parse_bytes("1.5GiB"), 1'610'612'736);
  EXPECT_EQ(parse_bytes("64MiB"), 67'108'864);
  for (const char* bad : {"", "GB", "2", "2 gb", "2GBs", "-1GB", "0GB", "1e30GB", "nanGB", "2TB"}) {
    EXPECT_EQ(parse_bytes(bad), 0) << bad;
  }
}

}  // namespace
}  // namespace kvc
