#include "balance.h"

#include <algorithm>
#include <cmath>

namespace kvarn {
namespace {

using Lines = std::vector<double>;

// Sums of a line's numbers, from which its standard deviation comes.
struct Sums {
  explicit Sums(int64_t n) : of_x(static_cast<size_t>(n)), of_squares(static_cast<size_t>(n)) {}
  void add(size_t line, double x) {
    of_x[line] += x;
    of_squares[line] += x * x;
  }
  Lines deviations(int64_t n_numbers) const {
    const auto n = static_cast<double>(n_numbers);
    Lines result;
    for (size_t i = 0; i < of_x.size(); ++i) {
      const double variance = (of_squares[i] - of_x[i] * of_x[i] / n) / (n - 1);
      result.push_back(std::clamp(std::sqrt(std::max(variance, 0.0)), 1e-3, 1e3));
    }
    return result;
  }
  Lines of_x, of_squares;
};

struct Deviations {
  Lines tokens, channels;
  double imbalance() const { return ratio(tokens) + ratio(channels); }

 private:
  static double ratio(const Lines& x) {
    const auto [least, most] = std::minmax_element(x.begin(), x.end());
    return *most / *least;
  }
};

// Of x[t, j] / (token_factors[t] * channel_factors[j]).
Deviations deviations(const float* x, const Lines& token_factors, const Lines& channel_factors) {
  const auto n = static_cast<int64_t>(token_factors.size()), d = static_cast<int64_t>(channel_factors.size());
  Lines inverse;
  for (const double factor : channel_factors) inverse.push_back(1 / factor);
  Sums tokens(n), channels(d);
  for (size_t t = 0; t < token_factors.size(); ++t) {
    const double of_token = 1 / token_factors[t];
    for (size_t j = 0; j < inverse.size(); ++j) {
      const double y = *x++ * of_token * inverse[j];
      tokens.add(t, y);
      channels.add(j, y);
    }
  }
  return {tokens.deviations(d), channels.deviations(n)};
}

void divide(Lines& factors, const Lines& by) {
  for (size_t i = 0; i < factors.size(); ++i) {
    factors[i] = std::exp(std::clamp(std::log(factors[i]) + std::log(by[i]), -0.3, 10.0));
  }
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
  auto spread = deviations(x, tokens, channels);
  auto best = column;
  double least = spread.imbalance();
  for (int64_t round = 0; round < rounds; ++round) {
    divide(column, by_token ? spread.tokens : spread.channels);
    spread = deviations(x, tokens, channels);
    divide(row, by_token ? spread.channels : spread.tokens);
    spread = deviations(x, tokens, channels);
    const double imbalance = spread.imbalance();
    if (imbalance > least) continue;
    least = imbalance;
    best = column;
  }
  return best;
}

}  // namespace kvarn
