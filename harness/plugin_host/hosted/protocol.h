// What kvc and a host process say to each other: one call at a time, in memory that both map (docs/protocol.md).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kvc::protocol {

inline constexpr uint32_t kVersion = 1;

// A host finds the shared memory on these descriptors, and has no others but 0 to 2.
inline constexpr int kControlFd = 3;  // Control, then a request and an answer; both may write
inline constexpr int kInputsFd = 4;   // the request's tensors; the host may only read
inline constexpr int kOutputsFd = 5;  // the answer's tensors
inline constexpr size_t kControlBytes = 8 << 20;
inline constexpr size_t kRequestAt = 4096;
inline constexpr size_t kAnswerAt = kControlBytes / 2;
inline constexpr size_t kMostBytes = kAnswerAt - kRequestAt;  // of a request, of an answer

// At the beginning of the control memory.
struct Control {
  uint32_t version;
  std::atomic<uint32_t> asked;     // a futex: the number of the request, from 1
  std::atomic<uint32_t> answered;  // a futex: the number of the last request that was answered
  std::atomic<uint32_t> refused;   // 1 + the number of the system call that ended the host; 0: none
};

// Numbers of Message::operation; docs/protocol.md has what each is given and answers.
enum class Operation : uint32_t {
  describe = 1,
  create = 2,
  check_model = 3,
  contain = 4,
  paper_bytes = 5,
  make_cache = 6,
  drop_cache = 7,
  append = 8,
  attend = 9,
  step = 10,
  dequantize = 11,
  attended = 12,
  attended_query = 13,
  positions = 14,
  counts = 15,
  footprint = 16,
  droppable = 17,
  drop_oldest = 18,
  scores = 19,
  mix = 20,
  probed_parts = 21,
  observe = 22,
  finish_prefill = 23,
  load_calibration = 24,
  make_calibrator = 25,
  observe_text = 26,
  finish_calibrator = 27,
  settle = 28,
  answer = 29,
};

enum class Status : uint32_t { done = 0, failed = 1, out_of_memory = 2 };

// A tensor in the inputs or outputs: contiguous, little-endian, at most 4 dimensions; 255: there is none.
inline constexpr uint32_t kNoTensor = 255;
struct Place {
  uint64_t offset;
  uint32_t type;  // numbers of tensor_types.h
  uint32_t n_dims;
  std::array<int64_t, 4> sizes;
};
static_assert(sizeof(Place) == 48);

// A request or an answer: this, then n_places times Place, then n_text bytes of UTF-8.
struct Message {
  uint32_t operation;  // of an answer: that of its request
  uint32_t status;     // of an answer; its text then says why it failed
  uint32_t n_places;
  uint32_t n_text;
  std::array<int64_t, 14> numbers;
};
static_assert(sizeof(Message) == 128);

// In numbers of every request: the memory it takes is only the harness's question's, and not the peak of a sequence.
inline constexpr size_t kInspecting = 13;
// In numbers of every answer: what the cache's sequence holds, in bytes, and what all caches share.
inline constexpr size_t kHeldTensors = 4, kHeldCount = 5, kHeldElse = 6, kHeldPeak = 7;
inline constexpr size_t kSharedTensors = 8, kSharedCount = 9, kSharedElse = 10;

// Columns of step's table, a row for each cache; docs/protocol.md.
enum StepColumn : int64_t { kFailed, kEncodeSeconds, kAttendSeconds, kTensors, kCount, kElse, kPeak, kStepColumns };

}  // namespace kvc::protocol
