// The parent's end of a bench: a child process with one compressor on one body.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plugin_loader/plan_memory.h"
#include "wire/bench_messages.h"
#include "wire/worker_process.h"

namespace kvc {

// What a parent does while it waits for a child.
struct BenchWatch {
  std::function<bool()> keep_on = [] { return true; };  // asked now and then; where it says no, the rest is left
  std::function<void(const std::string& what)> begin = [](const std::string&) {};  // told before something long
  // Told after each warm-up, without a result, and each repeat.
  std::function<void(const BenchResult* result)> end_run = [](const BenchResult*) {};
  double patience = 0;  // seconds at one step after which the child is stuck; 0: none
};

class BenchChild {
 public:
  // Returns when it is ready; throws Error where the body cannot be made. The watch has to live on.
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
  nlohmann::json wait();  // for the next message, whatever keep_on says

  WorkerProcess process_;
  const BenchWatch& watch_;
  int64_t max_tokens_ = 0;
};

}  // namespace kvc
