#include "cuda_emulator/shared_memory.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <set>

#include "cuda_emulator/pointers.h"

namespace kvc::cuda_emulated {
namespace {

constexpr std::size_t guard_bytes = 64;
constexpr unsigned char guard = 0xA5;
constexpr std::size_t arena_bytes = 2 * shared_limit;  // arrays and the guards around them
const char* const dynamic_name = "dynamic shared memory";

// Of a byte: its last write, and the last reads since, of which the second is of another warp than the first where
// there are such.
struct History {
  Event write, read, other_read;
};

// Histories of the arena's bytes. The four of a word share one, until a part of the word is touched.
class Histories {
 public:
  // Calls change(history) for what `count` bytes from number `at` on share. Where `replaces`, it leaves one history,
  // whatever it was.
  template <class Change>
  void change(std::size_t at, std::size_t count, bool replaces, const Change& change) {
    for (const std::size_t end = at + count; at < end;) {
      const std::size_t word = at / 4, next = std::min(end, 4 * word + 4);
      const bool is_whole = next - at == 4;
      if (is_whole && !is_split_[word]) {
        change(words_[word]);
      } else {
        split(word);
        std::for_each(&bytes_[at], &bytes_[at] + (next - at), change);
        if (is_whole && replaces) {
          words_[word] = bytes_[at];
          is_split_[word] = false;
        }
      }
      at = next;
    }
  }

 private:
  void split(std::size_t word) {
    if (!is_split_[word]) {
      std::fill_n(&bytes_[4 * word], 4, words_[word]);
      is_split_[word] = true;
    }
  }
  std::vector<History> words_ = std::vector<History>(arena_bytes / 4);
  std::vector<History> bytes_ = std::vector<History>(arena_bytes);  // of words that are split
  std::vector<std::uint8_t> is_split_ = std::vector<std::uint8_t>(arena_bytes / 4);
};

struct Copy {
  std::byte* to;
  const void* from;
  int bytes, filled, group;
  Where where;
};

struct BankEvent {
  BankSite site;
  int nth;  // time that the thread was there since the last barrier
  std::size_t offset, bytes;
};

struct Shared {
  std::unique_ptr<std::byte[]> storage = std::make_unique<std::byte[]>(arena_bytes);
  Histories histories;
  std::vector<std::uint8_t> is_copying = std::vector<std::uint8_t>(arena_bytes);
  std::size_t n_copying = 0;
  Options options;           // of this block
  std::size_t used = 0;      // of the arena, with guards
  std::size_t declared = 0;  // by arrays
  std::deque<SharedArray> arrays;
  std::uint32_t epoch = 0;        // never set back, so that what earlier blocks did is in order with this one
  std::uint32_t first_epoch = 0;  // of this block
  int threads = 0;
  std::vector<std::uint32_t> clocks;  // [threads, threads]: how much of another's each thread knows
  std::vector<std::vector<Copy>> copies;
  std::vector<int> groups;  // committed, a thread
  std::vector<std::vector<BankEvent>> bank_events;
  std::uint32_t& clock(int of, int about) { return clocks[static_cast<std::size_t>(of) * threads + about]; }
  std::byte* aligned() { return storage.get() + (128 - reinterpret_cast<std::uintptr_t>(storage.get()) % 128) % 128; }
};

Shared& shared() {
  thread_local Shared memory;
  return memory;
}

const SharedArray& add_array(const char* name, std::size_t bytes, std::size_t alignment, Where where) {
  Shared& memory = shared();
  memory.declared += bytes;
  if (memory.declared > shared_limit) {
    fail(where, std::string(name) + " makes it " + std::to_string(memory.declared) +
                    " bytes of shared memory; a block has " + std::to_string(shared_limit));
  }
  const std::size_t begin = (memory.used + alignment - 1) / alignment * alignment;
  std::byte* at = memory.aligned() + begin;
  std::memset(at, poison, bytes);
  std::memset(at + bytes, guard, guard_bytes);
  memory.used = begin + bytes + guard_bytes;
  return memory.arrays.emplace_back(SharedArray{name, where, at, at + bytes});
}

std::size_t number_of(const Shared& memory, const void* address) {  // among the arena's bytes
  return static_cast<std::size_t>(static_cast<const std::byte*>(address) - memory.storage.get());
}

std::string offset_in(const SharedArray& array, const void* address) {
  return "byte " + std::to_string(static_cast<const std::byte*>(address) - array.begin) + " of " + array.name + " (" +
         std::to_string(array.end - array.begin) + " bytes)";
}

std::string name_of(const void* begin, const void* address) {
  for (const SharedArray& array : shared().arrays) {
    if (array.begin == begin || (begin == nullptr && address >= array.begin && address < array.end)) {
      return offset_in(array, address);
    }
  }
  return "shared memory";
}

bool in_order(Shared& memory, const Event& before, int thread) {
  return before.epoch < memory.epoch || before.thread == thread || memory.clock(thread, before.thread) >= before.clock;
}

[[noreturn]] void report_race(const Event& before, const char* did, const char* does, const void* begin,
                              const void* address, Where where) {
  fail(where, std::string("race: ") + does + " " + name_of(begin, address) + ", which " + thread_name(before.thread) +
                  " " + did + " at " + place(before.where) + " with no barrier between");
}

void note_read(Shared& memory, History& byte, const Event& now) {
  if (in_order(memory, byte.read, now.thread)) {
    byte.read = now;
  } else if (byte.read.thread / warpSize != now.thread / warpSize || in_order(memory, byte.other_read, now.thread)) {
    byte.other_read = now;
  }
}

// A write that is in order with all before it stands for them: what is in order with it is so with them.
void check_races(Shared& memory, std::size_t count, const void* begin, const void* address, Access access,
                 Where where) {
  const int thread = this_thread();
  const Event now = event_now(where, access == Access::atomic);
  const char* does = access == Access::read ? "reads" : access == Access::write ? "writes" : "changes atomically";
  memory.histories.change(number_of(memory, address), count, access == Access::write, [&](History& byte) {
    if (!in_order(memory, byte.write, thread) && !(now.atomic && byte.write.atomic)) {
      report_race(byte.write, "wrote", does, begin, address, where);
    }
    if (access == Access::read) {
      note_read(memory, byte, now);
      return;
    }
    for (const Event* read : {&byte.read, &byte.other_read}) {
      if (!in_order(memory, *read, thread)) {
        report_race(*read, "read", does, begin, address, where);
      }
    }
    if (access == Access::write) {
      byte = {now, {}, {}};
    } else {
      byte.write = now;
    }
  });
}

void note_banks(const void* address, std::size_t bytes, Where where) {
  Shared& memory = shared();
  auto& events = memory.bank_events[this_thread()];
  const BankSite site = {place(where).substr(0, place(where).rfind(':')), where.line(), where.column()};
  const auto nth =
      std::count_if(events.begin(), events.end(), [&](const BankEvent& event) { return event.site == site; });
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - memory.aligned());
  events.push_back({site, static_cast<int>(nth), offset, bytes});
}

// Rounds that these accesses need: of each bank's words, one a round. `group` lanes go at a time.
void count_warp(const std::vector<std::pair<int, BankEvent>>& lanes, BankCount& count) {
  const std::size_t bytes = std::max<std::size_t>(4, lanes.front().second.bytes);
  const int group = static_cast<int>(warpSize * 4 / bytes);
  ++count.accesses;
  for (int first = 0; first < warpSize; first += group) {
    std::array<std::set<std::size_t>, 32> words;
    for (const auto& [lane, event] : lanes) {
      for (std::size_t word = event.offset / 4;
           lane / group == first / group && word < (event.offset + bytes + 3) / 4 &&
           word <= (event.offset + event.bytes - 1) / 4;
           ++word) {
        words[word % 32].insert(word);
      }
    }
    const auto most =
        std::max_element(words.begin(), words.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    count.wavefronts += static_cast<std::int64_t>(most->size());
    count.least += most->empty() ? 0 : 1;
  }
}

// Lanes of a warp that were at a place the same number of times are taken as one access of the warp.
void count_banks(int first_thread, int end_thread) {
  Shared& memory = shared();
  BankCounts* counts = memory.options.banks;
  for (int warp = first_thread / warpSize; counts && warp * warpSize < end_thread; ++warp) {
    std::map<std::pair<BankSite, int>, std::vector<std::pair<int, BankEvent>>> accesses;
    for (int thread = warp * warpSize; thread < std::min((warp + 1) * warpSize, end_thread); ++thread) {
      for (const BankEvent& event : memory.bank_events[thread]) {
        accesses[{event.site, event.nth}].push_back({thread % warpSize, event});
      }
      memory.bank_events[thread].clear();
    }
    for (const auto& [at, lanes] : accesses) {
      count_warp(lanes, (*counts)[at.first]);
    }
  }
}

void mark_copying(Shared& memory, const Copy& copy, bool is_copying) {
  std::uint8_t* first = &memory.is_copying[number_of(memory, copy.to)];
  for (std::uint8_t* byte = first; byte != first + copy.bytes; ++byte) {
    memory.n_copying += std::size_t{is_copying} - *byte;
    *byte = is_copying;
  }
}

void make_copy(Shared& memory, const Copy& copy) {
  mark_copying(memory, copy, false);
  if (memory.options.detect_races) {
    check_races(memory, static_cast<std::size_t>(copy.bytes), nullptr, copy.to, Access::write, copy.where);
  }
  std::memset(copy.to, 0, copy.bytes);
  std::memcpy(copy.to, copy.from, copy.filled);
}

[[noreturn]] void report_copy(const Shared& memory, std::size_t bytes, const void* begin, const void* address,
                              Access access, Where where) {
  const auto at = static_cast<const std::byte*>(address);
  std::string brings;
  for (std::size_t thread = 0; thread < memory.copies.size(); ++thread) {
    for (const Copy& copy : memory.copies[thread]) {
      if (copy.to < at + bytes && at < copy.to + copy.bytes) {
        brings = thread_name(static_cast<int>(thread)) + " at " + place(copy.where);
      }
    }
  }
  fail(where, std::string(access == Access::read ? "reads " : "writes ") + name_of(begin, address) +
                  ", which the cp_async of " + brings + " still brings: no cp_async_wait covers it");
}

}  // namespace

std::string outside(const std::string& what, std::size_t bytes) {
  return "out of range: " + std::to_string(bytes) + " bytes at " + what;
}

void check_alignment(const void* address, std::size_t alignment, Where where) {
  if (reinterpret_cast<std::uintptr_t>(address) & (alignment - 1)) {
    fail(where, "misaligned: an access that needs an address divisible by " + std::to_string(alignment) +
                    " at one that leaves " + std::to_string(reinterpret_cast<std::uintptr_t>(address) % alignment));
  }
}

Event event_now(Where where, bool atomic) {
  Shared& memory = shared();
  const int thread = this_thread();
  return {where, memory.epoch, memory.clock(thread, thread), static_cast<std::uint16_t>(thread), atomic};
}

bool is_of_this_block(const Event& event) { return event.epoch >= shared().first_epoch; }

bool is_in_order(const Event& before) {
  return before.epoch == 0 || (is_of_this_block(before) && in_order(shared(), before, this_thread()));
}

const SharedArray& static_shared(const char* name, std::size_t bytes, std::size_t alignment, Where where) {
  for (const SharedArray& array : shared().arrays) {
    if (array.name == name && same_place(array.where, where) &&
        std::string_view(array.where.function_name()) == where.function_name()) {
      return array;
    }
  }
  return add_array(name, bytes, std::max<std::size_t>(alignment, 16), where);
}

const SharedArray& dynamic_shared(const char* name, Where) { return shared().arrays.front(); }

void touch_shared(const void* address, std::size_t bytes, std::size_t alignment, const void* begin, const void* end,
                  Access access, Where where) {
  if (address < begin || static_cast<const std::byte*>(address) + bytes > end) {
    fail(where, outside(name_of(begin, address), bytes));
  }
  check_alignment(address, alignment, where);
  Shared& memory = shared();
  if (memory.n_copying > 0 && std::memchr(&memory.is_copying[number_of(memory, address)], 1, bytes)) {
    report_copy(memory, bytes, begin, address, access, where);
  }
  if (memory.options.detect_races) {
    check_races(memory, bytes, begin, address, access, where);
  }
  if (memory.options.banks) {
    note_banks(address, bytes, where);
  }
}

void start_copy(void* to, const void* from, int bytes, int filled, Where where) {
  Shared& memory = shared();
  const int thread = this_thread();
  check_alignment(from, bytes, where);
  std::memset(to, poison, bytes);
  memory.copies[thread].push_back({static_cast<std::byte*>(to), from, bytes, filled, memory.groups[thread], where});
  mark_copying(memory, memory.copies[thread].back(), true);
}

void commit_copies() { ++shared().groups[this_thread()]; }

void wait_for_copies(int groups_left) {
  Shared& memory = shared();
  auto& copies = memory.copies[this_thread()];
  const int done = memory.groups[this_thread()] - groups_left;
  std::erase_if(copies, [&](const Copy& copy) {
    if (copy.group < done) {
      make_copy(memory, copy);
      return true;
    }
    return false;
  });
}

void open_shared(std::size_t dynamic_bytes, int threads) {
  Shared& memory = shared();
  memory.first_epoch = ++memory.epoch;
  memory.options = options();
  memory.threads = threads;
  memory.clocks.assign(static_cast<std::size_t>(threads) * threads, 0);
  for (int i = 0; i < threads; ++i) {
    memory.clock(i, i) = 1;
  }
  memory.copies.assign(threads, {});
  memory.groups.assign(threads, 0);
  memory.bank_events.assign(threads, {});
  memory.arrays.clear();
  memory.declared = 0;
  std::memset(memory.aligned(), guard, guard_bytes);
  memory.used = guard_bytes;
  add_array(dynamic_name, dynamic_bytes, 128, Where::current());
}

void close_shared(bool failed) {
  Shared& memory = shared();
  if (!failed) {
    count_banks(0, memory.threads);
  }
  for (const auto& copies : memory.copies) {  // that nobody waited for
    for (const Copy& copy : copies) {
      mark_copying(memory, copy, false);
    }
  }
}

std::string overwritten_guard() {
  for (const SharedArray& array : shared().arrays) {
    if (std::any_of(array.end, array.end + guard_bytes, [](std::byte byte) { return byte != std::byte{guard}; })) {
      return array.name;
    }
  }
  return "";
}

void all_synchronized() {
  ++shared().epoch;
  count_banks(0, shared().threads);
}

void synchronized(const std::vector<int>& threads) {
  Shared& memory = shared();
  std::vector<std::uint32_t> joined(memory.threads, 0);
  for (const int thread : threads) {
    for (int i = 0; i < memory.threads; ++i) {
      joined[i] = std::max(joined[i], memory.clock(thread, i));
    }
  }
  for (const int thread : threads) {
    std::copy(joined.begin(), joined.end(), &memory.clock(thread, 0));
    ++memory.clock(thread, thread);
  }
  count_banks(*std::min_element(threads.begin(), threads.end()), *std::max_element(threads.begin(), threads.end()) + 1);
}

}  // namespace kvc::cuda_emulated
