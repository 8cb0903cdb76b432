#include "balance.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace kvarn {
namespace {

using Lines = std::vector<double>;

constexpr double kLeast = 1e-3, kMost = 1e3;                                     // of a deviation
const double kSmallestFactor = std::exp(-0.3), kLargestFactor = std::exp(10.0);  // of a line

// Adds rows [half, 2 half) of x [.., d] to those before until one is left: sums of columns, by halves.
void add_by_halves(double* x, int64_t n, int64_t d) {
  for (int64_t half = n / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half * d; ++i) x[i] += x[half * d + i];
  }
}

double deviation(double sum, double sum_of_squares, int64_t n) {
  const double variance =
      (sum_of_squares - sum * sum * (1 / static_cast<double>(n))) * (1 / static_cast<double>(n - 1));
  return std::clamp(std::sqrt(std::max(variance, 0.0)), kLeast, kMost);
}

struct Deviations {
  Lines tokens, channels;
  double imbalance() const { return ratio(tokens) + ratio(channels); }

 private:
  static double ratio(const Lines& x) {
    const auto [least, most] = std::minmax_element(x.begin(), x.end());
    return *most / *least;
  }
};

// A tile over its factors, and the squares of that.
struct Divided {
  Lines x, squares;
};

// Of x[t, j] / (token_factors[t] * channel_factors[j]).
Deviations deviations(const float* x, const Lines& token_factors, const Lines& channel_factors, Divided& y) {
  const auto n = static_cast<int64_t>(token_factors.size()), d = static_cast<int64_t>(channel_factors.size());
  y.x.resize(static_cast<size_t>(n * d)), y.squares.resize(static_cast<size_t>(n * d));
  Lines inverse, row, row_squares;
  for (const double factor : channel_factors) inverse.push_back(1 / factor);
  Deviations result;
  for (int64_t t = 0; t < n; ++t) {
    const double of_token = 1 / token_factors[static_cast<size_t>(t)];
    double *to = y.x.data() + t * d, *squares = y.squares.data() + t * d;
    for (int64_t j = 0; j < d; ++j) to[j] = x[t * d + j] * of_token * inverse[static_cast<size_t>(j)];
    for (int64_t j = 0; j < d; ++j) squares[j] = to[j] * to[j];
    row.assign(to, to + d), row_squares.assign(squares, squares + d);
    add_by_halves(row.data(), d, 1), add_by_halves(row_squares.data(), d, 1);
    result.tokens.push_back(deviation(row[0], row_squares[0], d));
  }
  add_by_halves(y.x.data(), n, d), add_by_halves(y.squares.data(), n, d);
  for (int64_t j = 0; j < d; ++j) result.channels.push_back(deviation(y.x[j], y.squares[j], n));
  return result;
}

void multiply(Lines& factors, const Lines& by) {
  for (size_t i = 0; i < factors.size(); ++i)
    factors[i] = std::clamp(factors[i] * by[i], kSmallestFactor, kLargestFactor);
}

}  // namespace

void rotate_rows(float* x, int64_t n, int64_t d) {
  const auto norm = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
  for (float* row = x; row != x + n * d; row += d) {
    for (int64_t half = 1; half < d; half *= 2) {
      for (int64_t i = 0; i < d; i += 2 * half) {
        for (int64_t j = i; j < i + half; ++j) {
          const float a = row[j], b = row[j + half];
          row[j] = a + b;
          row[j + half] = a - b;
        }
      }
    }
    for (int64_t j = 0; j < d; ++j) row[j] *= norm;
  }
}

std::vector<double> column_factors(const float* x, int64_t n_tokens, int64_t d, Columns columns, int64_t rounds) {
  Lines tokens(static_cast<size_t>(n_tokens), 1.0), channels(static_cast<size_t>(d), 1.0);
  const bool by_token = columns == Columns::tokens;
  auto& column = by_token ? tokens : channels;
  auto& row = by_token ? channels : tokens;
  Divided divided;
  auto spread = deviations(x, tokens, channels, divided);
  auto best = column;
  double least = spread.imbalance();
  for (int64_t round = 0; round < rounds; ++round) {
    multiply(column, by_token ? spread.tokens : spread.channels);
    spread = deviations(x, tokens, channels, divided);
    multiply(row, by_token ? spread.channels : spread.tokens);
    spread = deviations(x, tokens, channels, divided);
    const double imbalance = spread.imbalance();
    if (imbalance > least) continue;
    least = imbalance;
    best = column;
  }
  return best;
}

at::Tensor rotated_on_device(const at::Tensor& x) {
  const int64_t d = x.size(-1);
  auto y = x;
  for (int64_t half = 1; half < d; half *= 2) {
    const auto pairs = y.unflatten(-1, {d / (2 * half), 2, half}), a = pairs.select(-2, 0), b = pairs.select(-2, 1);
    y = at::stack({a + b, a - b}, -2).flatten(-3);
  }
  return y.mul(static_cast<float>(1 / std::sqrt(static_cast<double>(d))));
}

namespace {

// Deviations of lines along `dim` of y and its squares, whose extent there becomes 1.
at::Tensor deviations_along(int64_t dim, at::Tensor y, at::Tensor squares) {
  const int64_t n = y.size(dim);
  for (int64_t half = n / 2; half > 0; half /= 2) {
    for (auto* x : {&y, &squares}) *x = x->narrow(dim, 0, half) + x->narrow(dim, half, half);
  }
  const auto variance = (squares - y * y * (1 / static_cast<double>(n))) * (1 / static_cast<double>(n - 1));
  return variance.clamp_min_(0).sqrt_().clamp_(kLeast, kMost);
}

at::Tensor ratio(const at::Tensor& x) { return x.amax({-2, -1}, true) / x.amin({-2, -1}, true); }

}  // namespace

at::Tensor column_factors_on_device(const at::Tensor& x, Columns columns, int64_t rounds) {
  const auto tile = x.to(at::kDouble);
  const int64_t of_column = columns == Columns::tokens ? -1 : -2,
                of_row = -3 - of_column;  // where a line's numbers lie
  auto column = at::ones_like(tile.narrow(of_column, 0, 1)), row = at::ones_like(tile.narrow(of_row, 0, 1));
  at::Tensor column_spread, row_spread;
  const auto measure = [&] {
    const auto &token = of_column == -1 ? column : row, &channel = of_column == -1 ? row : column;
    const auto y = tile * token.reciprocal() * channel.reciprocal(), squares = y * y;
    column_spread = deviations_along(of_column, y, squares), row_spread = deviations_along(of_row, y, squares);
    return ratio(column_spread) + ratio(row_spread);
  };
  auto least = measure(), best = column;
  for (int64_t round = 0; round < rounds; ++round) {
    column = (column * column_spread).clamp_(kSmallestFactor, kLargestFactor);
    measure();
    row = (row * row_spread).clamp_(kSmallestFactor, kLargestFactor);
    const auto imbalance = measure(), better = imbalance.le(least);
    best = at::where(better, column, best), least = at::where(better, imbalance, least);
  }
  return best;
}

}  // namespace kvarn
