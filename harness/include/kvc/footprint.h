// The measured size of a cache, in bytes, by tensor and kind.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kvc/check.h"

namespace kvc {

enum class CacheTensor : uint8_t { k, v, shared };

enum class ByteKind : uint8_t {
  codes,          // packed quantization codes
  scales,         // step of each group
  zeros,          // minimum (or zero point) of each group
  low_rank,       // factors A and B
  sparse_values,  // values of outliers
  sparse_index,   // their positions
  means,
  norms,
  sketch,    // signs of projections
  codebook,  // levels of a non-uniform quantizer
  recent,    // uncompressed tokens
  mask,
  index,       // positions of kept tokens
  scores,      // ranking scores of kept tokens
  parameters,  // copies of the model's, as of some heads' attention sinks
  reserved,    // allocated for tokens to come; not part of a cache's size
};

KVC_EXPORT const char* to_string(CacheTensor tensor);
KVC_EXPORT const char* to_string(ByteKind kind);

struct FootprintRow {
  CacheTensor tensor;
  ByteKind kind;
  int64_t bytes;
};

// Range of bytes that an allocator may use for storages. A GPU's uses blocks of 512 bytes, and may add up to 1 MiB to
// storages of 1 MiB and more.
struct AllocatedBytes {
  int64_t least = 0, most = 0;
};

// Sizes of live storage, not computed ones. Tensors that share one storage are counted once.
class KVC_EXPORT Footprint {
 public:
  // Adds the bytes of the tensor's whole storage, which may be larger than the tensor. Undefined tensors add nothing.
  void add(CacheTensor tensor, ByteKind kind, const at::Tensor& held);
  // On a device, the bytes of a view, and the other ones of its storage as reserved; on the CPU as add().
  void add_used(CacheTensor tensor, ByteKind kind, const at::Tensor& view);
  // Bytes on the CPU of a storage that is not at hand: of a tensor in another process.
  void add_bytes(CacheTensor tensor, ByteKind kind, int64_t bytes);
  // Sum of another footprint, row by row.
  void add(const Footprint& other);

  const std::vector<FootprintRow>& rows() const { return rows_; }  // one per (tensor, kind), in order of first use
  int64_t total_bytes() const;                                     // without reserved ones
  const AllocatedBytes& allocated() const { return allocated_; }   // for the same storages

 private:
  bool add_storage(const at::Tensor& held);  // false if it was added before, or there is none
  void add_to_row(CacheTensor tensor, ByteKind kind, int64_t bytes);

  std::vector<FootprintRow> rows_;
  AllocatedBytes allocated_;
  std::vector<const void*> seen_;
};

}  // namespace kvc
