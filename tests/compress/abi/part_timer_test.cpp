#include "kvc/part_timer.h"

#include <gtest/gtest.h>

#include <thread>

namespace kvc {
namespace {

using namespace std::chrono_literals;

double sum(const PartTimer& timer) {
  double seconds = 0;
  for (const auto part : kWorkParts) seconds += timer.seconds(part);
  return seconds;
}

TEST(PartTimer, AnInnerPartsTimeIsNotTheOuters) {
  PartTimer timer;
  const auto start = std::chrono::steady_clock::now();
  {
    const TimedPart outer(WorkPart::quantize);
    std::this_thread::sleep_for(10ms);
    {
      const TimedPart inner(WorkPart::sparse);
      std::this_thread::sleep_for(40ms);
    }
    std::this_thread::sleep_for(10ms);
  }
  const double whole = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_GE(timer.seconds(WorkPart::quantize), 0.02);
  EXPECT_GE(timer.seconds(WorkPart::sparse), 0.04);
  EXPECT_EQ(timer.seconds(WorkPart::low_rank), 0);
  EXPECT_LE(sum(timer), whole);
  timer.reset();
  EXPECT_EQ(sum(timer), 0);
}

TEST(PartTimer, APartInsideItselfCountsOnce) {
  PartTimer timer;
  const auto start = std::chrono::steady_clock::now();
  {
    const TimedPart outer(WorkPart::low_rank), inner(WorkPart::low_rank);
    std::this_thread::sleep_for(20ms);
  }
  const double whole = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_GE(timer.seconds(WorkPart::low_rank), 0.02);
  EXPECT_LE(timer.seconds(WorkPart::low_rank), whole);
}

TEST(PartTimer, HearsItsOwnThreadOnly) {
  PartTimer timer;
  std::thread([] { const TimedPart unheard(WorkPart::sparse); }).join();
  EXPECT_EQ(timer.seconds(WorkPart::sparse), 0);
}

TEST(PartTimer, ASecondOneOfAThreadIsRefused) {
  const PartTimer timer;
  EXPECT_THROW(PartTimer(), Error);
}

}  // namespace
}  // namespace kvc
