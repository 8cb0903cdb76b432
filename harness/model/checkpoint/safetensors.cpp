#include "checkpoint/safetensors.h"

#include <ATen/ATen.h>

#include "kvc/check.h"
#include "text/json_reader.h"
#include "text/model_folder.h"
#include "text/utf8.h"

namespace kvc {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little-endian");
constexpr int64_t kLengthBytes = 8;

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  const int64_t n_bytes = file_.n_bytes();
  KVC_CHECK(n_bytes >= kLengthBytes, file_.path(), ": ", n_bytes, " bytes, a safetensors file has at least ",
            kLengthBytes);
  uint64_t header_bytes = 0;
  file_.read(&header_bytes, kLengthBytes, 0);
  KVC_CHECK(header_bytes <= uint64_t{kMaxHeaderBytes}, file_.path(), ": header length ", header_bytes, ", at most ",
            kMaxHeaderBytes);
  KVC_CHECK(static_cast<int64_t>(header_bytes) <= n_bytes - kLengthBytes, file_.path(), ": header length ",
            header_bytes, " reaches beyond the end of the file (", n_bytes, " bytes)");
  data_offset_ = kLengthBytes + static_cast<int64_t>(header_bytes);
  std::string header(header_bytes, '\0');
  file_.read(header.data(), static_cast<int64_t>(header_bytes), kLengthBytes);
  tensors_ = parse_safetensors_header(header, n_bytes - data_offset_, file_.path(), &metadata_);
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

const StoredTensor& SafetensorsFile::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  KVC_CHECK(found != tensors_.end(), path(), ": no tensor '", name, "'");
  return found->second;
}

at::Tensor SafetensorsFile::tensor(const std::string& name) const {
  const auto& stored = find(name);
  auto tensor = at::empty(stored.shape, at::TensorOptions(stored.dtype));
  file_.read(tensor.data_ptr(), stored.end - stored.begin, data_offset_ + stored.begin);
  return tensor;
}

Checkpoint::Checkpoint(const std::filesystem::path& dir) : dir_(dir.string()) {
  if (lists(dir, "model.safetensors")) {
    files_.emplace_back(dir / "model.safetensors");
    for (const auto& name : files_[0].names()) file_of_[name] = 0;
  } else if (lists(dir, "model.safetensors.index.json")) {
    open_shards(dir / "model.safetensors.index.json");
  } else {
    refuse_missing_weights(dir);
  }
}

// A link to a file elsewhere is the user's own (a download cache is made of them); a path in the index is not.
void Checkpoint::open_shards(const std::filesystem::path& index) {
  const auto json = read_json(index);
  const auto map = JsonObject(json, index.string()).object("weight_map");
  std::map<std::string, size_t> shards;
  for (const auto& [name, value] : map.json().items()) {
    const auto shard = map.text(name);
    KVC_CHECK(!shard.empty() && shard != "." && shard != ".." && shard.find('/') == std::string::npos &&
                  shard.find('\0') == std::string::npos,
              map.where(), ": tensor ", in_quotes(name), " in ", brief(value),
              ", expected the name of a file in the index's folder");
    const auto [entry, is_new] = shards.emplace(shard, files_.size());
    if (is_new) {
      KVC_CHECK(lists(dir_, shard), map.where(), ": tensor ", in_quotes(name), " in ", in_quotes(shard),
                ", which is not in the folder; is the download complete?");
      files_.emplace_back(index.parent_path() / shard);
    }
    KVC_CHECK(files_[entry->second].has(name), map.where(), ": tensor ", in_quotes(name), " is not in ", shard);
    file_of_[name] = entry->second;
  }
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : file_of_) names.push_back(name);
  return names;
}

std::vector<std::string> Checkpoint::paths() const {
  std::vector<std::string> paths;
  for (const auto& file : files_) paths.push_back(file.path());
  return paths;
}

at::Tensor Checkpoint::tensor(const std::string& name, const std::vector<int64_t>& shape) const {
  const auto found = file_of_.find(name);
  KVC_CHECK(found != file_of_.end(), dir_, ": no tensor '", name, "'");
  const auto& file = files_[found->second];
  KVC_CHECK(file.shape(name) == shape, file.path(), ": tensor '", name, "' has shape ",
            at::IntArrayRef(file.shape(name)), ", expected ", at::IntArrayRef(shape), " from config.json");
  const bool in_blocks = name.ends_with("_blocks") || name.ends_with("_scales");  // MXFP4's two tensors
  KVC_CHECK(at::isFloatingType(file.dtype(name)) || (in_blocks && file.dtype(name) == at::kByte), file.path(),
            ": tensor '", name, "' has dtype ", safetensors_dtype_name(file.dtype(name)),
            ", supported for weights: F64, F32, F16, BF16");
  return file.tensor(name);
}

}  // namespace kvc
