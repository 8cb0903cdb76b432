#include "pieces.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <vector>

#include "head_rows.h"
#include "kernels/code_products.h"
#include "kernels/quantize_groups.h"
#include "kvc/quant/pack_bits.h"

namespace kvc {
namespace {

constexpr int64_t kPieceEntries = 1 << 15;  // of a row's groups; worth waking a thread for

// Some tokens of one head, or of all heads together.
struct Piece {
  int64_t head, first, n;
};

// What a thread needs for its pieces.
struct Room {
  std::vector<float> floats, rows;
  std::vector<uint8_t> mask, codes;
  std::vector<char> scale, zero;
  std::vector<int32_t> words;
};

class Pieces {
 public:
  Pieces(const at::Tensor& x, const at::Tensor& left_out, GroupCodes& codes)
      : x_(x),
        mask_(left_out.defined() ? left_out.contiguous() : left_out),
        codes_(codes),
        bits_(codes.format.bits),
        along_tokens_(codes.format.axis == GroupAxis::tokens),
        row_((along_tokens_ ? x.size(1) : x.size(2)) * (codes.format.merge_heads ? x.size(0) : 1)),
        group_(row_ / codes.scale.size(2)),
        piece_tokens_(along_tokens_ ? tokens_along(x.size(1), group_, x.size(2))
                                    : std::clamp<int64_t>(kPieceEntries / row_, 1, x.size(1))) {}

  bool quantize() {
    const int64_t n_heads = codes_.format.merge_heads ? 1 : x_.size(0);
    const int64_t n_pieces = (x_.size(1) + piece_tokens_ - 1) / piece_tokens_;
    std::atomic<bool> finite = true;
    const int64_t entries = piece_tokens_ * (along_tokens_ ? x_.size(2) : row_);
    at::parallel_for(0, n_heads * n_pieces, std::max<int64_t>(1, kPieceEntries / entries),
                     [&](int64_t at, int64_t end) {
                       Room room;
                       for (; at < end; ++at) {
                         const int64_t first = at % n_pieces * piece_tokens_;
                         const Piece piece{at / n_pieces, first, std::min(piece_tokens_, x_.size(1) - first)};
                         if (!(along_tokens_ ? quantize_channels(piece, room) : quantize_tokens(piece, room)))
                           finite = false;
                       }
                     });
    return finite.load();
  }

 private:
  // Whole groups that end with a tile of codes; one group alone is never cut.
  static int64_t tokens_along(int64_t n_tokens, int64_t group, int64_t head_dim) {
    if (group == n_tokens) return n_tokens;
    const int64_t unit = std::lcm(group, 32 * kernels::kTileEntries / 2);
    return std::min(n_tokens, (kPieceEntries / head_dim + unit - 1) / unit * unit);
  }

  const uint8_t* mask(int64_t head, int64_t first) const {
    if (!mask_.defined()) return nullptr;
    return static_cast<const uint8_t*>(mask_.const_data_ptr()) + (head * x_.size(1) + first) * x_.size(2);
  }

  bool half() const { return codes_.scale.scalar_type() == at::kHalf; }
  int64_t scale_size() const { return half() ? 2 : 4; }
  // Of a side, the groups from this row's first on.
  char* groups_at(at::Tensor& x, int64_t row) const {
    return x.defined() ? static_cast<char*>(x.data_ptr()) + row * x.size(2) * scale_size() : nullptr;
  }

  kernels::QuantizeGroups job(const float* x, int64_t n_groups) const {
    return {.x = x,
            .left_out = nullptr,
            .n_groups = n_groups,
            .group_size = group_,
            .bits = bits_,
            .symmetric = codes_.format.symmetric,
            .scale = nullptr,
            .zero = nullptr,
            .half = half(),
            .codes = nullptr};
  }

  // Rows are tokens of one head, or of all heads.
  bool quantize_tokens(const Piece& piece, Room& room) {
    const int64_t d = x_.size(2), n_heads = row_ / d, n_tokens = x_.size(1);
    int64_t stride = 0;
    const float* x = nullptr;
    const uint8_t* left_out = mask(piece.head, piece.first);
    if (n_heads == 1) x = x_.read(piece.head, piece.first, piece.n, room.floats, stride);
    if (n_heads > 1 || stride != d) {
      float* rows = grown(room.rows, piece.n * row_);
      for (int64_t h = 0; h < n_heads; ++h) {
        const float* from = x_.read(piece.head + h, piece.first, piece.n, room.floats, stride);
        for (int64_t t = 0; t < piece.n; ++t) std::copy_n(from + t * stride, d, rows + t * row_ + h * d);
      }
      x = rows;
    }
    if (left_out && n_heads > 1) {
      uint8_t* rows = grown(room.mask, piece.n * row_);
      for (int64_t h = 0; h < n_heads; ++h) {
        for (int64_t t = 0; t < piece.n; ++t) std::copy_n(mask(h, piece.first + t), d, rows + t * row_ + h * d);
      }
      left_out = rows;
    }
    auto groups = job(x, piece.n * row_ / group_);
    const int64_t row = piece.head * n_tokens + piece.first;
    groups.left_out = left_out;
    groups.scale = groups_at(codes_.scale, row), groups.zero = groups_at(codes_.zero, row);
    groups.codes = grown(room.codes, piece.n * row_);
    if (!kernels::quantize_groups(groups)) return false;
    auto* words = codes_.codes.data_ptr<int32_t>();
    const int64_t n_words = codes_.codes.size(2);
    if (n_heads == 1) {
      kernels::pack(groups.codes, piece.n, d, bits_, words + row * n_words);
      return true;
    }
    for (int64_t t = 0; t < piece.n; ++t) {
      for (int64_t h = 0; h < n_heads; ++h) {
        kernels::pack(groups.codes + t * row_ + h * d, 1, d, bits_, words + (h * n_tokens + row + t) * n_words);
      }
    }
    return true;
  }

  // Rows are channels.
  bool quantize_channels(const Piece& piece, Room& room) {
    const int64_t d = x_.size(2), n_groups = piece.n / group_;
    int64_t stride = 0;
    const float* x = x_.read(piece.head, piece.first, piece.n, room.floats, stride);
    float* rows = grown(room.rows, piece.n * d);
    kernels::transpose(x, stride, piece.n, d, rows);
    auto groups = job(rows, d * n_groups);
    if (mask_.defined()) {
      uint8_t* left_out = grown(room.mask, piece.n * d);
      kernels::transpose(mask(piece.head, piece.first), d, piece.n, d, left_out);
      groups.left_out = left_out;
    }
    groups.scale = grown(room.scale, d * n_groups * scale_size());
    groups.zero = grown(room.zero, d * n_groups * scale_size());
    groups.codes = grown(room.codes, piece.n * d);
    if (!kernels::quantize_groups(groups)) return false;
    const int64_t n_words = n_packed_words(piece.n, bits_);
    int32_t* words = grown(room.words, d * n_words);
    kernels::pack(groups.codes, d, piece.n, bits_, words);
    into_tiles(words, n_words, piece.first * bits_ / 32, piece.head, 4, codes_.codes);
    const int64_t first_group = piece.first / group_;
    into_tiles(groups.scale, n_groups, first_group, piece.head, scale_size(), codes_.scale);
    if (codes_.zero.defined()) into_tiles(groups.zero, n_groups, first_group, piece.head, scale_size(), codes_.zero);
    return true;
  }

  // rows [D, n] -> entries [first, first + n) of the head's rows (tiles.h)
  static void into_tiles(const void* rows, int64_t n, int64_t first, int64_t head, int64_t size, at::Tensor& out) {
    const int64_t d = out.size(1), all = out.size(2);
    const auto* from = static_cast<const char*>(rows);
    auto* to = static_cast<char*>(out.data_ptr()) + head * d * all * size;
    for (int64_t at = first; at < first + n;) {
      const int64_t tile = at / kernels::kTileEntries * kernels::kTileEntries;
      const int64_t width = std::min(kernels::kTileEntries, all - tile), end = std::min(tile + width, first + n);
      for (int64_t j = 0; j < d; ++j) {
        std::copy_n(from + (j * n + at - first) * size, (end - at) * size,
                    to + (tile * d + j * width + at - tile) * size);
      }
      at = end;
    }
  }

  HeadRows x_;
  at::Tensor mask_;
  GroupCodes& codes_;
  int64_t bits_;
  bool along_tokens_;
  int64_t row_, group_;  // entries
  int64_t piece_tokens_;
};

}  // namespace

bool quantize_pieces(const at::Tensor& x, const at::Tensor& left_out, GroupCodes& codes) {
  return Pieces(x, left_out, codes).quantize();
}

}  // namespace kvc
