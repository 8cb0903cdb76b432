#include "gguf/header.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "kvc/check.h"
#include "text/nearest.h"
#include "text/utf8.h"

namespace kvc {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little-endian");

constexpr int64_t kMaxHeaderBytes = int64_t{1} << 28;  // the largest vocabularies take a twentieth
constexpr int64_t kMaxItems = int64_t{1} << 23;        // values in all arrays
constexpr int64_t kMaxKeys = int64_t{1} << 16, kMaxTensors = int64_t{1} << 17;
constexpr int64_t kMaxKeyBytes = 65535, kMaxNameBytes = 64, kMaxDims = 4, kMaxArrayDepth = 4;
constexpr int64_t kMaxValues = int64_t{1} << 48;  // of a tensor: their bytes stay below 2^63
constexpr int64_t kDefaultAlignment = 32, kMaxAlignment = int64_t{1} << 20;

// The numbers of value types; the array's is written out where it stands.
enum ValueType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };
constexpr int64_t kLeastBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};  // that a value of the type takes

struct TypeRow {
  uint32_t number;
  const char* name;
  std::optional<std::variant<FloatType, kernels::BlockType>> type = {};  // none: known by name, and refused
};

const std::vector<TypeRow>& type_rows() {
  using enum kernels::BlockType;
  static const std::vector<TypeRow> rows = {
      {0, "F32", FloatType::f32},
      {1, "F16", FloatType::f16},
      {30, "BF16", FloatType::bf16},
      {2, "Q4_0", q4_0},
      {3, "Q4_1", q4_1},
      {6, "Q5_0", q5_0},
      {7, "Q5_1", q5_1},
      {8, "Q8_0", q8_0},
      {12, "Q4_K", q4_k},
      {13, "Q5_K", q5_k},
      {14, "Q6_K", q6_k},
      {39, "MXFP4", mxfp4},
      {9, "Q8_1"},
      {10, "Q2_K"},
      {11, "Q3_K"},
      {15, "Q8_K"},
      {16, "IQ2_XXS"},
      {17, "IQ2_XS"},
      {18, "IQ3_XXS"},
      {19, "IQ1_S"},
      {20, "IQ4_NL"},
      {21, "IQ3_S"},
      {22, "IQ2_S"},
      {23, "IQ4_XS"},
      {24, "I8"},
      {25, "I16"},
      {26, "I32"},
      {27, "I64"},
      {28, "F64"},
      {29, "IQ1_M"},
      {34, "TQ1_0"},
      {35, "TQ2_0"},
      {40, "NVFP4"},
      {41, "Q1_0"},
      {42, "Q2_0"},
  };
  return rows;
}

std::string supported_types() {
  std::vector<std::string> names;
  for (const auto& row : type_rows()) {
    if (row.type) names.emplace_back(row.name);
  }
  return join(names);
}

// The file from its start, some bytes at a time; what a count promises must be there before it is believed.
class Cursor {
 public:
  explicit Cursor(const OpenFile& file) : file_(file), end_(std::min(file.n_bytes(), kMaxHeaderBytes)) {}

  int64_t position() const { return position_; }

  template <class T>
  T take(const char* what) {
    T value;
    take_bytes(&value, sizeof(T), what);
    return value;
  }
  std::string take_text(const char* what, int64_t most) {
    const auto n_bytes = take_count(what, 1, "bytes");
    KVC_CHECK(n_bytes <= most, where(), what, " of ", n_bytes, " bytes, at most ", most);
    std::string text(static_cast<size_t>(n_bytes), '\0');
    take_bytes(text.data(), n_bytes, what);
    return text;
  }
  // A count of things that take at least so many bytes each.
  int64_t take_count(const char* what, int64_t least_bytes, const char* things) {
    const auto count = take<uint64_t>(what);
    const auto room = (end_ - position_) / least_bytes;
    KVC_CHECK(
        count <= static_cast<uint64_t>(room), where(), what, ": ", count, " ", things,
        end_ == file_.n_bytes() ? ", the file, truncated or damaged, has room for " : ", the header has room for ",
        room);
    return static_cast<int64_t>(count);
  }
  // "<file>: byte N: "
  std::string where() const { return concat(file_.path(), ": byte ", position_, ": "); }

 private:
  void take_bytes(void* out, int64_t n_bytes, const char* what) {
    KVC_CHECK(n_bytes <= end_ - position_, where(), what, ": the ",
              end_ == file_.n_bytes() ? "file ends" : "header is larger than 256 MiB");
    auto* to = static_cast<char*>(out);
    while (n_bytes > 0) {
      if (position_ < begin_ || position_ >= begin_ + static_cast<int64_t>(buffer_.size())) fill();
      const int64_t n = std::min(n_bytes, begin_ + static_cast<int64_t>(buffer_.size()) - position_);
      std::memcpy(to, buffer_.data() + (position_ - begin_), static_cast<size_t>(n));
      to += n;
      position_ += n;
      n_bytes -= n;
    }
  }
  void fill() {
    constexpr int64_t kBufferBytes = 1 << 18;
    begin_ = position_;
    buffer_.resize(static_cast<size_t>(std::min(kBufferBytes, end_ - begin_)));
    file_.read(buffer_.data(), static_cast<int64_t>(buffer_.size()), begin_);
  }

  const OpenFile& file_;
  int64_t end_;
  int64_t position_ = 0, begin_ = 0;
  std::string buffer_;
};

class HeaderReader {
 public:
  explicit HeaderReader(const OpenFile& file) : file_(file), in_(file) {}

  GgufHeader read() {
    check_magic();
    const auto n_tensors = in_.take_count("tensor_count", 24, "tensors");
    const auto n_keys = in_.take_count("metadata_kv_count", 13, "keys");
    KVC_CHECK(n_tensors <= kMaxTensors && n_keys <= kMaxKeys, file_.path(), ": ", n_tensors, " tensors and ", n_keys,
              " keys, at most ", kMaxTensors, " and ", kMaxKeys);
    for (int64_t i = 0; i < n_keys; ++i) read_key();
    for (int64_t i = 0; i < n_tensors; ++i) read_tensor();
    place_tensors();
    return std::move(header_);
  }

 private:
  void check_magic() {
    const auto magic = in_.take<uint32_t>("magic");
    KVC_CHECK(magic == 0x46554747, file_.path(), ": not a GGUF file: it begins with ",
              in_quotes(std::string(reinterpret_cast<const char*>(&magic), 4)), ", expected 'GGUF'");
    const auto version = in_.take<uint32_t>("version");
    KVC_CHECK(version != 0x03000000 && version != 0x02000000, file_.path(),
              ": a big-endian GGUF file, supported: little-endian");
    KVC_CHECK(version == 2 || version == 3, file_.path(), ": GGUF version ", version, ", supported: 2, 3");
  }

  void read_key() {
    const auto key = in_.take_text("a key", kMaxKeyBytes);
    KVC_CHECK(!key.empty() && is_utf8(key), in_.where(), "key ", in_quotes(key), ", expected a name in UTF-8");
    auto value = read_value(in_.take<uint32_t>("a value's type"), key, 0);
    KVC_CHECK(header_.metadata.emplace(key, std::move(value)).second, in_.where(), "key ", in_quotes(key),
              " appears twice");
  }

  GgufValue read_value(uint32_t type, const std::string& key, int depth) {
    switch (type) {
      case kU8:
        return int64_t{in_.take<uint8_t>("a value")};
      case kI8:
        return int64_t{in_.take<int8_t>("a value")};
      case kU16:
        return int64_t{in_.take<uint16_t>("a value")};
      case kI16:
        return int64_t{in_.take<int16_t>("a value")};
      case kU32:
        return int64_t{in_.take<uint32_t>("a value")};
      case kI32:
        return int64_t{in_.take<int32_t>("a value")};
      case kI64:
        return in_.take<int64_t>("a value");
      case kF32:
        return double{in_.take<float>("a value")};
      case kF64:
        return in_.take<double>("a value");
      case kBool:
        return read_bool(key);
      case kString:
        return in_.take_text("a string", kMaxHeaderBytes);
      case kArray:
        return read_array(key, depth + 1);
      case kU64:
        break;
      default:
        throw Error(concat(in_.where(), "key ", in_quotes(key), " has value type ", type, ", allowed: 0 to 12"));
    }
    const auto value = in_.take<uint64_t>("a value");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return static_cast<double>(value);
    return static_cast<int64_t>(value);
  }

  bool read_bool(const std::string& key) {
    const auto byte = in_.take<uint8_t>("a bool");
    KVC_CHECK(byte <= 1, in_.where(), "key ", in_quotes(key), ": a bool of ", int{byte}, ", allowed: 0, 1");
    return byte == 1;
  }

  GgufValue read_array(const std::string& key, int depth) {
    KVC_CHECK(depth <= kMaxArrayDepth, in_.where(), "key ", in_quotes(key), ": arrays nested deeper than ",
              kMaxArrayDepth);
    const auto type = in_.take<uint32_t>("an array's type");
    KVC_CHECK(type <= kF64, in_.where(), "key ", in_quotes(key), ": array of value type ", type, ", allowed: 0 to 12");
    const auto count = in_.take_count("an array's length", kLeastBytes[type], "values");
    n_items_ += count;
    KVC_CHECK(n_items_ <= kMaxItems, in_.where(), "key ", in_quotes(key), ": more than ", kMaxItems,
              " values in arrays");
    switch (type) {
      case kString:
        return read_all<std::string>(type, count, key, depth);
      case kF32:
      case kF64:
        return read_all<double>(type, count, key, depth);
      case kArray:
        for (int64_t i = 0; i < count; ++i) read_array(key, depth + 1);
        return {};
      default:
        return read_all<int64_t>(type, count, key, depth);
    }
  }

  template <class T>
  std::vector<T> read_all(uint32_t type, int64_t count, const std::string& key, int depth) {
    std::vector<T> all;
    all.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      auto value = read_value(type, key, depth);
      if (const auto* flag = std::get_if<bool>(&value)) value = int64_t{*flag};
      auto* kept = std::get_if<T>(&value);
      KVC_CHECK(kept, in_.where(), "key ", in_quotes(key), ": an integer beyond 2^63");
      all.push_back(std::move(*kept));
    }
    return all;
  }

  void read_tensor() {
    const auto name = in_.take_text("a tensor's name", kMaxNameBytes);
    KVC_CHECK(!name.empty() && is_utf8(name), in_.where(), "tensor ", in_quotes(name), ", expected a name in UTF-8");
    const auto n_dims = in_.take<uint32_t>("a tensor's dimensions");
    KVC_CHECK(n_dims >= 1 && n_dims <= kMaxDims, in_.where(), "tensor ", in_quotes(name), ": ", n_dims,
              " dimensions, allowed: 1 to ", kMaxDims);
    GgufTensor tensor;
    int64_t n_values = 1;
    for (uint32_t i = 0; i < n_dims; ++i) {
      const auto size = in_.take<uint64_t>("a tensor's size");
      KVC_CHECK(size >= 1 && size <= static_cast<uint64_t>(kMaxValues / n_values), in_.where(), "tensor ",
                in_quotes(name), ": dimension ", i, " is ", size,
                ", expected 1 or more, and at most 2^48 values in all");
      n_values *= static_cast<int64_t>(size);
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
    }
    set_type(in_.take<uint32_t>("a tensor's type"), name, n_values, tensor);
    const auto offset = in_.take<uint64_t>("a tensor's offset");
    KVC_CHECK(offset <= static_cast<uint64_t>(file_.n_bytes()), in_.where(), "tensor ", in_quotes(name), ": offset ",
              offset, " is past the end of the file, which is truncated or damaged (", file_.n_bytes(), " bytes)");
    tensor.offset = static_cast<int64_t>(offset);
    KVC_CHECK(header_.tensors.emplace(name, std::move(tensor)).second, in_.where(), "tensor ", in_quotes(name),
              " appears twice");
  }

  void set_type(uint32_t number, const std::string& name, int64_t n_values, GgufTensor& tensor) {
    const auto& rows = type_rows();
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& one) { return one.number == number; });
    KVC_CHECK(row != rows.end() && row->type, in_.where(), "tensor ", in_quotes(name), " has type ",
              row == rows.end() ? std::to_string(number) : row->name, ", supported: ", supported_types());
    tensor.type = *row->type;
    if (const auto* floats = std::get_if<FloatType>(&tensor.type)) {
      tensor.n_bytes = n_values * (*floats == FloatType::f32 ? 4 : 2);
      return;
    }
    const auto& layout = kernels::layout_of(std::get<kernels::BlockType>(tensor.type));
    KVC_CHECK(tensor.shape.back() % layout.n_values == 0, in_.where(), "tensor ", in_quotes(name), ": rows of ",
              tensor.shape.back(), " values, ", row->name, " has blocks of ", layout.n_values);
    tensor.n_bytes = n_values / layout.n_values * layout.n_bytes;
  }

  int64_t alignment() const {
    const auto found = header_.metadata.find("general.alignment");
    if (found == header_.metadata.end()) return kDefaultAlignment;
    const auto* value = std::get_if<int64_t>(&found->second);
    KVC_CHECK(value && *value >= 8 && *value <= kMaxAlignment && *value % 8 == 0, file_.path(),
              ": general.alignment is ", value ? std::to_string(*value) : "no integer",
              ", expected a multiple of 8 up to ", kMaxAlignment);
    return *value;
  }

  // Offsets count from the start of the data; the file's own from here on.
  void place_tensors() {
    const int64_t unit = alignment(), data = (in_.position() + unit - 1) / unit * unit;
    std::vector<std::pair<const std::string*, const GgufTensor*>> by_place;
    for (auto& [name, tensor] : header_.tensors) {
      KVC_CHECK(tensor.offset % unit == 0, file_.path(), ": tensor ", in_quotes(name), ": offset ", tensor.offset,
                ", expected a multiple of ", unit);
      tensor.offset += data;
      KVC_CHECK(tensor.offset <= file_.n_bytes() && tensor.n_bytes <= file_.n_bytes() - tensor.offset, file_.path(),
                ": tensor ", in_quotes(name), ": bytes ", tensor.offset, " to ", tensor.offset + tensor.n_bytes,
                ", the file has ", file_.n_bytes(), "; is the download complete?");
      by_place.emplace_back(&name, &tensor);
    }
    std::sort(by_place.begin(), by_place.end(),
              [](const auto& a, const auto& b) { return a.second->offset < b.second->offset; });
    for (size_t i = 1; i < by_place.size(); ++i) {
      const auto& before = *by_place[i - 1].second;
      KVC_CHECK(before.offset + before.n_bytes <= by_place[i].second->offset, file_.path(), ": tensor ",
                in_quotes(*by_place[i].first), " overlaps ", in_quotes(*by_place[i - 1].first));
    }
  }

  const OpenFile& file_;
  Cursor in_;
  GgufHeader header_;
  int64_t n_items_ = 0;
};

}  // namespace

GgufHeader read_gguf_header(const OpenFile& file) { return HeaderReader(file).read(); }

}  // namespace kvc
