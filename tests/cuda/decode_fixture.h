// Small paged caches for decode kernels, and what attention to them is in fp64.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "cuda/decode.cuh"

namespace kvc::KVC_DEVICE {

// How many rows (sequences times KV heads) and query heads a KV head, and each row's tokens.
struct Shape {
  int n_heads = 1, group_size = 32, page_shift = 6;
  std::vector<int> n_coded, n_window;

  int n_rows() const { return static_cast<int>(n_coded.size()); }
  int pages_a_row() const {
    return std::max(1, (*std::max_element(n_coded.begin(), n_coded.end()) + (1 << page_shift) - 1) >> page_shift);
  }
  int most_window() const { return std::max(1, *std::max_element(n_window.begin(), n_window.end())); }
};

// K or V of all rows: pools as kernels read them, and the numbers that these stand for.
template <class Format, class T, int kDim>
struct Pool {
  std::vector<unsigned> rows;
  std::vector<__half> sides;
  std::vector<T> window;
  std::vector<std::vector<double>> numbers;  // a row's [n_coded + n_window, kDim]

  Pool(const Shape& shape, const std::vector<int>& pages, std::mt19937& random) {
    const int page_tokens = 1 << shape.page_shift;
    const auto sizes = cuda_cache::sizes_of<Format>(kDim, shape.group_size, page_tokens);
    rows.resize(pages.size() * static_cast<size_t>(sizes.page_row_bytes) / 4);
    for (auto& word : rows) word = static_cast<unsigned>(random());
    sides.resize(pages.size() * static_cast<size_t>(sizes.page_side_bytes) / 2 + 1);
    std::uniform_real_distribution<float> scale(0.01f, 0.3f);
    constexpr float kLargest = static_cast<float>((1 << (Format::kBits < 16 ? Format::kBits : 0)) - 1);
    for (size_t i = 0; i < sides.size(); ++i) {
      const bool is_zero = !Format::kSymmetric && i % 2 == 1;
      sides[i] =
          __half(is_zero ? -static_cast<float>(sides[i - 1]) * kLargest * (scale(random) + 0.35f) : scale(random));
    }
    window.resize(static_cast<size_t>(shape.n_rows() * shape.most_window()) * kDim);
    std::normal_distribution<float> normal;
    for (auto& number : window) number = T(normal(random));
    if constexpr (Format::kBits == 16) {
      for (auto& word : rows) word = bits_of(T(normal(random))) | bits_of(T(normal(random))) << 16;
    }
    for (int row = 0; row < shape.n_rows(); ++row) read(shape, pages, row);
  }

 private:
  static unsigned bits_of(T x) { return std::bit_cast<unsigned short>(x); }

  void read(const Shape& shape, const std::vector<int>& pages, int row) {
    auto& to = numbers.emplace_back();
    const int page_tokens = 1 << shape.page_shift;
    for (int t = 0; t < shape.n_coded[row]; ++t) {
      const int page = pages[static_cast<size_t>(row * shape.pages_a_row() + t / page_tokens)];
      const int inside = t % page_tokens;
      for (int c = 0; c < kDim; ++c) to.push_back(coded(shape.group_size, page, page_tokens, inside, c));
    }
    for (int i = 0; i < shape.n_window[row] * kDim; ++i) {
      to.push_back(static_cast<float>(window[static_cast<size_t>(row * shape.most_window() * kDim + i)]));
    }
  }
  double coded(int group_size, int page, int page_tokens, int inside, int c) const {
    const size_t token = static_cast<size_t>(page) * page_tokens + inside;
    const unsigned word = rows[token * (kDim / Format::kCodes) + c / Format::kCodes];
    const unsigned code = word >> c % Format::kCodes * Format::kBits & ((1u << Format::kBits) - 1);
    if constexpr (Format::kBits == 16) {
      return static_cast<float>(std::bit_cast<T>(static_cast<unsigned short>(code)));
    } else {
      const size_t group =
          Format::kAxis == Axis::channels
              ? token * (kDim / group_size) + c / group_size
              : (static_cast<size_t>(page) * (page_tokens / group_size) + inside / group_size) * kDim + c;
      if (Format::kSymmetric) return static_cast<float>(sides[group]) * (static_cast<double>(code) - Format::kCentre);
      return static_cast<float>(sides[2 * group]) * static_cast<double>(code) +
             static_cast<float>(sides[2 * group + 1]);
    }
  }
};

struct Attended {
  std::vector<float> out;     // the kernel's, [n_rows, n_heads, kDim]
  std::vector<double> exact;  // of the same numbers
  double error() const {      // normalized mean squared
    double wrong = 0, all = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      wrong += (out[i] - exact[i]) * (out[i] - exact[i]);
      all += exact[i] * exact[i];
    }
    return all > 0 ? wrong / all : wrong;
  }
};

// softmax(q K^T / sqrt(kDim)) V of one row and head.
inline void attend_exactly(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
                           std::vector<double>& out) {
  const size_t dim = q.size(), n = k.size() / dim;
  std::vector<double> scores(n), sum(dim);
  for (size_t t = 0; t < n; ++t) {
    scores[t] = std::inner_product(q.begin(), q.end(), k.begin() + static_cast<long>(t * dim), 0.0) / std::sqrt(dim);
  }
  const double most = n > 0 ? *std::max_element(scores.begin(), scores.end()) : 0;
  double total = 0;
  for (size_t t = 0; t < n; ++t) {
    const double weight = std::exp(scores[t] - most);
    total += weight;
    for (size_t c = 0; c < dim; ++c) sum[c] += weight * v[t * dim + c];
  }
  for (const double x : sum) out.push_back(n > 0 ? x / total : 0.0);
}

template <class T, class KFormat, class VFormat, int kDim>
struct Case {
  using Kernel = void (*)(DecodeArguments<T>);

  // Launches the kernel and the reduction, with a number of splits that is drawn.
  static Attended run(Kernel kernel, const Shape& shape, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<int> pages(static_cast<size_t>(shape.n_rows() * shape.pages_a_row()));
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), random);
    Pool<KFormat, T, kDim> k(shape, pages, random);
    Pool<VFormat, T, kDim> v(shape, pages, random);
    std::vector<T> q(static_cast<size_t>(shape.n_rows() * shape.n_heads * kDim));
    std::normal_distribution<float> normal;
    for (auto& x : q) x = T(normal(random));

    int most_tiles = 0;
    for (int i = 0; i < shape.n_rows(); ++i) {
      most_tiles =
          std::max(most_tiles, (shape.n_coded[i] + kTile - 1) / kTile + (shape.n_window[i] + kTile - 1) / kTile);
    }
    const auto plan = cuda_cache::plan_splits(shape.n_rows(), most_tiles, static_cast<int>(random() % 12));
    const int n_parts = shape.n_rows() * plan.n_splits * shape.n_heads;
    std::vector<float> sums(static_cast<size_t>(n_parts * kDim), NAN);
    std::vector<float2> norms(static_cast<size_t>(n_parts), make_float2(NAN, NAN));
    std::vector<T> out(q.size());
    const auto side = [&](auto& pool) {
      return Side<T>{checked(std::as_const(pool.rows).data(), pool.rows.size()),
                     checked(std::as_const(pool.sides).data(), pool.sides.size()),
                     checked(std::as_const(pool.window).data(), pool.window.size()), shape.group_size};
    };
    const auto all = [](auto& x) { return checked(x.data(), x.size()); };
    const DecodeArguments<T> arguments{all(std::as_const(q)),
                                       side(k),
                                       side(v),
                                       all(shape.n_coded),
                                       all(shape.n_window),
                                       all(std::as_const(pages)),
                                       all(sums),
                                       all(norms),
                                       shape.n_heads,
                                       shape.pages_a_row(),
                                       shape.page_shift,
                                       shape.most_window(),
                                       plan.tiles_a_split,
                                       static_cast<float>(std::log2(std::exp(1.0)) / std::sqrt(kDim))};
    const auto n_rows = static_cast<unsigned>(shape.n_rows());
    KVC_LAUNCH(kernel, dim3(static_cast<unsigned>(plan.n_splits), n_rows), dim3(kThreads), 0, nullptr, arguments);
    KVC_LAUNCH(decode_reduce<T>, dim3(n_rows * static_cast<unsigned>(shape.n_heads)), dim3(kDim), 0, nullptr,
               all(std::as_const(sums)), all(std::as_const(norms)), all(out), plan.n_splits, shape.n_heads, kDim);

    Attended attended;
    for (const T x : out) attended.out.push_back(static_cast<float>(x));
    for (int i = 0; i < shape.n_rows() * shape.n_heads; ++i) {
      const auto first = q.begin() + i * kDim;
      const auto row = static_cast<size_t>(i / shape.n_heads);
      std::vector<double> query;
      for (int c = 0; c < kDim; ++c) query.push_back(static_cast<float>(first[c]));
      attend_exactly(query, k.numbers[row], v.numbers[row], attended.exact);
    }
    return attended;
  }
};

// 1 to 5 rows, lengths of 1 to `most` that are mostly short, some at the edges of tiles.
inline Shape draw_shape(std::mt19937& random, int n_heads, int group_size, int most) {
  Shape shape;
  shape.n_heads = n_heads, shape.group_size = group_size, shape.page_shift = 6 + static_cast<int>(random() % 2);
  const int n_rows = 1 + static_cast<int>(random() % 5);
  const std::vector<int> edges = {0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129};
  for (int i = 0; i < n_rows; ++i) {
    const double drawn = std::exp(std::uniform_real_distribution<>(0, std::log(most))(random));
    shape.n_coded.push_back(random() % 3 == 0 ? edges[random() % edges.size()] : static_cast<int>(drawn));
    shape.n_window.push_back(random() % 2 == 0 ? 0 : edges[random() % edges.size()]);
  }
  return shape;
}

}  // namespace kvc::KVC_DEVICE
