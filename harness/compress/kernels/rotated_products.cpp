#include "kernels/rotated_products.h"

#include <algorithm>
#include <cmath>

#include "kernels/code_machines.h"
#include "kvc/check.h"

namespace kvc::kernels {

bool RotatedLayout::takes(int64_t bits, int64_t head_dim) {
  return (bits == 2 || bits == 4) && head_dim % 2 == 0 && head_dim * bits % 32 == 0 && head_dim <= kMaxHeadDim;
}

RotatedLayout::RotatedLayout(int64_t bits, int64_t head_dim)
    : bits(bits), head_dim(head_dim), n_words(head_dim * bits / 32) {
  KVC_CHECK(takes(bits, head_dim), "rotated codes of ", bits, " bits and ", head_dim,
            " channels, allowed: 2 or 4 bits, whole words");
  tokens = 16 % n_words == 0 ? 16 / n_words : 1, vectors = (n_words + 15) / 16;
  n_codes = vectors * 32 / bits;
  n_zeros = (head_dim / 2 * tokens + 15) / 16;
  n_packed = n_codes + n_zeros;
}

RotationTables::RotationTables(const RotatedLayout& layout, std::span<const float> frequencies, int64_t position)
    : layout_(layout), frequencies_(frequencies.begin(), frequencies.end()), position_(position) {
  const int64_t half = layout.head_dim / 2;
  KVC_CHECK(static_cast<int64_t>(frequencies.size()) == half, "rotated codes: ", frequencies.size(),
            " frequencies for ", layout.head_dim, " channels");
  const auto n_angles = static_cast<size_t>(layout.tokens * half);
  for (auto* angles : {&cosine_, &sine_, &tile_cosine_, &tile_sine_}) angles->resize(n_angles);
  for (size_t i = 0; i < n_angles; ++i) {
    const double angle = frequencies_[i % frequencies_.size()] * static_cast<double>(layout.tile_tokens());
    tile_cosine_[i] = std::cos(angle), tile_sine_[i] = std::sin(angle);
  }
  const int64_t n_step = layout.n_packed * 2;
  steps_.resize(static_cast<size_t>(n_step * RotatedLayout::kSteps / 2));
  std::vector<float> c(static_cast<size_t>(half)), s(c);
  for (int64_t j = 0; j < RotatedLayout::kSteps / 2; ++j) {
    for (size_t i = 0; i < c.size(); ++i) {
      const double angle = frequencies_[i] * (static_cast<double>(j) + 0.5) * static_cast<double>(layout.tokens);
      c[i] = static_cast<float>(std::cos(angle)), s[i] = static_cast<float>(std::sin(angle));
    }
    float* out = steps_.data()[j * n_step].x;
    const auto put = [&](int64_t at, int64_t pair, int64_t) {
      out[at / 16 * 32 + at % 16] = c[static_cast<size_t>(pair)];
      out[at / 16 * 32 + 16 + at % 16] = s[static_cast<size_t>(pair)];
    };
    layout.each([&](int64_t at, int64_t channel, int64_t token) { put(at, channel % half, token); }, put);
  }
}

// The middle of the tile that begins at position_.
void RotationTables::begin() {
  const size_t half = frequencies_.size();
  const double middle = static_cast<double>(position_) +
                        0.5 * static_cast<double>(RotatedLayout::kSteps - 1) * static_cast<double>(layout_.tokens);
  for (size_t i = 0; i < cosine_.size(); ++i) {
    const double angle = frequencies_[i % half] * (middle + static_cast<double>(i / half));
    cosine_[i] = std::cos(angle), sine_[i] = std::sin(angle);
  }
  n_since_exact_ = 0;
}

void RotationTables::next(int64_t n_tokens) {
  constexpr int64_t kMostTiles = 1024;
  const int64_t half = layout_.head_dim / 2, tile = layout_.tile_tokens(), n_tiles = (n_tokens + tile - 1) / tile;
  tiles_.resize(static_cast<size_t>(n_tiles * layout_.n_packed * 2));
  if (cosine_.empty() || is_open_ || n_since_exact_ == 0 || n_since_exact_ > kMostTiles) begin();
  float* out = tiles_.data()->x;
  for (int64_t i = 0; i < n_tiles; ++i, out += layout_.n_packed * 32, ++n_since_exact_) {
    const auto put = [&](int64_t at, int64_t pair, int64_t token) {
      out[at / 16 * 32 + at % 16] = static_cast<float>(cosine_[static_cast<size_t>(token * half + pair)]);
      out[at / 16 * 32 + 16 + at % 16] = static_cast<float>(sine_[static_cast<size_t>(token * half + pair)]);
    };
    layout_.each([&](int64_t at, int64_t channel, int64_t token) { put(at, channel % half, token); }, put);
    for (size_t a = 0; a < cosine_.size(); ++a) {
      const double c = cosine_[a];
      cosine_[a] = c * tile_cosine_[a] - sine_[a] * tile_sine_[a];
      sine_[a] = sine_[a] * tile_cosine_[a] + c * tile_sine_[a];
    }
  }
  position_ += n_tokens, is_open_ = n_tokens % tile != 0;
}

void pack_query(const RotatedLayout& layout, const float* q, const float* scale, const float* zero, float* packed_q) {
  const int64_t half = layout.head_dim / 2;
  std::fill_n(packed_q, layout.n_packed * 32, 0.f);
  const auto put = [&](int64_t at, float along, float across) {
    packed_q[at / 16 * 32 + at % 16] = along, packed_q[at / 16 * 32 + 16 + at % 16] = across;
  };
  layout.each([&](int64_t at, int64_t j,
                  int64_t) { put(at, q[j] * scale[j], (j < half ? q[j + half] : -q[j - half]) * scale[j]); },
              [&](int64_t at, int64_t i, int64_t) {
                put(at, q[i] * zero[i] + q[i + half] * zero[i + half], q[i + half] * zero[i] - q[i] * zero[i + half]);
              });
}

void score_rotated_codes(const RotatedLayout& layout, const RotatedCodes& k, ConstRows queries, Rows scores) {
  code_loops().score_rotated_codes(layout, k, queries, scores);
}

}  // namespace kvc::kernels
