// What the Hugging Face Hub lists of a model, as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "text/files.h"

namespace kvc::test {

inline nlohmann::json hub_file(const std::string& name, size_t size, const std::string& blob_id) {
  return {{"rfilename", name}, {"size", size}, {"blobId", blob_id}};
}

// Its blob id is the pointer's.
inline nlohmann::json hub_lfs_file(const std::string& name, const std::string& content) {
  auto file = hub_file(name, content.size(), "0967ef424bce6791893e9a57bb952f80fd536e93");
  file["lfs"] = {{"sha256", sha256_hex(content)}, {"size", content.size()}, {"pointerSize", 134}};
  return file;
}

}  // namespace kvc::test
