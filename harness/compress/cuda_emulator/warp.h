#pragma once
// What the lanes of a warp, or the threads of a block, do together: barriers, shuffles, votes, reductions.

#include <bit>
#include <cstring>

#include "cuda_emulator/block.h"

namespace kvc::cuda_emulated {

inline void __syncthreads(Where where = Where::current()) { sync_block("__syncthreads", false, where); }
inline int __syncthreads_count(int predicate, Where where = Where::current()) {
  return sync_block("__syncthreads_count", predicate != 0, where).count;
}
inline int __syncthreads_and(int predicate, Where where = Where::current()) {
  const Votes votes = sync_block("__syncthreads_and", predicate != 0, where);
  return votes.count == votes.threads;
}
inline int __syncthreads_or(int predicate, Where where = Where::current()) {
  return sync_block("__syncthreads_or", predicate != 0, where).count > 0;
}
inline void named_barrier(int number, int threads, Where where = Where::current()) {
  sync_named(number, threads, where);
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, Where where = Where::current()) { sync_warp(mask, where); }

template <class T>
struct ShuffleSlot {
  T value;
  int from;  // the lane that is read
  T result;
  bool came = false;  // it took part
};

// Each lane reads the value of lane `from`.
template <class T>
T shuffle(const char* what, unsigned mask, T value, int from, Where where) {
  ShuffleSlot<T> slot{value, from, value};
  meet_warp(
      what, mask, &slot,
      [](const Lanes& lanes) {
        for (unsigned left = lanes.arrived; left != 0; left &= left - 1) {
          auto& to = *static_cast<ShuffleSlot<T>*>(lanes.slots[std::countr_zero(left)]);
          to.came = lanes.arrived >> to.from & 1;
          if (to.came) {
            to.result = static_cast<ShuffleSlot<T>*>(lanes.slots[to.from])->value;
          }
        }
      },
      where);
  if (!slot.came) {
    fail(where, std::string(what) + " reads lane " + std::to_string(from) + ", which " +
                    (mask >> from & 1 ? "has ended" : "the mask leaves out"));
  }
  return slot.result;
}

inline int first_of_segment(int width) { return this_lane() & ~(width - 1); }
inline void check_width(const char* what, int width, Where where) {
  if (width < 1 || width > warpSize || !std::has_single_bit(static_cast<unsigned>(width))) {
    fail(where, std::string(what) + " of width " + std::to_string(width) + "; allowed are 1, 2, 4, 8, 16, 32");
  }
}
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = warpSize, Where where = Where::current()) {
  check_width("__shfl_sync", width, where);
  return shuffle("__shfl_sync", mask, value, first_of_segment(width) + (lane & (width - 1)), where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = warpSize, Where where = Where::current()) {
  check_width("__shfl_up_sync", width, where);
  const int from = this_lane() - static_cast<int>(by);
  return shuffle("__shfl_up_sync", mask, value, from < first_of_segment(width) ? this_lane() : from, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = warpSize, Where where = Where::current()) {
  check_width("__shfl_down_sync", width, where);
  const int from = this_lane() + static_cast<int>(by);
  return shuffle("__shfl_down_sync", mask, value, from >= first_of_segment(width) + width ? this_lane() : from, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int by, int width = warpSize, Where where = Where::current()) {
  check_width("__shfl_xor_sync", width, where);
  const int from = this_lane() ^ by;
  return shuffle("__shfl_xor_sync", mask, value, from >= first_of_segment(width) + width ? this_lane() : from, where);
}

// Each lane gets Function(value of a, value of b), over all lanes, in the order of their numbers.
template <class T, class Function>
T reduce(const char* what, unsigned mask, T value, Function, Where where) {
  meet_warp(
      what, mask, &value,
      [](const Lanes& lanes) {
        unsigned left = lanes.arrived;
        T all = *static_cast<T*>(lanes.slots[std::countr_zero(left)]);
        for (left &= left - 1; left != 0; left &= left - 1) {
          all = Function{}(all, *static_cast<T*>(lanes.slots[std::countr_zero(left)]));
        }
        for (left = lanes.arrived; left != 0; left &= left - 1) {
          *static_cast<T*>(lanes.slots[std::countr_zero(left)]) = all;
        }
      },
      where);
  return value;
}
#define KVC_REDUCTION(name, expression)                                                     \
  template <class T>                                                                        \
  requires(sizeof(T) == 4) T name(unsigned mask, T value, Where where = Where::current()) { \
    return reduce(                                                                          \
        #name, mask, value, [](T a, T b) -> T { return expression; }, where);               \
  }
KVC_REDUCTION(__reduce_add_sync, a + b)
KVC_REDUCTION(__reduce_min_sync, a < b ? a : b)
KVC_REDUCTION(__reduce_max_sync, a < b ? b : a)
KVC_REDUCTION(__reduce_and_sync, a& b)
KVC_REDUCTION(__reduce_or_sync, a | b)
KVC_REDUCTION(__reduce_xor_sync, a ^ b)
#undef KVC_REDUCTION

inline unsigned votes_of_warp(const char* what, unsigned mask, bool predicate, Where where) {
  const unsigned mine = predicate ? 1u << this_lane() : 0;
  return reduce(
      what, mask, mine, [](unsigned a, unsigned b) { return a | b; }, where);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, Where where = Where::current()) {
  return votes_of_warp("__ballot_sync", mask, predicate != 0, where);
}
inline int __any_sync(unsigned mask, int predicate, Where where = Where::current()) {
  return votes_of_warp("__any_sync", mask, predicate != 0, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate, Where where = Where::current()) {
  return votes_of_warp("__all_sync", mask, predicate == 0, where) == 0;
}

// The lanes of the mask whose value is the same, bit for bit.
template <class T>
unsigned __match_any_sync(unsigned mask, T value, Where where = Where::current()) {
  struct Slot {
    T value;
    unsigned same = 0;
  } slot{value};
  meet_warp(
      "__match_any_sync", mask, &slot,
      [](const Lanes& lanes) {
        for (unsigned to = lanes.arrived; to != 0; to &= to - 1) {
          auto& mine = *static_cast<Slot*>(lanes.slots[std::countr_zero(to)]);
          for (unsigned from = lanes.arrived; from != 0; from &= from - 1) {
            const int lane = std::countr_zero(from);
            if (std::memcmp(&static_cast<Slot*>(lanes.slots[lane])->value, &mine.value, sizeof(T)) == 0) {
              mine.same |= 1u << lane;
            }
          }
        }
      },
      where);
  return slot.same;
}

inline void __threadfence() {}
inline void __threadfence_block() {}

}  // namespace kvc::cuda_emulated
