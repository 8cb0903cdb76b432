// The child process of a bench: one compressor on one body, and a loop over points.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "run/bench_run.h"
#include "run/plan_memory.h"
#include "run/worker.h"
#include "run/worker_process.h"

namespace kvc {

// The first message to it.
struct BenchSetUp {
  BenchSubject bench;
  CompressorChoice compressor;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BenchSetUp, bench, compressor)

// A point to run: n_warmups times, of which only their end is heard, then n_repeats times with an answer each.
struct BenchJob {
  BenchPoint point;
  int64_t n_warmups = 0, n_repeats = 1;
  int64_t limit_bytes = 0;  // of all tensors but the bench's own inputs; 0: none
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BenchJob, point, n_warmups, n_repeats, limit_bytes)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PhaseSeconds, prefill, encode, attend, other, encode_parts, attend_parts)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MemorySplit, weights, kv, workspace, other)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BenchResult, seconds, memory)

// Runs until the parent closes the channel. Returns the process's exit code.
int run_bench_worker(const nlohmann::json& set_up, WorkerChannel& channel);

// What a parent does while it waits for a child.
struct BenchWatch {
  std::function<bool()> keep_on = [] { return true; };  // asked now and then; where it says no, the rest is left
  std::function<void(const std::string& what)> begin = [](const std::string&) {};  // told before something long
  std::function<void()> end_run = [] {};  // told after each warm-up and each repeat
};

// The parent's end.
class BenchChild {
 public:
  // Returns when it is ready; throws Error where the body or the compressor cannot be made. The watch has to live on.
  BenchChild(const BenchSetUp& set_up, const BenchWatch& watch);

  int64_t max_tokens() const { return max_tokens_; }  // that the body takes
  // Bytes that the caches of one sequence hold, as a line in its prompt's length.
  CacheLine measure();

  struct Outcome {
    std::vector<BenchResult> results;  // of the repeats
    std::string error;                 // why there are none
    bool hit_limit = false;            // by the job's limit; the child is of no more use
  };
  Outcome run(const BenchJob& job);

 private:
  nlohmann::json next(const std::function<bool()>& keep_on);  // null: keep_on said no
  nlohmann::json wait();                                      // for the next message, whatever keep_on says

  WorkerProcess process_;
  const BenchWatch& watch_;
  std::vector<nlohmann::json> waiting_;
  int64_t max_tokens_ = 0;
};

}  // namespace kvc
