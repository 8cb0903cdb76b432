#include "sparse.h"

#include <kvc/clones.h>

#include <algorithm>
#include <cmath>

namespace kvquant::sparse {
namespace {

constexpr int64_t kTile = 16;  // tokens whose scores, or weights, stand together by token: a cache line of each row
constexpr int64_t kRun = 64;   // tokens that are rotated from one angle; a multiple of kTile

// Cosines and sines of a position's angles.
struct Angles {
  std::vector<double> cosine, sine;
  Angles(const std::vector<double>& frequencies, int64_t position) {
    for (const double frequency : frequencies) {
      const double angle = frequency * static_cast<double>(position);
      cosine.push_back(std::cos(angle)), sine.push_back(std::sin(angle));
    }
  }
  void rotate(const Angles& by) {
    for (size_t i = 0; i < cosine.size(); ++i) {
      const double c = cosine[i];
      cosine[i] = c * by.cosine[i] - sine[i] * by.sine[i];
      sine[i] = sine[i] * by.cosine[i] + c * by.sine[i];
    }
  }
};

// Where a channel's head begins among query heads, and the channel in the first one's row: looked up, since a division
// is slow.
struct Place {
  uint32_t row, at;
};
std::vector<Place> places_of(const Shape& shape) {
  std::vector<Place> places;
  for (int64_t j = 0; j < shape.n_channels(); ++j) {
    const int64_t row = j / shape.head_dim * shape.group;
    places.push_back({static_cast<uint32_t>(row), static_cast<uint32_t>(row * shape.head_dim + j % shape.head_dim)});
  }
  return places;
}

// c, s [n]: cosines and sines of a + b
KVC_CLONES void rotated_by(const float* cos_a, const float* sin_a, const float* cos_b, const float* sin_b, int64_t n,
                           float* c, float* s) {
  for (int64_t i = 0; i < n; ++i) {
    c[i] = cos_a[i] * cos_b[i] - sin_a[i] * sin_b[i];
    s[i] = sin_a[i] * cos_b[i] + cos_a[i] * sin_b[i];
  }
}

// out [n_rows, stride] += tile [kTile, n_rows] of n tokens
void add_tile(const float* tile, int64_t n_rows, int64_t n, float* out, int64_t stride) {
  for (int64_t row = 0; row < n_rows; ++row) {
    for (int64_t t = 0; t < n; ++t) out[row * stride + t] += tile[t * n_rows + row];
  }
}

}  // namespace

Keys::Keys(const Shape& shape, const float* q, const float* base, std::span<const float> frequencies)
    : shape_(shape), frequencies_(frequencies.begin(), frequencies.end()) {
  const int64_t d = shape.head_dim, half = d / 2;
  for (int64_t j = 0; j < shape.n_channels(); ++j) {
    const int64_t head = j / d, i = j % d;
    channels_.push_back({base[j], static_cast<uint16_t>(head * shape.group), static_cast<uint16_t>(i % half)});
    for (int64_t g = 0; g < shape.group; ++g) {
      const float* row = q + (head * shape.group + g) * d;
      queries_.push_back(row[i]), queries_.push_back(i < half ? row[i + half] : -row[i - half]);
    }
  }
  const Angles one(frequencies_, 1);
  Angles angles(frequencies_, 0);
  for (int64_t t = 0; t < kRun; ++t, angles.rotate(one)) {
    for (size_t i = 0; i < frequencies_.size(); ++i) {
      cosine_.push_back(static_cast<float>(angles.cosine[i])), sine_.push_back(static_cast<float>(angles.sine[i]));
    }
  }
}

void Keys::score(const Entries& entries, int64_t position, float* scores, int64_t stride) const {
  const int64_t n_rows = shape_.n_queries(), group = shape_.group;
  const size_t half = frequencies_.size();
  const Angles run(frequencies_, kRun);
  Angles angles(frequencies_, position);
  std::vector<float> tile(static_cast<size_t>(kTile * n_rows)), first_c(half), first_s(half), c(half), s(half);
  const auto* index = reinterpret_cast<const uint16_t*>(entries.index);
  const float* values = entries.values;
  for (int64_t first = 0; first < entries.n_tokens; first += kTile) {
    if (first % kRun == 0) {
      if (first > 0) angles.rotate(run);
      std::copy(angles.cosine.begin(), angles.cosine.end(), first_c.begin());
      std::copy(angles.sine.begin(), angles.sine.end(), first_s.begin());
    }
    std::fill(tile.begin(), tile.end(), 0.f);
    const int64_t n = std::min(kTile, entries.n_tokens - first);
    for (int64_t t = 0; t < n; ++t) {
      const size_t step = static_cast<size_t>((first + t) % kRun) * half;
      rotated_by(first_c.data(), first_s.data(), cosine_.data() + step, sine_.data() + step, static_cast<int64_t>(half),
                 c.data(), s.data());
      float* sums = tile.data() + t * n_rows;
      const int64_t count = static_cast<uint16_t>(entries.counts[first + t]);
      const float *cosines = c.data(), *sines = s.data(), *queries = queries_.data();
      const Channel* channels = channels_.data();
      for (int64_t e = 0; e < count; ++e) {
        const Channel channel = channels[index[e]];
        const float value = values[e] - channel.base, cosine = cosines[channel.pair], sine = sines[channel.pair];
        const float* q = queries + index[e] * group * 2;
        for (int64_t g = 0; g < group; ++g) {
          sums[channel.row + g] += (q[2 * g] * cosine + q[2 * g + 1] * sine) * value;
        }
      }
      index += count, values += count;
    }
    add_tile(tile.data(), n_rows, n, scores + first, stride);
  }
}

void accumulate_v(const Shape& shape, const Entries& entries, const float* base, const float* zero,
                  const float* weights, int64_t stride, float* mixture) {
  const int64_t n_rows = shape.n_queries(), group = shape.group, d = shape.head_dim;
  const auto places = places_of(shape);
  std::vector<float> tile(static_cast<size_t>(kTile * n_rows)), zeros(static_cast<size_t>(n_rows));
  const auto* index = reinterpret_cast<const uint16_t*>(entries.index);
  const float* values = entries.values;
  for (int64_t first = 0; first < entries.n_tokens; first += kTile) {
    const int64_t n = std::min(kTile, entries.n_tokens - first);
    for (int64_t row = 0; row < n_rows; ++row) {
      const float* from = weights + row * stride + first;
      for (int64_t t = 0; t < n; ++t) tile[static_cast<size_t>(t * n_rows + row)] = from[t];
    }
    for (int64_t t = 0; t < n; ++t) {
      const float *w = tile.data() + t * n_rows, origin = base[first + t];
      const int64_t count = static_cast<uint16_t>(entries.counts[first + t]);
      for (int64_t e = 0; e < count; ++e) {
        const Place place = places[index[e]];
        const float value = values[e] - origin;
        float* out = mixture + place.at;
        for (int64_t g = 0; g < group; ++g) out[g * d] += w[place.row + g] * value;
      }
      if (zero) {
        for (int64_t row = 0; row < n_rows; ++row) zeros[static_cast<size_t>(row)] += w[row] * zero[first + t];
      }
      index += count, values += count;
    }
  }
  for (int64_t row = 0; row < n_rows && zero; ++row) {
    for (int64_t i = 0; i < d; ++i) mixture[row * d + i] += zeros[static_cast<size_t>(row)];
  }
}

}  // namespace kvquant::sparse
