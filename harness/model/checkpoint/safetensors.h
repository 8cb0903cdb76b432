// Tensors in .safetensors files: one file, a checkpoint folder of one or several files, and writing one.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/safetensors_header.h"
#include "checkpoint/tensor_source.h"
#include "text/open_file.h"

namespace kvc {

// One open file. The header is read and checked at once, each tensor's bytes when asked for.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  std::vector<std::string> names() const;
  bool has(const std::string& name) const { return tensors_.contains(name); }
  at::ScalarType dtype(const std::string& name) const { return find(name).dtype; }
  const std::vector<int64_t>& shape(const std::string& name) const { return find(name).shape; }
  int64_t n_bytes(const std::string& name) const { return find(name).end - find(name).begin; }
  // The stored values, in their stored type; owns its memory.
  at::Tensor tensor(const std::string& name) const;
  const std::string& path() const { return file_.path(); }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  const StoredTensor& find(const std::string& name) const;

  OpenFile file_;
  int64_t data_offset_ = 0;
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

// The weights of a model folder: model.safetensors, or the shards that model.safetensors.index.json names.
class Checkpoint : public TensorSource {
 public:
  explicit Checkpoint(const std::filesystem::path& dir);

  std::vector<std::string> names() const override;
  bool has(const std::string& name) const override { return file_of_.contains(name); }
  at::Tensor tensor(const std::string& name, const std::vector<int64_t>& shape) const override;
  std::optional<BlockRows> blocks(const std::string&, const std::vector<int64_t>&) const override { return {}; }
  at::ScalarType dtype(const std::string& name) const { return files_[file_of_.at(name)].dtype(name); }
  int64_t n_bytes(const std::string& name) const { return files_[file_of_.at(name)].n_bytes(name); }
  std::vector<std::string> paths() const;  // of its files

 private:
  void open_shards(const std::filesystem::path& index);

  std::string dir_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> file_of_;  // tensor name -> index into files_
};

// Writes the tensors (CPU, any strides) in the order of their names; the file appears whole or not at all.
void write_safetensors(const std::filesystem::path& path, const std::map<std::string, at::Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace kvc
