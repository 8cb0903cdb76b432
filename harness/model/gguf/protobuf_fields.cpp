#include "gguf/protobuf_fields.h"

#include <bit>

#include "kvc/check.h"

namespace kvc {
namespace {

class Reader {
 public:
  Reader(std::string_view message, const std::string& where) : message_(message), where_(where) {}

  bool at_end() const { return at_ == message_.size(); }

  ProtobufField next() {
    const auto tag = varint_();
    ProtobufField field{tag >> 3, 0, {}};
    switch (tag & 7) {
      case 0:
        field.value = varint_();
        break;
      case 1:
        take_(8);
        break;
      case 2:
        field.bytes = take_(varint_());
        break;
      case 5:
        take_(4);
        break;
      default:
        throw Error(concat(where_, ": byte ", at_, ": wire type ", tag & 7, ", expected 0, 1, 2 or 5 of protobuf"));
    }
    return field;
  }

 private:
  uint64_t varint_() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take_(1)[0]);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    throw Error(concat(where_, ": byte ", at_, ": an integer of more than 64 bits, expected protobuf"));
  }

  std::string_view take_(uint64_t n_bytes) {
    KVC_CHECK(n_bytes <= message_.size() - at_, where_, ": byte ", at_, ": a field of ", n_bytes, " bytes, ",
              message_.size() - at_, " are left");
    at_ += n_bytes;
    return message_.substr(at_ - n_bytes, n_bytes);
  }

  const std::string_view message_;
  const std::string& where_;
  size_t at_ = 0;
};

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes += static_cast<char>(value);
}

}  // namespace

std::vector<ProtobufField> protobuf_fields(std::string_view message, const std::string& where) {
  std::vector<ProtobufField> fields;
  for (Reader reader(message, where); !reader.at_end();) fields.push_back(reader.next());
  return fields;
}

std::string protobuf_integer(uint64_t number, uint64_t value) { return varint(number << 3) + varint(value); }

std::string protobuf_float(uint64_t number, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  auto field = varint(number << 3 | 5);
  for (int shift = 0; shift < 32; shift += 8) field += static_cast<char>(bits >> shift);
  return field;
}

std::string protobuf_bytes(uint64_t number, std::string_view bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}

}  // namespace kvc
