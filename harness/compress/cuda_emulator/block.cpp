#include "cuda_emulator/block.h"

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <numeric>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "cuda_emulator/global_memory.h"
#include "cuda_emulator/shared_memory.h"
#include "kvc/emulated_launches.h"

namespace kvc::cuda_emulated {

constinit thread_local Index3 threadIdx;
constinit thread_local Index3 blockIdx;
constinit thread_local dim3 blockDim;
constinit thread_local dim3 gridDim;

namespace {

using boost::context::fiber;

constexpr std::size_t stack_bytes = 128 * 1024;
constexpr unsigned most_threads = 1024;
constexpr int barriers = 16;

// A stack that is used again by the threads of later blocks.
class Stack {
 public:
  explicit Stack(boost::context::stack_context context) : context_(context) {}
  boost::context::stack_context allocate() { return context_; }
  void deallocate(boost::context::stack_context&) {}

 private:
  boost::context::stack_context context_;
};

class Stacks {
 public:
  ~Stacks() {
    for (auto& context : contexts_) {
      maker_.deallocate(context);
    }
  }
  Stack of(std::size_t thread) {
    while (contexts_.size() <= thread) {
      contexts_.push_back(maker_.allocate());
    }
    return Stack(contexts_[thread]);
  }

 private:
  boost::context::protected_fixedsize_stack maker_{stack_bytes};
  std::vector<boost::context::stack_context> contexts_;
};

enum class State { ready, waiting, ended };

struct Thread {
  Index3 index;
  State state = State::ready;
  const char* waits_in = "";
  Where where;
  fiber run;
};

struct Meeting {
  const char* what;
  unsigned mask;
  Where where;
  void (*complete)(const Lanes&);
  Lanes lanes;
};

struct Barrier {
  const char* what = "";
  Where where;
  int expected = 0;
  int count = 0;  // of predicates that hold
  std::vector<int> arrived;
};

// What one launch runs; the block's state is made anew for each block.
struct Machine {
  const char* kernel = "";
  std::vector<Thread> threads;
  std::vector<std::vector<Meeting>> meetings;  // a warp
  std::vector<unsigned> gone;                  // a warp: the lanes that have ended or never were
  std::array<Barrier, barriers> barrier;
  Votes votes;  // of the last barrier 0
  int running = -1;
  int ended = 0;
  fiber scheduler;
  std::optional<Failure> failure;
};

thread_local Machine* machine = nullptr;

bool is_same(const char* a, const char* b) { return a == b || std::string_view(a) == b; }

Failure failure_of(const std::string& at, const std::string& what) {
  return Failure(std::string("kernel ") + machine->kernel + ", block " + triple(blockIdx.x, blockIdx.y, blockIdx.z) +
                 at + ": " + what);
}

void wait_in(const char* what, Where where) {
  Thread& thread = machine->threads[machine->running];
  thread.state = State::waiting;
  thread.waits_in = what;
  thread.where = where;
  machine->scheduler = std::move(machine->scheduler).resume();
}

unsigned lanes_of_warp(int warp) {  // that the block has
  const int lanes = std::min<int>(warpSize, static_cast<int>(machine->threads.size()) - warp * warpSize);
  return lanes == warpSize ? 0xFFFFFFFFu : (1u << lanes) - 1;
}

void finish_meeting(int warp, std::size_t number) {
  const Meeting meeting = machine->meetings[warp][number];
  machine->meetings[warp].erase(machine->meetings[warp].begin() + static_cast<std::ptrdiff_t>(number));
  meeting.complete(meeting.lanes);
  for (unsigned lanes = meeting.lanes.arrived; lanes != 0; lanes &= lanes - 1) {
    machine->threads[warp * warpSize + __builtin_ctz(lanes)].state = State::ready;
  }
}

std::string hex(unsigned value) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", value);
  return text;
}

// The meeting that a lane joins: one that waits for it, or a new one. Where two meetings wait for each other's lanes
// the masks are wrong.
std::size_t meeting_for(int warp, unsigned lane, const Meeting& wanted) {
  auto& meetings = machine->meetings[warp];
  const bool any_place = std::string_view(wanted.what) == "__syncwarp";
  for (std::size_t i = 0; i < meetings.size(); ++i) {
    const Meeting& other = meetings[i];
    if (!(other.mask >> lane & 1)) {
      continue;
    }
    if (other.mask == wanted.mask && is_same(other.what, wanted.what) &&
        (any_place || same_place(other.where, wanted.where))) {
      return i;
    }
    if (wanted.mask & other.lanes.arrived) {
      fail(wanted.where, std::string(wanted.what) + " with mask " + hex(wanted.mask) + " waits for lane " +
                             std::to_string(__builtin_ctz(wanted.mask & other.lanes.arrived)) +
                             ", which waits for lane " + std::to_string(lane) + " in " + other.what + " with mask " +
                             hex(other.mask) + " at " + place(other.where));
    }
  }
  meetings.push_back(wanted);
  return meetings.size() - 1;
}

// What a thread's end means for those that wait.
void thread_ends() {
  const int number = machine->running;
  machine->threads[number].state = State::ended;
  ++machine->ended;
  const Barrier& all = machine->barrier[0];
  if (!all.arrived.empty()) {
    fail(all.where, std::string(all.what) + " is not reached by " + thread_name(number) + ", which has ended, while " +
                        thread_name(all.arrived.front()) + " waits there");
  }
  const int warp = number / warpSize;
  const unsigned gone = machine->gone[warp] |= 1u << number % warpSize;
  for (std::size_t i = machine->meetings[warp].size(); i-- > 0;) {
    const Meeting& meeting = machine->meetings[warp][i];
    if ((meeting.mask & ~gone) == meeting.lanes.arrived) {
      finish_meeting(warp, i);
    }
  }
}

fiber run_thread(fiber&& scheduler, const std::function<void()>& body) {
  machine->scheduler = std::move(scheduler);
  try {
    body();
    thread_ends();
  } catch (const Failure& failure) {
    machine->failure = failure;
  } catch (const std::exception& error) {
    machine->failure = failure_of(", " + thread_name(machine->running), error.what());
  }
  return std::move(machine->scheduler);
}

bool run_if_ready(int number) {
  Thread& thread = machine->threads[number];
  if (thread.state != State::ready) {
    return false;
  }
  machine->running = number;
  threadIdx = thread.index;
  thread.run = std::move(thread.run).resume();
  return true;
}

// One round in which each thread that is ready goes on once; false where none was.
bool run_in(const std::vector<int>& order) {
  bool any = false;
  for (const int number : order) {
    any |= run_if_ready(number);
    if (machine->failure) {
      return false;
    }
  }
  return any;
}

bool run_warps_ahead(std::uint64_t first) {
  const int count = static_cast<int>(machine->meetings.size());
  bool any = false;
  for (int i = 0; i < count; ++i) {
    const int warp = static_cast<int>((first + static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(count));
    std::vector<int> lanes(__builtin_popcount(lanes_of_warp(warp)));
    std::iota(lanes.begin(), lanes.end(), warp * warpSize);
    while (run_in(lanes)) {
      any = true;
    }
    if (machine->failure) {
      return false;
    }
  }
  return any;
}

// Threads that wait for ever: where, how many, and in a meeting of a warp the lanes that are missing.
std::string who_waits() {
  std::map<std::pair<std::string, std::string>, std::vector<int>> places;
  for (int i = 0; i < static_cast<int>(machine->threads.size()); ++i) {
    if (const Thread& thread = machine->threads[i]; thread.state == State::waiting) {
      places[{thread.waits_in, place(thread.where)}].push_back(i);
    }
  }
  std::string text;
  for (const auto& [at, threads] : places) {
    text += (text.empty() ? "" : "; ") + std::to_string(threads.size()) + " in " + at.first + " at " + at.second +
            " (first " + thread_name(threads.front()) + ")";
  }
  for (const auto& meetings : machine->meetings) {
    for (const Meeting& meeting : meetings) {
      return text + "; " + meeting.what + " at " + place(meeting.where) + " has mask " + hex(meeting.mask) +
             ", and only lanes " + hex(meeting.lanes.arrived) + " of it came";
    }
  }
  return text;
}

void run_threads() {
  const Options& chosen = options();
  std::vector<int> order(machine->threads.size());
  std::iota(order.begin(), order.end(), 0);
  if (chosen.order == Order::reverse) {
    std::reverse(order.begin(), order.end());
  }
  std::mt19937_64 random(chosen.seed);
  const int all = static_cast<int>(machine->threads.size());
  while (machine->ended < all && !machine->failure) {
    if (chosen.order == Order::random) {
      std::shuffle(order.begin(), order.end(), random);
    }
    const bool any = chosen.order == Order::warp_ahead ? run_warps_ahead(chosen.seed) : run_in(order);
    if (!any && !machine->failure) {
      machine->failure = failure_of("", "no thread can go on: " + who_waits());
    }
  }
}

// What only the end of a block shows of its accesses to global memory.
void settle_global() {
  try {
    close_global();
  } catch (const Failure& failure) {
    machine->failure = failure;
  }
}

void run_block(Stacks& stacks, std::size_t shared_bytes, const std::function<void()>& body) {
  const unsigned count = blockDim.x * blockDim.y * blockDim.z;
  machine->threads = std::vector<Thread>(count);
  machine->meetings.assign((count + warpSize - 1) / warpSize, {});
  machine->gone.clear();
  for (int warp = 0; warp < static_cast<int>(machine->meetings.size()); ++warp) {
    machine->gone.push_back(~lanes_of_warp(warp));
  }
  machine->barrier = {};
  machine->ended = 0;
  open_shared(shared_bytes, static_cast<int>(count));
  for (unsigned i = 0; i < count; ++i) {
    Thread& thread = machine->threads[i];
    thread.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
    thread.run = fiber(std::allocator_arg, stacks.of(i),
                       [&body](fiber&& scheduler) { return run_thread(std::move(scheduler), body); });
  }
  run_threads();
  if (!machine->failure) settle_global();
  if (const std::string array = overwritten_guard(); !array.empty() && !machine->failure) {
    machine->failure = failure_of("", "something was written past the end of " + array + ", past every check");
  }
  machine->threads.clear();  // ends those that still wait
  close_shared(machine->failure.has_value());
  if (machine->failure) {
    throw Failure(*machine->failure);
  }
}

void finish_barrier(Barrier& barrier) {
  for (const int thread : barrier.arrived) {
    machine->threads[thread].state = State::ready;
  }
  barrier.arrived.clear();
  barrier.count = 0;
}

void check_launch(dim3 grid, dim3 block) {
  const std::uint64_t threads = std::uint64_t(block.x) * block.y * block.z;
  if (threads == 0 || threads > most_threads || std::uint64_t(grid.x) * grid.y * grid.z == 0) {
    throw Failure(std::string("kernel ") + machine->kernel + ": a grid of " + triple(grid.x, grid.y, grid.z) +
                  " blocks of " + triple(block.x, block.y, block.z) + " threads; a block has 1 to " +
                  std::to_string(most_threads));
  }
}

}  // namespace

Options& options() {
  thread_local Options chosen;
  return chosen;
}

std::string triple(unsigned x, unsigned y, unsigned z) {
  return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
}

std::string place(Where where) {
  const std::string_view file = where.file_name();
  return std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(where.line());
}

bool same_place(Where a, Where b) { return a.line() == b.line() && is_same(a.file_name(), b.file_name()); }

std::string thread_name(int number) {
  const Index3 index = machine->threads[number].index;
  return "thread " + triple(index.x, index.y, index.z);
}

void fail(Where where, const std::string& what) { fail_of(machine->running, where, what); }

void fail_of(int thread, Where where, const std::string& what) {
  throw failure_of(", " + thread_name(thread) + ", " + place(where), what);
}

int this_thread() { return machine->running; }

void meet_warp(const char* what, unsigned mask, void* slot, void (*complete)(const Lanes&), Where where) {
  const int warp = this_thread() / warpSize;
  const unsigned lane = this_lane();
  if (!(mask >> lane & 1)) {
    fail(where,
         std::string(what) + " by lane " + std::to_string(lane) + ", which its mask " + hex(mask) + " leaves out");
  }
  const std::size_t number = meeting_for(warp, lane, {what, mask, where, complete, {}});
  Meeting& meeting = machine->meetings[warp][number];
  meeting.lanes.arrived |= 1u << lane;
  meeting.lanes.slots[lane] = slot;
  if ((mask & ~machine->gone[warp]) == meeting.lanes.arrived) {
    finish_meeting(warp, number);
  } else {
    wait_in(what, where);
  }
}

void sync_warp(unsigned mask, Where where) {
  const auto order = [](const Lanes& lanes) {
    std::vector<int> threads;
    for (unsigned left = lanes.arrived; left != 0; left &= left - 1) {
      threads.push_back(this_thread() / warpSize * warpSize + __builtin_ctz(left));
    }
    synchronized(threads);
  };
  meet_warp("__syncwarp", mask, nullptr, order, where);
}

Votes sync_block(const char* what, bool predicate, Where where) {
  Barrier& barrier = machine->barrier[0];
  if (!barrier.arrived.empty() && !same_place(barrier.where, where)) {
    fail(where, std::string(what) + " here, while " + thread_name(barrier.arrived.front()) + " waits in " +
                    barrier.what + " at " + place(barrier.where));
  }
  if (machine->ended > 0) {
    const auto gone = std::find_if(machine->threads.begin(), machine->threads.end(),
                                   [](const Thread& thread) { return thread.state == State::ended; });
    fail(where, std::string(what) + " is not reached by " +
                    thread_name(static_cast<int>(gone - machine->threads.begin())) + ", which has ended");
  }
  barrier.what = what;
  barrier.where = where;
  barrier.count += predicate;
  barrier.arrived.push_back(this_thread());
  const int all = static_cast<int>(machine->threads.size());
  if (static_cast<int>(barrier.arrived.size()) < all) {
    wait_in(what, where);
  } else {
    machine->votes = {barrier.count, all};
    finish_barrier(barrier);
    all_synchronized();
  }
  return machine->votes;  // nobody is at the next barrier with all before each has read this
}

void sync_named(int number, int threads, Where where) {
  if (number < 1 || number >= barriers || threads < 1 || threads % warpSize != 0) {
    fail(where, "named_barrier(" + std::to_string(number) + ", " + std::to_string(threads) +
                    "): a number from 1 to 15, and threads of whole warps");
  }
  Barrier& barrier = machine->barrier[number];
  if (!barrier.arrived.empty() && barrier.expected != threads) {
    fail(where, "named_barrier " + std::to_string(number) + " for " + std::to_string(threads) + " threads, and for " +
                    std::to_string(barrier.expected) + " at " + place(barrier.where));
  }
  barrier.where = where;
  barrier.expected = threads;
  barrier.arrived.push_back(this_thread());
  if (static_cast<int>(barrier.arrived.size()) < threads) {
    wait_in("named_barrier", where);
    return;
  }
  synchronized(barrier.arrived);
  finish_barrier(barrier);
}

void run_grid(const char* kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
              const std::function<void()>& thread) {
  thread_local Stacks stacks;
  Machine running;
  running.kernel = kernel;
  struct Current {  // a kernel that fails leaves none behind
    explicit Current(Machine* now) { machine = now; }
    ~Current() { machine = nullptr; }
  } current(&running);
  check_launch(grid, block);
  ++emulated_launches();
  open_global();
  gridDim = grid;
  blockDim = block;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        run_block(stacks, shared_bytes, thread);
      }
    }
  }
}

}  // namespace kvc::cuda_emulated
