// Scores of codes whose channels are rotated by their token's position (RoPE) before they meet the query, on raw
// pointers; no LibTorch. Where channel j before turning is x^_tj = zero_j + scale_j level[code_tj], the query is rotated
// back instead of the key:
//   score_t = sum_j q_j(t) x^_tj,   q(t) = q cos(angle_t) + q' sin(angle_t),   q'_i = q_(i + D/2), q'_(i + D/2) = -q_i
// Idea: 16 vectors of codes are a tile. The query is rotated to the tile's middle once, a and a' there, and its entries
// j + 1/2 steps before and behind are a cos -+ a' sin with cosines and sines that are the same in all tiles. Scale and
// layout are in q, zeros are summed over pairs of channels once a query: a code costs a turn (one product, one sum), a
// lookup and one multiply-add. Angles are exact to fp64 where a table begins, and advanced from there in fp64.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/code_products.h"

namespace kvc::kernels {

// How tokens of codes stand in vectors of 16 words; head_dim even, rows of whole words.
struct RotatedLayout {
  static constexpr int64_t kSteps = 16;  // vectors of a tile
  int64_t bits, head_dim, n_words;
  int64_t tokens, vectors;             // of a vector, or of a token
  int64_t n_codes, n_zeros, n_packed;  // vectors of 16 entries: one a code of each word; what zeros add up; both

  RotatedLayout(int64_t bits, int64_t head_dim);
  static bool takes(int64_t bits, int64_t head_dim);  // bits 2, 4
  int64_t tile_tokens() const { return kSteps * tokens; }

  // f(place, channel, token of the vector) for each of 16 * n_codes entries, channel < head_dim; then the same for
  // zeros with the number of a pair of channels.
  template <class F, class G>
  void each(F f, G g) const {
    const int64_t in_word = 32 / bits, lanes = 16 / tokens;
    for (int64_t i = 0; i < n_codes; ++i) {
      for (int64_t l = 0; l < 16; ++l) {
        const int64_t token = tokens > 1 ? l / lanes : 0;
        const int64_t word = tokens > 1 ? l % lanes : i / in_word * 16 + l, j = word * in_word + i % in_word;
        if (word < n_words) f(16 * i + l, j, token);
      }
    }
    for (int64_t i = 0; i < n_zeros; ++i) {
      for (int64_t l = 0; l < 16; ++l) {
        const int64_t pair = i * lanes + l % lanes;
        if (pair < head_dim / 2) g(16 * (n_codes + i) + l, pair, l / lanes);
      }
    }
  }
};

// Cosines and sines of the tokens that follow one another from a position on, for all heads of a layer.
class RotationTables {
 public:
  RotationTables(const RotatedLayout& layout, std::span<const float> frequencies, int64_t position);
  void next(int64_t n_tokens);  // of these many more tokens

  const float* tiles() const { return tiles_.data()->x; }  // [tiles, n_packed, 2, 16]: cosines, sines of tiles' middles
  const float* steps() const { return steps_.data()->x; }  // [8, n_packed, 2, 16]: of j + 1/2 steps

 private:
  void begin();
  RotatedLayout layout_;
  std::vector<double> frequencies_;
  std::vector<double> cosine_, sine_, tile_cosine_, tile_sine_;  // [tokens, D/2]: the next tile's middle; a tile's turn
  struct alignas(64) Vector {                                    // a cache line: loads of two would take twice as long
    float x[16] = {};
  };
  std::vector<Vector> tiles_, steps_;
  int64_t position_, n_since_exact_ = 0;  // tiles since angles were exact
  bool is_open_ = false;                  // whether the last call ended inside a tile
};

// q [D], scale and zero of its head's channels [D] -> [n_packed, 2, 16]: q and q' as the codes stand. Aligned to 64 bytes
// it is read faster.
void pack_query(const RotatedLayout& layout, const float* q, const float* scale, const float* zero, float* packed_q);

// One head's.
struct RotatedCodes {
  const int32_t* words;  // [n_tokens, n_words]
  int64_t n_tokens;
  const float* levels;         // [2^bits], finite
  const float *tiles, *steps;  // of RotationTables
};

// scores [n, T] += those of packed queries [n, n_packed, 2, 16]
void score_rotated_codes(const RotatedLayout& layout, const RotatedCodes& k, ConstRows queries, Rows scores);

}  // namespace kvc::kernels
