#include "model/tensor_source.h"

#include "gguf/gguf_file.h"
#include "model/gguf_tensors.h"
#include "model/safetensors.h"

namespace kvc {

std::unique_ptr<TensorSource> open_tensors(const std::filesystem::path& model) {
  if (is_gguf(model)) return open_gguf_tensors(model);
  return std::make_unique<Checkpoint>(model);
}

}  // namespace kvc
