// Requests and answers as bytes, and their tensors in shared memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hosted/protocol.h"

namespace kvc::protocol {

struct Request {
  Operation operation;
  std::vector<int64_t> numbers = {};     // the first ones; others are 0
  std::vector<at::Tensor> tensors = {};  // undefined where there is none
  std::string text = {};
  bool inspecting = false;
};

// Of either side, once it is checked: every tensor lies within the memory, and the text within the message.
struct Received {
  Message head = {};
  std::vector<Place> places = {};
  std::string text = {};
};

// Copies the tensors to `memory`, one after the other, and writes the message to `to`, which has kMostBytes.
// Throws Error where there is no room. -> bytes of the memory that are used
size_t write_message(const Message& head, std::span<const at::Tensor> tensors, std::string_view text,
                     std::span<std::byte> memory, std::byte* to);

// Throws Error in one line where the bytes, which another process wrote, are no message with tensors within
// memory_bytes. They are read once: what changes afterwards is not seen.
Received read_message(const std::byte* from, size_t memory_bytes);

// A view of a place that read_message() has checked.
at::Tensor tensor_at(const Place& place, std::byte* memory);

int64_t bits_of(double value);
double double_of(int64_t bits);

}  // namespace kvc::protocol
