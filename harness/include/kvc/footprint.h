// Exact bytes a cache holds, by tensor and kind.
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
  recent,    // tokens held uncompressed
  mask,
  index,   // positions of kept tokens
  scores,  // what kept tokens are ranked by
};

KVC_EXPORT const char* to_string(CacheTensor tensor);
KVC_EXPORT const char* to_string(ByteKind kind);

struct FootprintRow {
  CacheTensor tensor;
  ByteKind kind;
  int64_t bytes;
};

// What an allocator may hold for storages. On a GPU it gives whole blocks of 512 bytes, and of those from 1 MiB on it
// may leave up to 1 MiB behind the end.
struct AllocatedBytes {
  int64_t least = 0, most = 0;
};

// What is held, not what theory says: rows are sizes of live storage. Tensors that share one storage are added once.
class KVC_EXPORT Footprint {
 public:
  // Adds the bytes of the tensor's whole storage, which may be larger than the view. Undefined tensors add nothing.
  void add(CacheTensor tensor, ByteKind kind, const at::Tensor& held);
  // Sum of another footprint, row by row.
  void add(const Footprint& other);

  const std::vector<FootprintRow>& rows() const { return rows_; }  // one per (tensor, kind), in order of first use
  int64_t total_bytes() const;
  const AllocatedBytes& allocated() const { return allocated_; }  // for the same storages

 private:
  void add_bytes(CacheTensor tensor, ByteKind kind, int64_t bytes);

  std::vector<FootprintRow> rows_;
  AllocatedBytes allocated_;
  std::vector<const void*> seen_;
};

}  // namespace kvc
