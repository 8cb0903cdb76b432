// The fields of one protobuf message, without a schema: read, and written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvc {

struct ProtobufField {
  uint64_t number = 0;
  uint64_t value = 0;      // of an integer
  std::string_view bytes;  // of a string or a message, within the message given
};

// In the order of the message. Throws Error naming `where` and the byte where it is not protobuf.
std::vector<ProtobufField> protobuf_fields(std::string_view message, const std::string& where);

// One field; a message is its fields one behind the other, and a string's bytes where it is a field itself.
std::string protobuf_integer(uint64_t number, uint64_t value);
std::string protobuf_float(uint64_t number, float value);
std::string protobuf_bytes(uint64_t number, std::string_view bytes);

}  // namespace kvc
