// A model's tensors by the names of Hugging Face's checkpoints, whatever file they come from.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/weight_blocks.h"

namespace kvc {

// Rows of a matrix as the file holds them.
struct BlockRows {
  kernels::BlockType type;
  at::Tensor bytes;  // uint8 [rows, bytes of a row]
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  virtual std::vector<std::string> names() const = 0;
  virtual bool has(const std::string& name) const = 0;
  // The tensor in its stored type, blocks as fp32. Throws Error naming file, tensor and both shapes where it is absent,
  // not a floating-point type, or not of `shape`.
  virtual at::Tensor tensor(const std::string& name, const std::vector<int64_t>& shape) const = 0;
  // The rows of a matrix that is held in blocks; nothing where it is held in floats. Errors as above.
  virtual std::optional<BlockRows> blocks(const std::string& name, const std::vector<int64_t>& shape) const = 0;
};

// Of a model folder (safetensors), or a .gguf file.
std::unique_ptr<TensorSource> open_tensors(const std::filesystem::path& model);

}  // namespace kvc
