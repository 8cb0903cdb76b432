#include "checkpoint/tensor_source.h"

#include "checkpoint/gguf_tensors.h"
#include "checkpoint/safetensors.h"
#include "gguf/gguf_file.h"

namespace kvc {

std::unique_ptr<TensorSource> open_tensors(const std::filesystem::path& model) {
  if (is_gguf(model)) return open_gguf_tensors(model);
  return std::make_unique<Checkpoint>(model);
}

}  // namespace kvc
