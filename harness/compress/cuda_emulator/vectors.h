#pragma once
// CUDA's vectors of two to four numbers, aligned as a GPU wants them.

namespace kvc::cuda_emulated {

#define KVC_VECTORS(type, name, align2, align4)                               \
  struct alignas(align2) name##2 {                                            \
    type x, y;                                                                \
  };                                                                          \
  struct name##3 {                                                            \
    type x, y, z;                                                             \
  };                                                                          \
  struct alignas(align4) name##4 {                                            \
    type x, y, z, w;                                                          \
  };                                                                          \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
KVC_VECTORS(signed char, char, 2, 4)
KVC_VECTORS(unsigned char, uchar, 2, 4)
KVC_VECTORS(short, short, 4, 8)
KVC_VECTORS(unsigned short, ushort, 4, 8)
KVC_VECTORS(int, int, 8, 16)
KVC_VECTORS(unsigned, uint, 8, 16)
KVC_VECTORS(float, float, 8, 16)
#undef KVC_VECTORS

}  // namespace kvc::cuda_emulated
