#pragma once
// One block of a kernel on the CPU: its threads are fibers, of which one runs until it has to wait for others.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <source_location>
#include <stdexcept>
#include <string>
#include <tuple>

namespace kvc::cuda_emulated {

using Where = std::source_location;

// What a kernel did wrong: "kernel K, block (0, 0, 0), thread (5, 0, 0), file.cu:12: what".
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Which of the threads that can go on goes on. A kernel that is right gives the same under all of them.
enum class Order {
  forward,     // in the order of their numbers, each until it waits
  reverse,     // from the last one
  random,      // drawn anew each round, by `seed`
  warp_ahead,  // one warp (seed % warps) as far as it comes, then the next one
};

// How often a line of the kernel (or what it calls) touched shared memory, a warp at a time.
struct BankCount {
  std::int64_t accesses = 0;    // of a warp; 8 bytes a thread go in halves of it, 16 in quarters
  std::int64_t wavefronts = 0;  // rounds that the 32 banks need: as many as `least` where nothing conflicts
  std::int64_t least = 0;
};
using BankSite = std::tuple<std::string, unsigned, unsigned>;  // file, line, column
using BankCounts = std::map<BankSite, BankCount>;

// How kernels run that this thread of the program launches.
struct Options {
  Order order = Order::forward;
  std::uint64_t seed = 0;
  bool detect_races = true;  // on shared memory
  // On global memory: costs memory and time for each word that a launch touches. Set where KVC_EMULATED_RACES is.
  bool detect_global_races = std::getenv("KVC_EMULATED_RACES") != nullptr;
  BankCounts* banks = nullptr;  // where accesses are counted, if at all: costs time
};
Options& options();

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// Of the fiber that runs.
extern constinit thread_local Index3 threadIdx;
extern constinit thread_local Index3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;
inline constexpr int warpSize = 32;

[[noreturn]] void fail(Where where, const std::string& what);
[[noreturn]] void fail_of(int thread, Where where, const std::string& what);  // of that number in the block
std::string place(Where where);                                               // "file.cu:12"
std::string triple(unsigned x, unsigned y, unsigned z);                       // "(5, 0, 0)"
std::string thread_name(int number);  // "thread (5, 0, 0)" of the block that runs
bool same_place(Where a, Where b);    // the same line of the same file
int this_thread();                    // its number in the block
inline int this_lane() { return this_thread() % warpSize; }

// What the lanes of a mask bring to a meeting of their warp.
struct Lanes {
  unsigned arrived = 0;  // a lane of the mask that has ended is not among them
  std::array<void*, 32> slots = {};
};
// Waits until every lane of `mask` that has not ended is in the same meeting; the last one to come runs `complete`,
// which reads and writes all slots.
void meet_warp(const char* what, unsigned mask, void* slot, void (*complete)(const Lanes&), Where where);

// __syncwarp: the one meeting that orders accesses to memory.
void sync_warp(unsigned mask, Where where);

struct Votes {
  int count = 0;  // of threads whose predicate is not 0
  int threads = 0;
};
// Barrier 0 (__syncthreads and its kin): all threads of the block, at one place.
Votes sync_block(const char* what, bool predicate, Where where);
void sync_named(int number, int threads, Where where);

// Runs `thread` for each thread of each block, one block after another; of a kernel by that name.
void run_grid(const char* kernel, dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& thread);

}  // namespace kvc::cuda_emulated
