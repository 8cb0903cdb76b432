#include "analysis/power_table.h"

#include <gtest/gtest.h>

namespace kvc {
namespace {

TEST(PowerTable, OfTwoBenchmarks) {
  PowerCase aqua;
  aqua.task = "aqua";
  aqua.n = 254;
  aqua.discordant = 0.2;
  aqua.difference = 0.079;
  const auto table = power_table({aqua}, {});
  EXPECT_EQ(write_markdown(table).substr(0, 4), "**po");
  EXPECT_EQ(table.columns[5].name, "detectable, normal");
  EXPECT_NEAR(std::get<double>(table.rows[0][5]), 7.86, 0.01);
  EXPECT_NEAR(static_cast<double>(std::get<int64_t>(table.rows[0][8])), 252, 1);  // (2.8016 / 0.079)^2 0.2
  aqua.difference = 0.3;                                                          // more than all discordant pairs
  EXPECT_TRUE(std::holds_alternative<std::monostate>(power_table({aqua}, {}).rows[0][7]));
  PowerCase still;
  still.n = 10;
  still.discordant = 0;
  EXPECT_TRUE(std::holds_alternative<std::monostate>(power_table({still}, {}).rows[0][3]));
}

}  // namespace
}  // namespace kvc
