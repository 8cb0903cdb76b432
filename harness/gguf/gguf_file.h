// A GGUF file: metadata, and where its tensors lie. The format: ggml's docs/gguf.md, versions 2 and 3, little-endian.
// Files are untrusted: sizes, counts, depth and offsets are held against the bytes that are there before anything is
// allocated; what is wrong is refused in one line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/weight_blocks.h"

namespace kvc {

enum class FloatType : uint8_t { f32, f16, bf16 };

struct GgufTensor {
  std::variant<FloatType, kernels::BlockType> type;
  std::vector<int64_t> shape;  // as Hugging Face has it: the fastest dimension last
  int64_t offset = 0;          // of its first byte in the file
  int64_t n_bytes = 0;
  size_t file = 0;             // of a split model, from 0
};

// One value of the metadata.
struct GgufValue {
  using Array = std::vector<GgufValue>;
  // All integers are int64 (a u64 beyond it is refused), f32 and f64 are double.
  std::variant<bool, int64_t, double, std::string, Array, std::vector<std::string>, std::vector<int64_t>,
               std::vector<double>>
      value;
};

// Reads the header at once, bytes of tensors when asked for. Of a split model (…-00001-of-0000N.gguf) all files are
// opened, whichever of them is named.
class GgufFile {
 public:
  explicit GgufFile(const std::filesystem::path& path);
  ~GgufFile();
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  const std::string& path() const { return paths_.front(); }
  const std::vector<std::string>& paths() const { return paths_; }  // of all files
  const std::map<std::string, GgufTensor>& tensors() const { return tensors_; }
  void read(const GgufTensor& tensor, void* out) const;  // its n_bytes

  // Metadata. An absent key is nothing, or an Error naming file and key; so is one of another type.
  bool has(const std::string& key) const { return metadata_.contains(key); }
  int64_t integer(const std::string& key) const;
  double number(const std::string& key) const;
  bool boolean(const std::string& key, bool absent) const;
  const std::string& text(const std::string& key) const;
  const std::vector<std::string>& texts(const std::string& key) const;
  const std::vector<int64_t>& integers(const std::string& key) const;
  const std::vector<double>& numbers(const std::string& key) const;
  const std::map<std::string, GgufValue>& metadata() const { return metadata_; }

 private:
  void open_(const std::filesystem::path& path);
  const GgufValue& find_(const std::string& key) const;

  std::vector<std::string> paths_;
  std::vector<int> files_;
  std::map<std::string, GgufValue> metadata_;  // of the first file
  std::map<std::string, GgufTensor> tensors_;
};

// Whether a path names a GGUF file (by its ending; what is in it is looked at when it is opened).
bool is_gguf(const std::filesystem::path& path);

}  // namespace kvc
