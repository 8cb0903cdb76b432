#include "hosted/hosted_steps.h"

#include <ATen/ATen.h>

#include <cmath>

#include "contract/stopwatch.h"
#include "hosted/hosted_cache.h"
#include "sandbox/thrown.h"
#include "text/json.h"

namespace kvc {
using namespace protocol;

void HostedSteps::add(std::shared_ptr<HostProcess> process, size_t member, LayerCache& cache, const NewTokens& token) {
  by_process_[std::move(process)].push_back({member, &cache, &token});
}

protocol::Request HostedSteps::request_of(const Steps& steps, double scale) {
  protocol::Request request{.operation = protocol::Operation::step, .numbers = {protocol::bits_of(scale)}};
  auto caches = at::empty({static_cast<int64_t>(steps.size()), 2}, at::kLong);
  auto* row = caches.data_ptr<int64_t>();
  request.tensors.push_back(caches);
  for (const auto& step : steps) {
    *row++ = number_of(*step.cache);
    *row++ = step.token->first_position;
    for (const auto* tensor : {&step.token->q, &step.token->k, &step.token->v}) request.tensors.push_back(*tensor);
  }
  return request;
}

void HostedSteps::take(const Steps& steps, const HostAnswer& answer, const at::Tensor& attended,
                       std::vector<Result>& results) {
  const auto n = static_cast<int64_t>(steps.size());
  const auto table = answer.tensor(0, at::kDouble, {n, kStepColumns});
  const auto errors = answer.text.empty() ? nlohmann::json::array() : try_json(answer.text);
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto* row = table.const_data_ptr<double>() + static_cast<int64_t>(i) * kStepColumns;
    Result result{steps[i].member, "", row[kEncodeSeconds], row[kAttendSeconds]};
    for (const double seconds : {result.encode_seconds, result.attend_seconds}) {
      KVC_CHECK(seconds >= 0 && std::isfinite(seconds), "the compressor's process gave ", seconds, " as seconds");
    }
    hold_elsewhere(
        *steps[i].cache,
        {static_cast<int64_t>(row[kTensors]), static_cast<int64_t>(row[kCount]), static_cast<int64_t>(row[kElse])},
        static_cast<int64_t>(row[kPeak]));
    auto out = attended[static_cast<int64_t>(steps[i].member)];
    if (row[kFailed] == 0) {
      out.copy_(answer.tensor(1 + i, at::kFloat, {out.size(0), 1, out.size(1)}).squeeze(1));
    } else {
      result.error = errors.is_array() && i < errors.size() && errors[i].is_string() ? errors[i].get<std::string>()
                                                                                     : "it failed without saying why";
      out.zero_();
    }
    results.push_back(std::move(result));
  }
}

std::vector<HostedSteps::Result> HostedSteps::run(double scale, const at::Tensor& attended) {
  std::vector<Result> results;
  const auto start = Clock::now();
  std::vector<std::pair<const Steps*, HostProcess::PendingCall>> pending;
  const auto fail = [&](const Steps& steps) {
    for (const auto& step : steps) {
      attended[static_cast<int64_t>(step.member)].zero_();
      results.push_back({step.member, thrown()});
    }
  };
  for (const auto& [process, steps] : by_process_) {
    try {
      pending.emplace_back(&steps, process->begin(request_of(steps, scale)));
    } catch (...) {
      fail(steps);
    }
  }
  for (auto& [steps, call] : pending) {
    try {
      take(*steps, call.finish(), attended, results);
    } catch (...) {
      fail(*steps);
    }
  }
  const double whole = seconds_since(start);
  double sum = 0;
  for (const auto& result : results) sum += result.encode_seconds + result.attend_seconds;
  for (auto& result : results) {
    result.encode_seconds *= sum > 0 ? whole / sum : 0;
    result.attend_seconds *= sum > 0 ? whole / sum : 0;
  }
  return results;
}

}  // namespace kvc
