#include "cuda_emulator/global_memory.h"

#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda_emulator/pointers.h"

namespace kvc::cuda_emulated {
namespace {

// An access, and of which block: two of different blocks of a launch are never in order.
struct Touch {
  Event event;
  Index3 block = {};
};

// What may have been a write: it was one if the word differs from `value` when it is touched next, or its block ends.
struct Pending {
  Touch touch;
  std::uint32_t value = 0;
  std::optional<Touch> read_before;  // out of order with it
};

// The last write, and the last reads since that are out of order with one another.
struct Word {
  Touch write, read, other_read;
  std::optional<Pending> pending;
};

struct Global {
  std::unordered_map<std::uintptr_t, Word> words;  // by address / 4, of one launch
  std::vector<std::uintptr_t> pending;             // of one block
};
Global& global() {
  thread_local Global memory;
  return memory;
}

std::string who(const Touch& touch) {
  if (is_of_this_block(touch.event)) return thread_name(touch.event.thread);
  return "thread " + std::to_string(touch.event.thread) + " of block " +
         triple(touch.block.x, touch.block.y, touch.block.z);
}

[[noreturn]] void report_race(int thread, const char* does, const Touch& before, const char* did, Where where) {
  fail_of(thread, where,
          std::string("race: ") + does + " a word of global memory that " + who(before) + " " + did + " at " +
              place(before.event.where) +
              (is_of_this_block(before.event) ? " with no barrier between" : " in this launch"));
}

std::uint32_t value_at(std::uintptr_t number) {
  std::uint32_t value;
  std::memcpy(&value, reinterpret_cast<const void*>(4 * number), sizeof value);
  return value;
}

// Whether what was pending is a write is known now.
void settle(std::uintptr_t number, Word& word) {
  const auto pending = *std::exchange(word.pending, std::nullopt);
  if (value_at(number) == pending.value) {
    (word.read.event.epoch == 0 ? word.read : word.other_read) = pending.touch;
    return;
  }
  const auto& event = pending.touch.event;
  if (pending.read_before) report_race(event.thread, "writes", *pending.read_before, "read", event.where);
  word.write = pending.touch;
  word.read = word.other_read = {};
}

void touch_word(std::uintptr_t number, bool may_write, Where where) {
  auto& word = global().words[number];
  if (word.pending) settle(number, word);
  if (!is_in_order(word.write.event)) {
    report_race(this_thread(), may_write ? "reads or writes" : "reads", word.write, "wrote", where);
  }
  const Touch now{event_now(where, false), blockIdx};
  if (!may_write) {
    if (is_in_order(word.read.event)) {
      word.read = now;
    } else if (is_in_order(word.other_read.event)) {
      word.other_read = now;
    }
    return;
  }
  word.pending = {now, value_at(number), std::nullopt};
  for (const auto& read : {word.read, word.other_read}) {
    if (!is_in_order(read.event)) word.pending->read_before = read;
  }
  global().pending.push_back(number);
}

std::map<const void*, std::size_t, std::greater<>>& known_memory() {  // by where it begins, the last first
  thread_local std::map<const void*, std::size_t, std::greater<>> ranges;
  return ranges;
}

}  // namespace

void touch_global(const void* address, std::size_t bytes, std::size_t alignment, const void* begin, const void* end,
                  bool may_write, Where where) {
  const auto at = static_cast<const std::byte*>(address);
  if (end != nullptr && (address < begin || at + bytes > end)) {
    fail(where, outside("byte " + std::to_string(at - static_cast<const std::byte*>(begin)) + " of global memory of " +
                            std::to_string(static_cast<const std::byte*>(end) - static_cast<const std::byte*>(begin)) +
                            " bytes",
                        bytes));
  }
  if (address == nullptr) {
    fail(where, "a null pointer is read or written");
  }
  check_alignment(address, alignment, where);
  if (!options().detect_global_races || bytes < 4) return;
  const auto first = reinterpret_cast<std::uintptr_t>(address) / 4;
  for (std::uintptr_t number = first; number < first + bytes / 4; ++number) touch_word(number, may_write, where);
}

void open_global() { global() = {}; }

void close_global() {
  for (const auto number : std::exchange(global().pending, {})) {
    const auto found = global().words.find(number);
    if (found != global().words.end() && found->second.pending) settle(number, found->second);
  }
}

void forget_global(const void* address, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(address) / 4;
  for (std::uintptr_t number = first; number < first + (bytes + 3) / 4; ++number) global().words.erase(number);
}

KnownMemory::KnownMemory(const void* begin, std::size_t bytes) : begin_(begin) { known_memory()[begin] = bytes; }
KnownMemory::~KnownMemory() { known_memory().erase(begin_); }

MemoryRange known_memory_around(const void* address) {
  const auto found = known_memory().lower_bound(address);
  if (found == known_memory().end()) {
    return {nullptr, nullptr};
  }
  const auto end = static_cast<const std::byte*>(found->first) + found->second;
  return address <= end ? MemoryRange{found->first, end} : MemoryRange{nullptr, nullptr};
}

}  // namespace kvc::cuda_emulated
