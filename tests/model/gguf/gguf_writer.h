// GGUF files for tests, written by ggml's docs/gguf.md without the reader's help: right ones, and by way of the public
// members wrong ones.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace kvc::test {

static_assert(std::endian::native == std::endian::little);

template <class Number>
std::string bytes_of(Number value) {
  static_assert(std::is_arithmetic_v<Number>);
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

inline std::string gguf_string(const std::string& text) { return bytes_of(uint64_t{text.size()}) + text; }

// A value as it stands in the file: the number of its type, and its bytes.
struct GgufValueBytes {
  uint32_t type;
  std::string bytes;
};

inline GgufValueBytes u8(uint8_t value) { return {0, bytes_of(value)}; }
inline GgufValueBytes i8(int8_t value) { return {1, bytes_of(value)}; }
inline GgufValueBytes u16(uint16_t value) { return {2, bytes_of(value)}; }
inline GgufValueBytes i16(int16_t value) { return {3, bytes_of(value)}; }
inline GgufValueBytes u32(uint32_t value) { return {4, bytes_of(value)}; }
inline GgufValueBytes i32(int32_t value) { return {5, bytes_of(value)}; }
inline GgufValueBytes f32(float value) { return {6, bytes_of(value)}; }
inline GgufValueBytes boolean(bool value) { return {7, std::string(1, value ? '\1' : '\0')}; }
inline GgufValueBytes text(const std::string& value) { return {8, gguf_string(value)}; }
inline GgufValueBytes u64(uint64_t value) { return {10, bytes_of(value)}; }
inline GgufValueBytes i64(int64_t value) { return {11, bytes_of(value)}; }
inline GgufValueBytes f64(double value) { return {12, bytes_of(value)}; }

// type: of all elements; for arrays of arrays 9.
inline GgufValueBytes array(uint32_t type, const std::vector<GgufValueBytes>& elements) {
  auto bytes = bytes_of(type) + bytes_of(uint64_t{elements.size()});
  for (const auto& element : elements) bytes += element.bytes;
  return {9, bytes};
}
template <class Number>
GgufValueBytes numbers(uint32_t type, const std::vector<Number>& values) {
  auto bytes = bytes_of(type) + bytes_of(uint64_t{values.size()});
  for (const auto value : values) bytes += bytes_of(value);
  return {9, bytes};
}
inline GgufValueBytes i32s(const std::vector<int32_t>& values) { return numbers(5, values); }
inline GgufValueBytes f32s(const std::vector<float>& values) { return numbers(6, values); }
inline GgufValueBytes texts(const std::vector<std::string>& values) {
  auto bytes = bytes_of(uint32_t{8}) + bytes_of(uint64_t{values.size()});
  for (const auto& value : values) bytes += gguf_string(value);
  return {9, bytes};
}

struct GgufWriter {
  struct Entry {
    std::string key;
    GgufValueBytes value;
  };
  struct Tensor {
    std::string name;
    std::vector<uint64_t> shape;  // as Hugging Face has it: the fastest dimension last
    uint32_t type;                // ggml's number: 0 F32, 1 F16, 2 Q4_0, 3 Q4_1, ...
    std::string bytes;
    std::optional<uint64_t> offset = std::nullopt;  // where the file says that it lies; its place without
  };

  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t alignment = 32;                       // another one is to be set as general.alignment, too
  std::optional<uint64_t> n_tensors, n_entries;  // what the header says; the truth without
  std::vector<Entry> metadata;
  std::vector<Tensor> tensors;

  // In the key's place where it is there, behind the others where it is not.
  void set(const std::string& key, const GgufValueBytes& value) {
    const auto found = std::find_if(metadata.begin(), metadata.end(), [&](const auto& e) { return e.key == key; });
    if (found != metadata.end()) {
      found->value = value;
    } else {
      metadata.push_back({key, value});
    }
  }
  void erase(const std::string& key) {
    std::erase_if(metadata, [&](const auto& entry) { return entry.key == key; });
  }

  // Header, metadata and tensor infos.
  std::string header() const {
    auto bytes = magic + bytes_of(version) + bytes_of(n_tensors.value_or(tensors.size())) +
                 bytes_of(n_entries.value_or(metadata.size()));
    for (const auto& [key, value] : metadata) bytes += gguf_string(key) + bytes_of(value.type) + value.bytes;
    uint64_t end = 0;
    for (const auto& tensor : tensors) {
      bytes += gguf_string(tensor.name) + bytes_of(static_cast<uint32_t>(tensor.shape.size()));
      for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) bytes += bytes_of(*size);
      bytes += bytes_of(tensor.type) + bytes_of(tensor.offset.value_or(end));
      end = aligned_(end + tensor.bytes.size());
    }
    return bytes;
  }

  std::string file() const {
    auto bytes = header();
    bytes.resize(aligned_(bytes.size()));
    const auto start = bytes.size();
    for (const auto& tensor : tensors) {
      bytes += tensor.bytes;
      bytes.resize(start + aligned_(bytes.size() - start));
    }
    return bytes;
  }

  void write(const std::filesystem::path& path) const { std::ofstream(path, std::ios::binary) << file(); }

 private:
  uint64_t aligned_(uint64_t n_bytes) const { return (n_bytes + alignment - 1) / alignment * alignment; }
};

}  // namespace kvc::test
