// A GGUF file: metadata, and where its tensors lie. The format: ggml's docs/gguf.md, versions 2 and 3, little-endian.
// Files are untrusted: sizes, counts, depth and offsets are held against the bytes that are there before anything is
// allocated; what is wrong is refused in one line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/weight_blocks.h"
#include "text/open_file.h"

namespace kvc {

enum class FloatType : uint8_t { f32, f16, bf16 };

struct GgufTensor {
  std::variant<FloatType, kernels::BlockType> type;
  std::vector<int64_t> shape;  // as Hugging Face has it: the fastest dimension last
  int64_t offset = 0;          // of its first byte in the file
  int64_t n_bytes = 0;
  size_t file = 0;  // of a split model, from 0
};

// One value of the metadata: integers of all widths, and bools in an array, are int64; f32 is double. An array of
// arrays is checked and not kept.
using GgufValue = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>>;

// Reads the header at once, bytes of tensors when asked for. Of a split model (…-00001-of-0000N.gguf) all files are
// opened, whichever of them is named.
class GgufFile {
 public:
  explicit GgufFile(const std::filesystem::path& path);

  const std::string& path() const { return files_.front().path(); }
  std::vector<std::string> paths() const;  // of all files
  const std::map<std::string, GgufTensor>& tensors() const { return tensors_; }
  // Throws Error naming the file where there is no such tensor.
  const GgufTensor& tensor(const std::string& name) const;
  // `n_bytes` of the tensor from its byte `first` on. Throws Error where the file has shrunk.
  void read(const GgufTensor& tensor, int64_t first, int64_t n_bytes, void* out) const;

  // Metadata, of the first file. An absent key and one of another type are Errors naming file and key.
  bool has(const std::string& key) const { return metadata_.contains(key); }
  bool boolean(const std::string& key) const { return get<bool>(key, "a bool"); }
  int64_t integer(const std::string& key) const { return get<int64_t>(key, "an integer"); }
  double number(const std::string& key) const { return get<double>(key, "a float"); }
  const std::string& text(const std::string& key) const { return get<std::string>(key, "a string"); }
  const std::vector<int64_t>& integers(const std::string& key) const {
    return get<std::vector<int64_t>>(key, "an array of integers");
  }
  const std::vector<double>& numbers(const std::string& key) const {
    return get<std::vector<double>>(key, "an array of floats");
  }
  const std::vector<std::string>& texts(const std::string& key) const {
    return get<std::vector<std::string>>(key, "an array of strings");
  }
  const std::map<std::string, GgufValue>& metadata() const { return metadata_; }

 private:
  template <class T>
  const T& get(const std::string& key, const char* expected) const {
    const auto found = metadata_.find(key);
    const T* value = found == metadata_.end() ? nullptr : std::get_if<T>(&found->second);
    if (!value) refuse_(key, expected);
    return *value;
  }
  [[noreturn]] void refuse_(const std::string& key, const char* expected) const;
  void open_split_(const std::filesystem::path& path);

  std::vector<OpenFile> files_;
  std::map<std::string, GgufValue> metadata_;
  std::map<std::string, GgufTensor> tensors_;
};

std::string type_name(const GgufTensor& tensor);  // "F32", "Q4_1"

// Whether a path names a GGUF file (by its ending; what is in it is looked at when it is opened).
bool is_gguf(const std::filesystem::path& path);

}  // namespace kvc
