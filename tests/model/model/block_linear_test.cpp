// Products with matrices in blocks, against the same matrices in floats.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "model/ops.h"
#include "model/portable_ops.h"
#include "model/quantized_linear.h"
#include "random_blocks.h"

namespace kvc {
namespace {

using kernels::BlockType;
using kvc::test::kBlockTypes;
using kvc::test::random_linear;

// |a - b| / max |b|
double distance(const at::Tensor& a, const at::Tensor& b) {
  const auto wide = b.to(at::kDouble);
  return (a.to(at::kDouble).sub(wide).abs().max() / wide.abs().max()).item<double>();
}

at::Tensor product_in_double(const at::Tensor& x, const Linear& w) {
  return at::mm(x.to(at::kDouble), expanded(w, at::kFloat).weight.to(at::kDouble).t());
}

class BlockLinear : public testing::TestWithParam<BlockType> {
 protected:
  int64_t block() const { return kernels::layout_of(GetParam()).n_values; }
};

TEST_P(BlockLinear, ExpandsRowByRow) {
  const int64_t k = 3 * block();
  const auto w = random_linear({{GetParam(), 7}}, k);
  const auto floats = expanded(w, at::kFloat).weight;
  EXPECT_EQ(floats.sizes(), (std::vector<int64_t>{7, k}));
  std::vector<float> row(static_cast<size_t>(k));
  for (int64_t i = 0; i < 7; ++i) {
    kernels::expand_blocks(GetParam(), w.blocks[0].bytes[i].const_data_ptr<uint8_t>(), k, row.data());
    EXPECT_TRUE(at::equal(floats[i], at::tensor(row)));
  }
  EXPECT_TRUE(at::equal(expanded(w, at::kHalf).weight, floats.to(at::kHalf)));
}

// The bits of the widened matrix: rows that are no multiple of a tile, columns that are none of 64, batches on both
// sides of where blocks are expanded once for all rows.
TEST_P(BlockLinear, StepsHaveTheBitsOfTheWidenedMatrix) {
  at::manual_seed(3);
  for (const int64_t n : {1, 5, 37}) {
    for (const int64_t n_blocks : {1, 3}) {
      const auto w = random_linear({{GetParam(), n}}, n_blocks * block());
      for (const int64_t n_rows : {1, 2, 3, 4, 5, 21}) {
        const auto x = at::randn({n_rows, n_blocks * block()});
        const auto y = linear_rows(x, w);
        EXPECT_TRUE(at::equal(y, linear_rows(x, expanded(w, at::kFloat)))) << n << " " << n_blocks << " " << n_rows;
        EXPECT_LT(distance(y, product_in_double(x, w)), 1e-5);
      }
    }
  }
}

TEST_P(BlockLinear, ARowDoesNotDependOnTheOthersOrOnThreads) {
  at::manual_seed(4);
  const auto w = random_linear({{GetParam(), 1003}, {BlockType::q8_0, 500}}, block());
  const auto x = at::randn({21, block()});
  const auto all = linear_rows(x, w);
  for (const int64_t n : {1, 2, 3, 4, 5, 7, 20}) {
    EXPECT_TRUE(at::equal(linear_rows(x.narrow(0, 21 - n, n), w), all.narrow(0, 21 - n, n))) << n;
  }
  at::set_num_threads(2);
  for (const int64_t n : {1, 7, 21}) {
    EXPECT_TRUE(at::equal(linear_rows(x.narrow(0, 0, n), w), all.narrow(0, 0, n))) << n;
  }
  at::set_num_threads(1);
}
INSTANTIATE_TEST_SUITE_P(Types, BlockLinear, testing::ValuesIn(kBlockTypes),
                         [](const auto& info) { return std::string(kernels::layout_of(info.param).name); });

class BlockLinearIn : public testing::TestWithParam<at::ScalarType> {};

// q, k and v of different types, with a bias; x and y of the model's type
TEST_P(BlockLinearIn, MixesTypesInOneMatrix) {
  at::manual_seed(5);
  auto w = random_linear({{BlockType::q4_k, 9}, {BlockType::q8_0, 3}, {BlockType::q6_k, 6}}, 512);
  w.bias = at::randn({18}).to(GetParam());
  const double tolerance = GetParam() == at::kFloat ? 1e-5 : GetParam() == at::kHalf ? 0x1p-10 : 0x1p-7;
  EXPECT_EQ(n_rows_of(w), 18);
  EXPECT_EQ(n_columns_of(w), 512);
  const auto x = at::randn({64, 512}).to(GetParam());
  const auto expected = product_in_double(x, w).add_(w.bias.to(at::kDouble));
  EXPECT_EQ(linear_rows(x, w).scalar_type(), GetParam());
  EXPECT_LT(distance(linear_rows(x.narrow(0, 0, 6), w), expected.narrow(0, 0, 6)), tolerance);
  EXPECT_LT(distance(linear_buckets(x, w), expected), 4 * tolerance);
  EXPECT_LT(distance(portable::linear_rows(x, w), expected), 4 * tolerance);
}

// More rows than are floats at a time, in runs that end within such a part.
TEST_P(BlockLinearIn, AnswersPromptsInParts) {
  at::manual_seed(6);
  auto w = random_linear({{BlockType::q4_1, 4000}, {BlockType::q5_0, 200}, {BlockType::q8_0, 4900}}, 32);
  w.bias = at::randn({9100}).to(GetParam());
  const auto x = at::randn({128, 32}).to(GetParam());
  const auto wide = expanded(w, GetParam());
  EXPECT_LT(distance(linear_buckets(x, w), linear_buckets(x, wide)), GetParam() == at::kFloat ? 1e-6 : 0x1p-7);
}

// The first product of a shape is computed both ways, the second as was found best.
TEST_P(BlockLinearIn, ARunOfRowsHasTheBitsOfItsBuckets) {
  at::manual_seed(7);
  const auto w = random_linear({{BlockType::q4_1, 4096 + 90}}, 96);
  for (const int64_t n_rows : {2 * kRowRun + kRowBucket, 2 * kRowRun}) {
    const auto x = at::randn({n_rows, 96}).to(GetParam());
    const auto y = linear_buckets(x, w);
    for (int64_t row = 0; row < n_rows; row += kRowBucket) {
      EXPECT_TRUE(y.narrow(0, row, kRowBucket).equal(linear_buckets(x.narrow(0, row, kRowBucket), w))) << row;
    }
  }
}

TEST_P(BlockLinearIn, LooksUpRowsOfAnEmbedding) {
  const auto table = random_linear({{BlockType::q8_0, 10}, {BlockType::q4_0, 10}}, 64);
  const auto floats = expanded(table, GetParam());
  const std::vector<int64_t> ids = {19, 0, 10, 9, 9};
  const auto rows = embedding_rows(table, ids, 7, GetParam());
  EXPECT_EQ(rows.scalar_type(), GetParam());
  EXPECT_TRUE(at::equal(rows, embedding_rows(floats.weight, ids, 7)));
  EXPECT_TRUE(at::equal(rows.narrow(0, 5, 2), at::zeros({2, 64}, GetParam())));
  EXPECT_TRUE(at::equal(embedding_rows(floats, ids, 7, GetParam()), rows));
}
INSTANTIATE_TEST_SUITE_P(Types, BlockLinearIn, testing::Values(at::kFloat, at::kHalf, at::kBFloat16),
                         [](const auto& info) { return at::toString(info.param); });

}  // namespace
}  // namespace kvc
