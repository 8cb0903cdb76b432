#include "stats/repetition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace kvc {
namespace {

// `before` tokens that all differ, then `period` tokens again and again, `n` tokens in all.
std::vector<int64_t> looping(int64_t before, int64_t period, int64_t n) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < before; ++i) ids.push_back(1000 + i);
  for (int64_t i = 0; i < n; ++i) ids.push_back(i % period);
  return ids;
}

TEST(Repetition, OfAnyPeriodCountsFromTheThirdTimeOn) {
  for (const int64_t period : {1, 2, 7, 16, 17, 40, 64}) {
    const int64_t fewest = period + std::max<int64_t>(32, 2 * period);
    for (const int64_t before : {0, 5, 500}) {
      EXPECT_TRUE(ends_in_loop(looping(before, period, fewest))) << period << " after " << before;
      EXPECT_FALSE(ends_in_loop(looping(before, period, fewest - 1))) << period << " after " << before;
    }
  }
  EXPECT_FALSE(ends_in_loop(looping(0, 65, 1000)));
}

TEST(Repetition, IsOfTheEnd) {
  auto ids = looping(10, 3, 300);
  ids.push_back(7);  // it left the loop
  EXPECT_FALSE(ends_in_loop(ids));
  EXPECT_FALSE(ends_in_loop(std::span<const int64_t>()));
}

TEST(Repetition, ReadsWhatSamplesStore) {
  std::string ids = "[5";
  for (int i = 0; i < 40; ++i) ids += ", 17";
  EXPECT_TRUE(ends_in_loop(std::string_view(ids + "]")));
  EXPECT_FALSE(ends_in_loop(std::string_view(ids + ", 171]")));
  for (const int64_t n : {191, 192, 193, 1000}) {  // the longest period, three times of which are needed
    std::string text = "[-1";
    for (const int64_t id : looping(5, 64, n)) text += "," + std::to_string(id);
    EXPECT_EQ(ends_in_loop(std::string_view(text + "]")), n >= 192) << n;
  }
  for (const char* none : {"", "[]", "null", "[1, 99999999999999999999"})
    EXPECT_FALSE(ends_in_loop(std::string_view(none)));
}

}  // namespace
}  // namespace kvc
