// What parent and child of a bench say to each other: one compressor on one body, and its points, as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "contract/bench_subject.h"
#include "text/json.h"
#include "wire/messages.h"

namespace kvc {

// Seconds of a run. Parts are what the compressor recorded inside a phase (kvc/part_timer.h).
struct PhaseSeconds {
  double prefill = 0, encode = 0, attend = 0, other = 0;
  std::map<std::string, double> encode_parts, attend_parts;
  double total() const { return prefill + encode + attend + other; }
};

// The most that all tensors took at a time. kv is what the caches hold at the end, other the bench's own inputs,
// workspace the rest.
struct MemorySplit {
  int64_t weights = 0, kv = 0, workspace = 0, other = 0;
  int64_t peak() const { return weights + kv + workspace + other; }
};

struct BenchResult {
  PhaseSeconds seconds;
  MemorySplit memory;
  double read_seconds = 0;  // that the machine takes to read memory.kv bytes; 0: not asked
};

// The first message to the child.
struct BenchSetUp {
  BenchSubject bench;
  CompressorChoice compressor;
};
KVC_DECLARE_JSON(BenchSetUp)

// A point to run: n_warmups times, of which only their end is heard, then n_repeats times with an answer each.
struct BenchJob {
  BenchPoint point;
  int64_t n_warmups = 0, n_repeats = 1;
  int64_t limit_bytes = 0;  // of all tensors but the bench's own inputs; 0: none
};
KVC_DECLARE_JSON(BenchJob)

KVC_DECLARE_JSON(PhaseSeconds)
KVC_DECLARE_JSON(MemorySplit)
KVC_DECLARE_JSON(BenchResult)

}  // namespace kvc
