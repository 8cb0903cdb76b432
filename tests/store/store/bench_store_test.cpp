#include "store/bench_store.h"

#include <gtest/gtest.h>

#include "analysis/query.h"
#include "render/table.h"
#include "store_fixture.h"

namespace kvc {
namespace {

double number(Database& db, const std::string& sql) {
  auto select = db.prepare(sql);
  EXPECT_TRUE(select.step());
  return select.real(0);
}

TEST(QuartileAggregate, SkipsNull) {
  auto db = Database::open(":memory:", Database::Mode::kReadWrite, 0);
  db.execute(
      "CREATE TABLE t (g INTEGER, x REAL); INSERT INTO t VALUES (1, 4), (1, 1), (1, NULL), (1, 3), (1, 2), (2, 9)");
  EXPECT_EQ(number(db, "SELECT quartile(x, 1) FROM t WHERE g = 1"), 1.75);
  EXPECT_EQ(number(db, "SELECT quartile(x, 3) FROM t WHERE g = 1"), 3.25);
  EXPECT_EQ(number(db, "SELECT sum(q) FROM (SELECT quartile(x, 2) AS q FROM t GROUP BY g)"), 11.5);
  EXPECT_EQ(db.text("SELECT quartile(x, 1) IS NULL FROM t WHERE x IS NULL"), "1");
  EXPECT_THROW(db.text("SELECT quartile(x, 4) FROM t"), Error);
  EXPECT_THROW(db.text("SELECT quartile(x, 0) FROM t WHERE g = 2"), Error);
}

class BenchStoreTest : public OpenStoreTest {
 protected:
  // Repeat i takes i seconds: half of it prefill, a quarter each encode and attend.
  static RepeatRecord repeat(double seconds) {
    return {{{"prefill", "all", seconds / 2},
             {"encode", "all", seconds / 4},
             {"attend", "all", seconds / 4},
             {"other", "all", 0},
             {"total", "all", seconds},
             {"encode", "quantize", seconds / 8},
             {"attend", "quantize", seconds / 16}},
            {{"weights", 1'000'000}, {"kv", 2'000'000}, {"workspace", 3'000'000}, {"other", 0}, {"peak", 6'000'000}}};
  }

  void put_cell(ResultStore& store) {
    auto cell = make_cell("k", "full", "layer 4/2/64");
    cell.kind = RunKind::bench;
    store.put_cell(cell);
  }
};

TEST_F(BenchStoreTest, TheTableHasMediansAndQuartiles) {
  put_cell(store_);
  BenchStore bench(store_);
  const PointKey point{128, 16, 2};
  EXPECT_EQ(bench.n_repeats("k", point), 0);
  bench.put_repeats("k", point, {repeat(4), repeat(1), repeat(5), repeat(2), repeat(3)});
  EXPECT_EQ(bench.n_repeats("k", point), 5);
  const auto table = named_table(store_.database(), "bench", "trial");
  ASSERT_EQ(table.rows.size(), 1u);
  const auto cell = [&](const std::string& name) {
    for (size_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].name == name) return std::get<double>(table.rows[0][i]);
    }
    throw Error("no column " + name);
  };
  EXPECT_EQ(cell("prefill [ms]"), 1500);
  EXPECT_EQ(cell("total [ms]"), 3000);
  EXPECT_EQ(cell("total Q1 [ms]"), 2000);
  EXPECT_EQ(cell("total Q3 [ms]"), 4000);
  EXPECT_EQ(cell("quantize [ms]"), 1000 * (3.0 / 8 + 3.0 / 16));
  EXPECT_EQ(cell("tokens/s"), 2 * 16 / 3.0);
  EXPECT_EQ(cell("peak [MB]"), 6);
}

TEST_F(BenchStoreTest, RepeatsArePutInPlaceOfThoseOfTheirPointAlone) {
  put_cell(store_);
  BenchStore bench(store_);
  bench.put_repeats("k", {128, 16, 1}, {repeat(1), repeat(2), repeat(3)});
  bench.put_repeats("k", {128, 16, 2}, {repeat(1)});
  bench.put_repeats("k", {128, 16, 1}, {repeat(9)});
  EXPECT_EQ(bench.n_repeats("k", {128, 16, 1}), 1);
  EXPECT_EQ(bench.n_repeats("k", {128, 16, 2}), 1);
  EXPECT_EQ(store_.database().integer("SELECT count(*) FROM memory"), 10);
}

TEST_F(BenchStoreTest, ARowThatDoesNotFitTakesTheWholePointBack) {
  put_cell(store_);
  BenchStore bench(store_);
  bench.put_repeats("k", {128, 16, 1}, {repeat(1)});
  auto bad = repeat(2);
  bad.memory.push_back({"rest", 1});  // no such part
  EXPECT_THROW(bench.put_repeats("k", {128, 16, 1}, {repeat(2), bad}), Error);
  EXPECT_EQ(number(store_.database(), "SELECT sum(seconds) FROM timing WHERE phase = 'total'"), 1);
}

TEST_F(BenchStoreTest, ACapacityIsFoundByItsLimitAndLength) {
  put_cell(store_);
  BenchStore bench(store_);
  bench.put_capacities("k", {{"max_batch", "computed", 1000, 64, 7}, {"max_batch", "tried", 1000, 64, 6}});
  EXPECT_EQ(bench.find_capacity("k", {"max_batch", "tried", 1000, 64, 0}), 6);
  EXPECT_EQ(bench.find_capacity("k", {"max_batch", "computed", 1000, 64, 0}), 7);
  EXPECT_EQ(bench.find_capacity("k", {"max_batch", "tried", 1001, 64, 0}), std::nullopt);
  EXPECT_EQ(bench.find_capacity("k", {"max_context", "tried", 1000, 64, 0}), std::nullopt);
  const auto table = named_table(store_.database(), "capacity", "all");
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(std::get<int64_t>(table.rows[0][7]), 7);
  EXPECT_EQ(std::get<int64_t>(table.rows[0][8]), 6);
}

}  // namespace
}  // namespace kvc
