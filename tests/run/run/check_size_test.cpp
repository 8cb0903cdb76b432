#include "run/check_size.h"

#include <gtest/gtest.h>

#include "support/message_of.h"

namespace kvc {
namespace {

using Samples = std::vector<ResultStore::EncodedBytes>;

std::string said(int64_t n_values, int64_t bytes, const Samples& samples) {
  CacheSize size;
  size.kv_bytes = bytes + 100, size.recent_bytes = 100, size.n_encoded_numbers = n_values;
  return test::message_of([&] { check_size(size, samples); });
}

// 300 bytes of a sequence and 3 bits a value: the line goes on to 3,300 bytes at 8,000 values.
const Samples kOnALine = {{800, 600}, {1600, 900}, {2400, 1200}};

TEST(CheckSize, OfALineAllowsWhatIsNotMuchBelowIt) {
  EXPECT_EQ(said(8000, 3300, kOnALine), "no error");
  EXPECT_EQ(said(8000, 2300, kOnALine), "no error");
  EXPECT_EQ(
      said(8000, 2200, kOnALine),
      "the caches of a made prompt hold 2200 bytes for 8000 encoded values, where those of samples carry on to 3000,"
      " expected at least 0.75 of that");
}

// Of one length nothing tells what a sequence costs from what a value costs.
TEST(CheckSize, WithoutALineAllowsAQuarterOfTheirBytesForEach) {
  const Samples alike = {{1000, 2000}, {1010, 2020}};
  EXPECT_EQ(said(8000, 4100, alike), "no error");
  EXPECT_NE(said(8000, 3900, alike), "no error");
}

TEST(CheckSize, HasNothingToCompareWithWhereNothingIsEncoded) {
  EXPECT_EQ(said(8000, 1, {}), "no error");
  EXPECT_EQ(said(0, 0, kOnALine), "no error");
  EXPECT_EQ(said(1000, 1, kOnALine), "no error");  // an eviction's budget
}

}  // namespace
}  // namespace kvc
