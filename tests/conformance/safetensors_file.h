// The tensors of a safetensors file: an 8-byte header length, a JSON header, raw little-endian data.
#pragma once

#include <ATen/ATen.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "text/files.h"

namespace kvc::conformance {

inline at::ScalarType scalar_type_named(const std::string& name) {
  if (name == "F32") return at::kFloat;
  if (name == "F16") return at::kHalf;
  if (name == "I32") return at::kInt;
  if (name == "I64") return at::kLong;
  if (name == "U8") return at::kByte;
  throw Error(concat("safetensors: dtype ", name, " is not known to this test"));
}

inline std::map<std::string, at::Tensor> read_safetensors(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  uint64_t header_bytes = 0;
  KVC_CHECK(bytes.size() >= 8, path.string(), ": too short");
  std::memcpy(&header_bytes, bytes.data(), 8);
  const auto header = nlohmann::json::parse(bytes.substr(8, header_bytes));
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto shape = entry.at("shape").get<std::vector<int64_t>>();
    const auto range = entry.at("data_offsets").get<std::vector<size_t>>();
    auto tensor = at::empty(shape, scalar_type_named(entry.at("dtype")));
    KVC_CHECK(tensor.nbytes() == range[1] - range[0], path.string(), ": ", name, " has a wrong size");
    std::memcpy(tensor.data_ptr(), bytes.data() + 8 + header_bytes + range[0], tensor.nbytes());
    tensors[name] = tensor;
  }
  return tensors;
}

}  // namespace kvc::conformance
