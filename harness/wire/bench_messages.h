// What parent and child of a bench say to each other: one compressor on one body, and its points, as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "settings/bench_subject.h"
#include "text/json.h"
#include "wire/messages.h"

namespace kvc {

// Seconds of a run. Parts are what the compressor booked inside a phase (kvc/part_timer.h).
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

// The first message to the child. counts: nothing is run; it makes no body and answers CountJobs alone.
struct BenchSetUp {
  BenchSubject bench;
  CompressorChoice compressor;
  bool counts = false;
};
KVC_DECLARE_JSON(BenchSetUp)

// A point to run: n_warmups times, of which only their end is heard, then n_repeats times with an answer each.
struct BenchJob {
  BenchPoint point;
  int64_t n_warmups = 0, n_repeats = 1;
  int64_t limit_bytes = 0;  // of all tensors but the bench's own inputs; 0: none
};
KVC_DECLARE_JSON(BenchJob)

// What one decode step reads and computes over a prompt of so many drawn tokens, of one sequence in all layers.
struct CountJob {
  int64_t n_count_tokens = 0;
};
KVC_DECLARE_JSON(CountJob)

struct HeldBytes {
  std::string tensor, kind;  // as kvc/footprint.h calls them
  int64_t bytes = 0;
};

struct KernelWork {
  std::string kernel;  // its symbol; "": unknown
  int64_t launches = 0;
  double multiply_adds = 0, products = 0;  // of warps
};

struct StepCount {
  std::vector<HeldBytes> held;
  std::vector<KernelWork> kernels;
  int64_t n_layers = 1;       // of the model
  int64_t n_filled = 1;       // of these, filled; the others hold what the first does
  double operator_share = 0;  // numbers that LibTorch's operators were given, of all numbers that the caches stand for
};

KVC_DECLARE_JSON(HeldBytes)
KVC_DECLARE_JSON(KernelWork)
KVC_DECLARE_JSON(StepCount)
KVC_DECLARE_JSON(PhaseSeconds)
KVC_DECLARE_JSON(MemorySplit)
KVC_DECLARE_JSON(BenchResult)

}  // namespace kvc
