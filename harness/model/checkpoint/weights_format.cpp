#include "checkpoint/weights_format.h"

#include <algorithm>
#include <map>
#include <vector>

#include "checkpoint/gguf_config.h"
#include "checkpoint/safetensors.h"
#include "gguf/gguf_file.h"
#include "text/nearest.h"

namespace kvc {

namespace fs = std::filesystem;

std::string weights_format(const fs::path& model) {
  if (is_gguf(model)) return weights_format(GgufFile(model));
  std::map<at::ScalarType, int64_t> bytes;
  const Checkpoint checkpoint(model);
  for (const auto& name : checkpoint.names()) bytes[checkpoint.dtype(name)] += checkpoint.n_bytes(name);
  std::vector<std::pair<int64_t, at::ScalarType>> types;
  for (const auto& [type, n] : bytes) types.emplace_back(n, type);
  std::sort(types.rbegin(), types.rend());
  std::vector<std::string> names;
  for (const auto& [n, type] : types) names.push_back(safetensors_dtype_name(type));
  return join(names);
}

int64_t weights_file_bytes(const fs::path& model) {
  int64_t n_bytes = 0;
  for (const auto& path : is_gguf(model) ? GgufFile(model).paths() : Checkpoint(model).paths()) {
    n_bytes += static_cast<int64_t>(fs::file_size(path));
  }
  return n_bytes;
}

}  // namespace kvc
