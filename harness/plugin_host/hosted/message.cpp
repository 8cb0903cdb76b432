#include "hosted/message.h"

#include <ATen/ATen.h>

#include <bit>
#include <cstring>

#include "kvc/check.h"

namespace kvc::protocol {
namespace {

constexpr size_t kAlignment = 64;

struct TypeName {
  at::ScalarType type;
  uint32_t number;
};
constexpr TypeName kTypes[] = {{at::kFloat, 0}, {at::kHalf, 1},  {at::kBFloat16, 2}, {at::kDouble, 3}, {at::kLong, 4},
                               {at::kInt, 5},   {at::kShort, 6}, {at::kChar, 7},     {at::kByte, 8},   {at::kBool, 9}};

uint32_t number_of(at::ScalarType type) {
  for (const auto& each : kTypes) {
    if (each.type == type) return each.number;
  }
  throw Error(concat("a tensor of type ", type, ", expected a plain number"));
}

at::ScalarType type_of(uint32_t number) {
  for (const auto& each : kTypes) {
    if (each.number == number) return each.type;
  }
  throw Error(concat("the answer has a tensor of type number ", number, ", allowed: 0 to ", std::size(kTypes) - 1));
}

size_t aligned(size_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

void check_place(const Place& place, size_t memory_bytes) {
  if (place.n_dims == kNoTensor) return;
  KVC_CHECK(place.n_dims <= place.sizes.size(), "the answer has a tensor of ", place.n_dims, " dimensions, allowed: 4");
  uint64_t bytes = at::elementSize(type_of(place.type));
  bool is_empty = false;
  for (uint32_t d = 0; d < place.n_dims; ++d) {
    KVC_CHECK(place.sizes[d] >= 0, "the answer has a tensor of size ", place.sizes[d], " in dimension ", d);
    is_empty |= place.sizes[d] == 0;
  }
  for (uint32_t d = 0; d < place.n_dims && !is_empty; ++d) {
    const auto size = static_cast<uint64_t>(place.sizes[d]);
    KVC_CHECK(size <= memory_bytes && bytes <= memory_bytes / size, "the answer has a tensor larger than its memory");
    bytes *= size;
  }
  if (is_empty) bytes = 0;
  KVC_CHECK(place.offset % kAlignment == 0 && place.offset <= memory_bytes && bytes <= memory_bytes - place.offset,
            "the answer has a tensor of ", bytes, " bytes at ", place.offset, ", outside its memory");
}

}  // namespace

size_t write_message(const Message& head, std::span<const at::Tensor> tensors, std::string_view text,
                     std::span<std::byte> memory, std::byte* to) {
  auto written = head;
  written.n_places = static_cast<uint32_t>(tensors.size());
  written.n_text = static_cast<uint32_t>(text.size());
  KVC_CHECK(sizeof(Message) + tensors.size() * sizeof(Place) + text.size() <= kMostBytes, "a message of ",
            tensors.size(), " tensors and ", text.size(), " bytes of text, allowed: ", kMostBytes, " bytes in all");
  auto* places = to + sizeof(Message);
  size_t offset = 0;
  for (const auto& tensor : tensors) {
    Place place{0, 0, kNoTensor, {}};
    if (tensor.defined()) {
      KVC_CHECK(tensor.dim() <= 4 && tensor.is_cpu(), "a tensor of sizes ", tensor.sizes(), " on ", tensor.device(),
                ", expected at most 4 dimensions on the CPU");
      place = {offset, number_of(tensor.scalar_type()), static_cast<uint32_t>(tensor.dim()), {}};
      for (int64_t d = 0; d < tensor.dim(); ++d) place.sizes[static_cast<size_t>(d)] = tensor.size(d);
      const auto n_bytes = static_cast<size_t>(tensor.numel()) * tensor.element_size();
      KVC_CHECK(n_bytes <= memory.size() - offset, "tensors of more than ", memory.size(), " bytes");
      if (tensor.is_contiguous()) {
        std::memcpy(memory.data() + offset, tensor.const_data_ptr(), n_bytes);
      } else if (n_bytes > 0) {
        tensor_at(place, memory.data()).copy_(tensor);
      }
      offset = aligned(offset + n_bytes);
    }
    std::memcpy(places, &place, sizeof place);
    places += sizeof place;
  }
  std::memcpy(places, text.data(), text.size());
  std::memcpy(to, &written, sizeof written);
  return offset;
}

Received read_message(const std::byte* from, size_t memory_bytes) {
  Received received;
  auto& head = received.head;
  std::memcpy(&head, from, sizeof head);
  const size_t most_places = (kMostBytes - sizeof(Message)) / sizeof(Place);
  KVC_CHECK(head.n_places <= most_places, "the answer has ", head.n_places, " tensors, allowed: ", most_places);
  const size_t place_bytes = head.n_places * sizeof(Place);
  const size_t most_text = kMostBytes - sizeof(Message) - place_bytes;
  KVC_CHECK(head.n_text <= most_text, "the answer has ", head.n_text, " bytes of text, allowed: ", most_text);
  received.places.resize(head.n_places);
  std::memcpy(received.places.data(), from + sizeof(Message), place_bytes);
  for (const auto& place : received.places) check_place(place, memory_bytes);
  received.text.assign(reinterpret_cast<const char*>(from) + sizeof(Message) + place_bytes, head.n_text);
  return received;
}

at::Tensor tensor_at(const Place& place, std::byte* memory) {
  if (place.n_dims == kNoTensor) return {};
  const auto options = at::TensorOptions(type_of(place.type));
  return at::from_blob(memory + place.offset, at::IntArrayRef(place.sizes.data(), place.n_dims), options);
}

int64_t bits_of(double value) { return std::bit_cast<int64_t>(value); }
double double_of(int64_t bits) { return std::bit_cast<double>(bits); }

}  // namespace kvc::protocol
