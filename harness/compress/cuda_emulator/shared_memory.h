#pragma once
// The shared memory of the block that runs: where arrays lie in it, who touched which byte, and copies under way.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda_emulator/block.h"

namespace kvc::cuda_emulated {

inline constexpr std::size_t shared_limit = 227 * 1024;  // bytes a block may have on the GPUs that have most (sm_90)
inline constexpr unsigned char poison = 0xFF;            // what nobody wrote: NaN in every format, -1

enum class Access : std::uint8_t { read, write, atomic };

// An access and its time: two accesses are ordered if both threads passed a barrier between them.
struct Event {
  Where where;
  std::uint32_t epoch = 0;  // barriers of the whole block before it; 0: there was none
  std::uint32_t clock = 0;  // barriers of parts of the block that its thread was at
  std::uint16_t thread = 0;
  bool atomic = false;
};
Event event_now(Where where, bool atomic);  // of the thread that runs
bool is_of_this_block(const Event& event);
bool is_in_order(const Event& before);  // with what the thread that runs does next; never where it is another block's

std::string outside(const std::string& what, std::size_t bytes);
void check_alignment(const void* address, std::size_t alignment, Where where);

struct SharedArray {
  std::string name;
  Where where;  // of its declaration
  std::byte* begin = nullptr;
  std::byte* end = nullptr;
};

// The array that this declaration means, the same for all threads of the block.
const SharedArray& static_shared(const char* name, std::size_t bytes, std::size_t alignment, Where where);
const SharedArray& dynamic_shared(const char* name, Where where);

// Fails where the bytes are outside of [begin, end) or not aligned, still being copied, or touched by another thread
// without a barrier between. `begin`..`end` are of the array that the pointer came from.
void touch_shared(const void* address, std::size_t bytes, std::size_t alignment, const void* begin, const void* end,
                  Access access, Where where);

// cp.async: the copy is made by the wait and no earlier; until then the destination holds poison.
void start_copy(void* to, const void* from, int bytes, int filled, Where where);
void commit_copies();
void wait_for_copies(int groups_left);

// What the block's events mean here, told by block.cpp.
void open_shared(std::size_t dynamic_bytes, int threads);
void close_shared(bool failed);
std::string overwritten_guard();  // the array behind whose end something was written, past every check; empty: none
void all_synchronized();
void synchronized(const std::vector<int>& threads);

}  // namespace kvc::cuda_emulated
