// One decode step of many hosted caches: one call to each of their processes, all at the same time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hosted/host_process.h"
#include "kvc/layer_cache.h"

namespace kvc {

class HostedSteps {
 public:
  // The token becomes part of run(). process: the cache's, which takes steps (process_with_steps). All outlive run().
  void add(std::shared_ptr<HostProcess> process, size_t member, LayerCache& cache, const NewTokens& token);

  bool empty() const { return by_process_.empty(); }
  size_t first_member() const { return by_process_.begin()->second.front().member; }

  struct Result {
    size_t member;
    std::string error;  // "": it did not fail
    double encode_seconds = 0, attend_seconds = 0;
  };
  // Appends each token and puts the attention of its query into attended[member], [H_q, D] fp32. What overlaps in time is
  // counted once: each has its own part of the whole.
  std::vector<Result> run(double scale, const at::Tensor& attended);

 private:
  struct Step {
    size_t member;
    LayerCache* cache;
    const NewTokens* token;
  };
  using Steps = std::vector<Step>;
  static protocol::Request request_of(const Steps& steps, double scale);
  static void take(const Steps& steps, const HostAnswer& answer, const at::Tensor& attended,
                   std::vector<Result>& results);

  std::map<std::shared_ptr<HostProcess>, Steps> by_process_;
};

}  // namespace kvc
