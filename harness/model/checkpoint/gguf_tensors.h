// The tensors of a GGUF file under Hugging Face's names and in its order of rows, so that compressors see the channels
// that papers speak of.
#pragma once

#include <filesystem>
#include <memory>

#include "checkpoint/tensor_source.h"

namespace kvc {

std::unique_ptr<TensorSource> open_gguf_tensors(const std::filesystem::path& path);

}  // namespace kvc
