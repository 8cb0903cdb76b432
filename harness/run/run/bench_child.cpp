#include "run/bench_child.h"

#include <cmath>

namespace kvc {
namespace {

using nlohmann::json;

constexpr const char* kWho = "the bench";

void check_numbers(const BenchResult& result) {
  const auto& [prefill, encode, attend, other, encode_parts, attend_parts] = result.seconds;
  for (const double seconds : {prefill, encode, attend, other, result.read_seconds}) {
    KVC_CHECK(std::isfinite(seconds) && seconds >= 0, kWho, " took ", seconds, " s");
  }
  for (const int64_t bytes : {result.memory.weights, result.memory.kv}) {
    KVC_CHECK(bytes >= 0, kWho, " held ", bytes, " bytes");
  }
}

}  // namespace

BenchChild::BenchChild(const BenchSetUp& set_up, const BenchWatch& watch) : process_(json(set_up)), watch_(watch) {
  const auto answer = wait();
  KVC_CHECK(answer["ready"].get<bool>(), answer.value("error", "a bench did not start"));
  process_.set_patience(watch_.patience);
  max_tokens_ = answer["max_tokens"].get<int64_t>();
}

json BenchChild::wait() {
  return process_.next(kWho, [&] {
    watch_.keep_on();
    return true;
  });
}

CacheLine BenchChild::measure() {
  process_.send({{"measure", true}});
  const auto answer = wait();
  KVC_CHECK(!answer.contains("error"), answer["error"].get<std::string>());
  CacheLine line;
  line.bytes_per_token = answer["bytes_per_token"].get<double>();
  line.fixed_bytes = answer["fixed_bytes"].get<double>();
  return line;
}

BenchChild::Outcome BenchChild::run(const BenchJob& job) {
  process_.send(json(job));
  Outcome outcome;
  while (true) {
    json message;
    try {
      message = process_.next(kWho, watch_.keep_on);
    } catch (const Error& e) {  // it died
      outcome.results.clear();
      outcome.error = e.what();
      return outcome;
    }
    if (message.is_null()) return outcome;
    if (message.contains("result")) {
      outcome.results.push_back(message["result"].get<BenchResult>());
      check_numbers(outcome.results.back());
    }
    if (message.contains("result") || message.contains("warm_up")) {
      watch_.end_run(message.contains("result") ? &outcome.results.back() : nullptr);
      continue;
    }
    outcome.error = message.value("error", "");
    outcome.error = outcome.error.substr(0, outcome.error.find('\n'));
    outcome.hit_limit = message["hit_limit"].get<bool>();
    if (!outcome.error.empty()) outcome.results.clear();
    return outcome;
  }
}

}  // namespace kvc
