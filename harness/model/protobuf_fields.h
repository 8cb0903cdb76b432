// The fields of one protobuf message, without a schema.
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

}  // namespace kvc
