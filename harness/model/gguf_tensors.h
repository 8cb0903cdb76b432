// The tensors of a GGUF file by the names, and in the row order, of Hugging Face's checkpoints.
#pragma once

#include "model/tensor_source.h"

namespace kvc {

std::unique_ptr<TensorSource> open_gguf_tensors(const std::filesystem::path& file);

}  // namespace kvc
