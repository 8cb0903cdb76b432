// The header of a .safetensors file: which tensor lies where. The format: 8 bytes little-endian header length N, N
// bytes of JSON {"name": {"dtype", "shape", "data_offsets": [begin, end)}, ..., "__metadata__": {...}}, then the data.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kvc {

struct StoredTensor {
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // byte offsets from the start of the data
  int64_t end = 0;
};

inline constexpr int64_t kMaxHeaderBytes = 100'000'000;
inline constexpr int64_t kMaxTensors = 1'000'000;
inline constexpr int64_t kMaxDims = 8;

// Throws Error naming `file`, tensor, field and value unless the tensors cover [0, data_bytes) exactly once.
// `metadata`, if given, gets the texts of __metadata__.
std::map<std::string, StoredTensor> parse_safetensors_header(std::string_view json, int64_t data_bytes,
                                                             const std::string& file,
                                                             std::map<std::string, std::string>* metadata = nullptr);

// The format's name of a type ("BF16"). Throws Error where it has none.
std::string safetensors_dtype_name(at::ScalarType dtype);

}  // namespace kvc
