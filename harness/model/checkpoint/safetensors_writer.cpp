#include <ATen/ATen.h>

#include "checkpoint/safetensors.h"
#include "kvc/check.h"
#include "text/files.h"
#include "text/json_reader.h"

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
  OutputFile file(path);
  const uint64_t header_bytes = header.size();
  file.write({reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes});
  file.write(header);
  for (const auto& [name, tensor] : tensors) {
    const auto values = tensor.contiguous();
    file.write({static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
  }
  file.commit();
}

}  // namespace kvc
