#include "kernels/outlier_products.h"

#include <algorithm>
#include <vector>

#include "kernels/lanes.h"

namespace kvc::kernels {
namespace {

constexpr int64_t kRun = 256;  // entries whose values are floats at a time

// f(values, index, n) for a vector's entries, some at a time.
template <class Index, class F>
void for_each_run(const Entries& x, int64_t vector, F f) {
  float floats[kRun];
  const int64_t end = (vector + 1) * x.per_vector;
  for (int64_t at = vector * x.per_vector; at < end; at += kRun) {
    const int64_t n = std::min(kRun, end - at);
    const float* values = floats;
    if (x.values.type == NumberType::f16) {
      to_float(static_cast<const uint16_t*>(x.values.data) + at, n, floats);
    } else {
      values = static_cast<const float*>(x.values.data) + at;
    }
    f(values, static_cast<const Index*>(x.index) + at, n);
  }
}

// f.operator()<Index>() for this index's type.
template <class F>
void by_index(const Entries& x, F f) {
  x.wide ? f.template operator()<uint16_t>() : f.template operator()<uint8_t>();
}

constexpr int64_t kTile = 16;  // tokens whose scores, or weights, stand together by token: a cache line of each row
constexpr int kChains = 4;     // sums of neighbouring entries that do not wait for each other

// Some entries of one token, for all query rows.
struct Run {
  const float* values;
  int64_t n, group, head_dim;
  uint64_t reciprocal;  // of head_dim: index / head_dim by a product, exact for 16 bits; a division is slow

  // f(query row, place of the channel in it, value, number of the entry)
  template <class Index, class F>
  KVC_INLINE void each(const Index* index, F f) const {
    if (group == 1) {
      for (int64_t e = 0; e < n; ++e) f(index[e] * reciprocal >> 32, index[e], values[e], e);
      return;
    }
    for (int64_t e = 0; e < n; ++e) {
      const uint64_t h = index[e] * reciprocal >> 32;
      const auto g = static_cast<uint64_t>(group), d = static_cast<uint64_t>(head_dim);
      for (uint64_t i = 0; i < g; ++i) f(h * g + i, index[e] + (h * (g - 1) + i) * d, values[e], e);
    }
  }
};

// begin(first token, n) and end(first token, n) around tiles; f(token in the tile, run, index) for each run of entries.
template <class Begin, class F, class End>
KVC_INLINE void for_each_tile(const TokenEntries& x, Begin begin, F f, End end) {
  const uint64_t reciprocal = (uint64_t{1} << 32) / static_cast<uint64_t>(x.head_dim) + 1;
  by_index(x.entries, [&]<class Index>() {
    for (int64_t first = x.first; first < x.end; first += kTile) {
      const int64_t n_tokens = std::min(kTile, x.end - first);
      begin(first, n_tokens);
      for (int64_t t = 0; t < n_tokens; ++t) {
        for_each_run<Index>(x.entries, first + t, [&](const float* values, const Index* index, int64_t n) {
          f(t, Run{values, n, x.group, x.head_dim, reciprocal}, index);
        });
      }
      end(first, n_tokens);
    }
  });
}

}  // namespace

void score_channel_entries(const Entries& x, int64_t first_vector, int64_t head_dim, const float* q, float* scores) {
  by_index(x, [&]<class Index>() {
    for (int64_t j = 0; j < head_dim; ++j) {
      for_each_run<Index>(x, first_vector + j, [&](const float* values, const Index* index, int64_t n) {
        for (int64_t e = 0; e < n; ++e) scores[index[e]] += q[j] * values[e];
      });
    }
  });
}

void accumulate_channel_entries(const Entries& x, int64_t first_vector, int64_t head_dim, const float* weights,
                                float* out) {
  by_index(x, [&]<class Index>() {
    for (int64_t j = 0; j < head_dim; ++j) {
      for_each_run<Index>(x, first_vector + j, [&](const float* values, const Index* index, int64_t n) {
        float sums[kChains] = {};
        for (int64_t e = 0; e < n; ++e) sums[e % kChains] += weights[index[e]] * values[e];
        out[j] += (sums[0] + sums[1]) + (sums[2] + sums[3]);
      });
    }
  });
}

void score_token_entries(const TokenEntries& x, const float* q, float* scores) {
  const int64_t n_rows = x.n_heads * x.group;
  std::vector<float> tile(static_cast<size_t>(kTile * n_rows * kChains));
  for_each_tile(
      x, [&](int64_t, int64_t) { std::fill(tile.begin(), tile.end(), 0.f); },
      [&](int64_t t, const Run& run, const auto* index) {
        float* sums = tile.data() + t * n_rows * kChains;
        run.each(index, [sums, q](uint64_t row, uint64_t at, float value, int64_t e) {
          sums[row * kChains + static_cast<uint64_t>(e) % kChains] += q[at] * value;
        });
      },
      [&](int64_t first, int64_t n) {
        for (int64_t row = 0; row < n_rows; ++row) {
          for (int64_t t = 0; t < n; ++t) {
            const float* sums = tile.data() + (t * n_rows + row) * kChains;
            scores[row * x.stride + first + t] += (sums[0] + sums[1]) + (sums[2] + sums[3]);
          }
        }
      });
}

void accumulate_token_entries(const TokenEntries& x, const float* weights, float* out) {
  const int64_t n_rows = x.n_heads * x.group;
  std::vector<float> tile(static_cast<size_t>(kTile * n_rows));
  for_each_tile(
      x,
      [&](int64_t first, int64_t n) {
        for (int64_t row = 0; row < n_rows; ++row) {
          const float* from = weights + row * x.stride + first;
          for (int64_t t = 0; t < n; ++t) tile[static_cast<size_t>(t * n_rows + row)] = from[t];
        }
      },
      [&](int64_t t, const Run& run, const auto* index) {
        const float* w = tile.data() + t * n_rows;
        run.each(index, [w, out](uint64_t row, uint64_t at, float value, int64_t) { out[at] += w[row] * value; });
      },
      [](int64_t, int64_t) {});
}

}  // namespace kvc::kernels
