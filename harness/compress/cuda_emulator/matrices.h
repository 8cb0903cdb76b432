#pragma once
// Products of a warp's matrices and their loads, by the tables of the PTX manual; device.cuh says them at the same
// names.

#include "cuda_emulator/narrow_floats.h"
#include "cuda_emulator/pointers.h"

namespace kvc::cuda_emulated {

template <class Sum>
struct ProductSlot {
  Sum* sum;           // [4]
  const unsigned* a;  // [4]
  const unsigned* b;  // [2]
};

// Number `part` of the 32 bits / parts that a register holds.
inline double element(HalfFormat, unsigned bits, int part) {
  return HalfFormat::decode(static_cast<std::uint16_t>(bits >> 16 * part));
}
inline double element(BfloatFormat, unsigned bits, int part) {
  return BfloatFormat::decode(static_cast<std::uint16_t>(bits >> 16 * part));
}
struct ByteFormat {};
inline int element(ByteFormat, unsigned bits, int part) { return static_cast<signed char>(bits >> 8 * part); }

// The matrices that the lanes' registers are, and from their product the sums: Parts numbers a register, 8 Parts
// columns.
template <class Format, int Parts, class Exact, class Sum>
void multiply(const Lanes& lanes) {
  constexpr int depth = 8 * Parts;
  Exact a[16][depth], b[depth][8];
  for (int lane = 0; lane < warpSize; ++lane) {
    const auto& slot = *static_cast<ProductSlot<Sum>*>(lanes.slots[lane]);
    const int group = lane / 4, column = lane % 4 * Parts;
    for (int part = 0; part < Parts; ++part) {
      for (int i = 0; i < 4; ++i) {
        a[group + i % 2 * 8][column + part + i / 2 * depth / 2] = element(Format{}, slot.a[i], part);
      }
      for (int i = 0; i < 2; ++i) {
        b[column + part + i * depth / 2][group] = element(Format{}, slot.b[i], part);
      }
    }
  }
  Exact product[16][8] = {};
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < depth; ++k) {
      for (int column = 0; column < 8; ++column) {
        product[row][column] += a[row][k] * b[k][column];
      }
    }
  }
  for (int lane = 0; lane < warpSize; ++lane) {
    const auto& slot = *static_cast<ProductSlot<Sum>*>(lanes.slots[lane]);
    for (int i = 0; i < 4; ++i) {
      slot.sum[i] =
          static_cast<Sum>(static_cast<Exact>(slot.sum[i]) + product[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]);
    }
  }
}

// A whole warp has to come: hardware knows no mask here.
inline void meet_whole_warp(const char* what, void* slot, void (*complete)(const Lanes&), Where where) {
  struct Call {
    void* slot;
    void (*complete)(const Lanes&);
    bool whole = false;
  } call{slot, complete};
  meet_warp(
      what, 0xFFFFFFFFu, &call,
      [](const Lanes& lanes) {
        Lanes inner{lanes.arrived, {}};
        for (int lane = 0; lane < warpSize && lanes.arrived == 0xFFFFFFFFu; ++lane) {
          inner.slots[lane] = static_cast<Call*>(lanes.slots[lane])->slot;
          static_cast<Call*>(lanes.slots[lane])->whole = true;
        }
        if (lanes.arrived == 0xFFFFFFFFu) {
          static_cast<Call*>(lanes.slots[0])->complete(inner);
        }
      },
      where);
  if (!call.whole) {
    fail(where, std::string(what) + " by a warp of which a lane has ended or never was");
  }
}

template <class Format, int Parts, class Exact, class Sum>
void multiply_add(const char* what, Sum (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2], Where where) {
  ProductSlot<Sum> slot{sum, a, b};
  meet_whole_warp(what, &slot, &multiply<Format, Parts, Exact, Sum>, where);
}
inline void mma_f16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2], Where where = Where::current()) {
  multiply_add<HalfFormat, 2, double>("mma_f16", sum, a, b, where);
}
inline void mma_bf16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2], Where where = Where::current()) {
  multiply_add<BfloatFormat, 2, double>("mma_bf16", sum, a, b, where);
}
inline void mma_s8(int (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2], Where where = Where::current()) {
  multiply_add<ByteFormat, 4, int>("mma_s8", sum, a, b, where);
}

struct alignas(16) MatrixRow {
  std::uint16_t columns[8];
};

struct MatrixSlot {
  MatrixRow row;
  unsigned* to;
  int count;
  bool transposed;
};

inline void distribute(const Lanes& lanes) {
  const auto slot = [&](int lane) -> MatrixSlot& { return *static_cast<MatrixSlot*>(lanes.slots[lane]); };
  for (int lane = 0; lane < warpSize; ++lane) {
    for (int matrix = 0; matrix < slot(lane).count; ++matrix) {
      unsigned pair[2];
      for (int i = 0; i < 2; ++i) {
        const int row = slot(lane).transposed ? lane % 4 * 2 + i : lane / 4;
        const int column = slot(lane).transposed ? lane / 4 : lane % 4 * 2 + i;
        pair[i] = slot(8 * matrix + row).row.columns[column];
      }
      slot(lane).to[matrix] = pair[0] | pair[1] << 16;
    }
  }
}

template <int Count, class T>
void load_matrices(const char* what, unsigned (&to)[Count], smem_ptr<T> row, bool transposed, Where where) {
  static_assert(Count == 1 || Count == 2 || Count == 4);
  MatrixSlot slot{{}, to, Count, transposed};
  if (this_lane() < 8 * Count) {
    slot.row = pointer_cast<const MatrixRow>(row)[At(0, where)];
  }
  meet_whole_warp(what, &slot, &distribute, where);
}
template <int Count, class T>
void ldmatrix(unsigned (&to)[Count], smem_ptr<T> row, Where where = Where::current()) {
  load_matrices("ldmatrix", to, row, false, where);
}
template <int Count, class T>
void ldmatrix_trans(unsigned (&to)[Count], smem_ptr<T> row, Where where = Where::current()) {
  load_matrices("ldmatrix_trans", to, row, true, where);
}

inline void transpose(const Lanes& lanes) {
  const auto pair = [&](int lane) -> unsigned(&)[2] { return *static_cast<unsigned(*)[2]>(lanes.slots[lane]); };
  for (int lane = 0; lane < warpSize; ++lane) {
    unsigned transposed = 0;
    for (int i = 0; i < 2; ++i) {  // row lane % 4 * 2 + i of column lane / 4
      const int from = (lane % 4 * 2 + i) * 4 + lane / 4 / 2;
      transposed |= (pair(from)[0] >> lane / 4 % 2 * 16 & 0xFFFFu) << 16 * i;
    }
    pair(lane)[1] = transposed;
  }
}
inline unsigned movmatrix_trans(unsigned pair, Where where = Where::current()) {
  unsigned slot[2] = {pair, 0};
  meet_whole_warp("movmatrix_trans", &slot, &transpose, where);
  return slot[1];
}

template <int Bytes, class To, class From>
void cp_async(smem_ptr<To> to, gmem_ptr<From> from, int filled = Bytes, Where where = Where::current()) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  if (filled < 0 || filled > Bytes) {
    fail(where, "cp_async of " + std::to_string(Bytes) + " bytes, of which " + std::to_string(filled) + " are read");
  }
  touch_shared(to.address(), Bytes, Bytes, to.begin(), to.end(), Access::write, where);
  if (filled > 0) {
    touch_global(from.address(), filled, Bytes, from.begin(), from.end(), false, where);
  }
  start_copy(const_cast<std::remove_const_t<To>*>(to.address()), from.address(), Bytes, filled, where);
}
inline void cp_async_commit() { commit_copies(); }
template <int Left>
void cp_async_wait() {
  wait_for_copies(Left);
}

}  // namespace kvc::cuda_emulated
