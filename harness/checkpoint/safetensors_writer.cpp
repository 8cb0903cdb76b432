#include <ATen/ATen.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "checkpoint/safetensors.h"
#include "gguf/json_reader.h"
#include "kvc/check.h"

namespace kvc {
namespace {

std::string header_of(const std::map<std::string, at::Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    KVC_CHECK(tensor.defined() && tensor.is_cpu(), "write_safetensors: tensor '", name, "' is not a CPU tensor");
    const int64_t n_bytes = static_cast<int64_t>(tensor.nbytes());
    header[name] = {{"dtype", safetensors_dtype_name(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, offset + n_bytes}}};
    offset += n_bytes;
  }
  auto text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the data begins at a multiple of 8
  return text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::map<std::string, at::Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const auto header = header_of(tensors, metadata);
  const auto temporary = path.string() + concat(".", getpid(), ".part");
  try {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    KVC_CHECK(file, "cannot write '", temporary, "': ", std::strerror(errno));
    const uint64_t header_bytes = header.size();
    file.write(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
    file.write(header.data(), static_cast<std::streamsize>(header.size()));
    for (const auto& [name, tensor] : tensors) {
      const auto values = tensor.contiguous();
      file.write(static_cast<const char*>(values.data_ptr()), static_cast<std::streamsize>(values.nbytes()));
    }
    file.close();
    KVC_CHECK(file, "cannot write '", temporary, "': ", std::strerror(errno));
    std::filesystem::rename(temporary, path);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
}

}  // namespace kvc
