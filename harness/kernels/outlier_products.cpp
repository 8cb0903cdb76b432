#include "kernels/outlier_products.h"

#include <algorithm>

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
    if (x.values.type == SideType::f16) {
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

// f(query row, channel of all heads of these rows, token, value) for each entry and query.
template <class F>
void for_each_entry(const TokenEntries& x, F f) {
  // index / head_dim by a product, exact for 16 bits: a division would cost more than the entry's own product.
  const uint64_t reciprocal = (uint64_t{1} << 32) / static_cast<uint64_t>(x.head_dim) + 1;
  by_index(x.entries, [&]<class Index>() {
    for (int64_t t = x.first; t < x.end; ++t) {
      for_each_run<Index>(x.entries, t, [&](const float* values, const Index* index, int64_t n) {
        for (int64_t e = 0; e < n; ++e) {
          const auto h = static_cast<int64_t>(index[e] * reciprocal >> 32);
          const int64_t row = h * x.group, at = index[e] + h * (x.group - 1) * x.head_dim;
          for (int64_t i = 0; i < x.group; ++i) f(row + i, at + i * x.head_dim, t, values[e]);
        }
      });
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

void weigh_channel_entries(const Entries& x, int64_t first_vector, int64_t head_dim, const float* weights, float* out) {
  by_index(x, [&]<class Index>() {
    for (int64_t j = 0; j < head_dim; ++j) {
      for_each_run<Index>(x, first_vector + j, [&](const float* values, const Index* index, int64_t n) {
        for (int64_t e = 0; e < n; ++e) out[j] += weights[index[e]] * values[e];
      });
    }
  });
}

void score_token_entries(const TokenEntries& x, const float* q, float* scores) {
  for_each_entry(x,
                 [&](int64_t row, int64_t at, int64_t t, float value) { scores[row * x.stride + t] += q[at] * value; });
}

void weigh_token_entries(const TokenEntries& x, const float* weights, float* out) {
  for_each_entry(
      x, [&](int64_t row, int64_t at, int64_t t, float value) { out[at] += weights[row * x.stride + t] * value; });
}

}  // namespace kvc::kernels
