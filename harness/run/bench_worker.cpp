#include "run/bench_worker.h"

#include <ATen/Parallel.h>
#include <poll.h>

#include <algorithm>
#include <limits>

#include "run/build_compressor.h"

namespace kvc {
namespace {

using nlohmann::json;

constexpr int kPatienceMs = 100;  // between two questions whether to keep on

class BenchWorker {
 public:
  explicit BenchWorker(const BenchSetUp& set_up)
      : subject_(set_up.bench),
        body_(make_bench_body(subject_, meter_)),
        compressor_(build_compressor(set_up.compressor, body_->shape()).part.compressor) {
    compressor_->check_model(body_->shape());
  }

  int64_t max_tokens() const { return body_->max_tokens(); }

  json measure() const {
    const auto line = measure_cache(*compressor_, body_->shape());
    return {{"bytes_per_token", line.bytes_per_token}, {"fixed_bytes", line.fixed_bytes}};
  }

  void run(const BenchJob& job, WorkerChannel& channel) {
    json last = {{"done", true}};
    try {
      body_->prepare(job.point);
      if (job.limit_bytes > 0) meter_.set_limit(job.limit_bytes + body_->input_bytes());
      for (int64_t i = -job.n_warmups; i < job.n_repeats; ++i) {
        channel.enter(0);
        const auto result = run_bench_point(*body_, *compressor_, job.point, subject_, meter_);
        channel.enter(-1);
        channel.send(i < 0 ? json{{"warm_up", true}} : json{{"result", result}});
      }
    } catch (const std::exception& e) {
      last["error"] = e.what();
    }
    last["hit_limit"] = meter_.hit_limit();
    meter_.set_limit(std::numeric_limits<int64_t>::max());
    channel.send(last);
  }

 private:
  BenchSubject subject_;
  MemoryMeter meter_;  // before the body: its weights are booked on it
  std::unique_ptr<BenchBody> body_;
  std::unique_ptr<Compressor> compressor_;
};

}  // namespace

int run_bench_worker(const json& set_up, WorkerChannel& channel) {
  std::optional<BenchWorker> worker;
  try {
    const auto settings = set_up.get<BenchSetUp>();
    at::set_num_threads(static_cast<int>(settings.bench.threads));
    worker.emplace(settings);
    channel.send({{"ready", true}, {"max_tokens", worker->max_tokens()}});
  } catch (const std::exception& e) {
    channel.send({{"ready", false}, {"error", e.what()}});
    return 3;
  }
  while (const auto message = channel.receive()) {
    message->contains("measure") ? channel.send(worker->measure()) : worker->run(message->get<BenchJob>(), channel);
  }
  return 0;
}

BenchChild::BenchChild(const BenchSetUp& set_up, const BenchWatch& watch) : process_(json(set_up)), watch_(watch) {
  const auto answer = wait();
  KVC_CHECK(answer["ready"].get<bool>(), answer.value("error", "a bench did not start"));
  max_tokens_ = answer["max_tokens"].get<int64_t>();
}

json BenchChild::next(const std::function<bool()>& keep_on) {
  while (waiting_.empty()) {
    KVC_CHECK(!process_.ended(), "the bench was ", process_.epitaph(),
              process_.last_entered() >= 0 ? " inside the plugin" : "");
    pollfd polled{process_.fd(), POLLIN, 0};
    if (::poll(&polled, 1, kPatienceMs) > 0) waiting_ = process_.receive();
    if (!keep_on()) return nullptr;
  }
  auto message = std::move(waiting_.front());
  waiting_.erase(waiting_.begin());
  return message;
}

json BenchChild::wait() {
  return next([&] {
    watch_.keep_on();
    return true;
  });
}

CacheLine BenchChild::measure() {
  process_.send({{"measure", true}});
  const auto answer = wait();
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
      message = next(watch_.keep_on);
    } catch (const Error& e) {  // it died
      outcome.results.clear();
      outcome.error = e.what();
      return outcome;
    }
    if (message.is_null()) return outcome;
    if (message.contains("result")) outcome.results.push_back(message["result"].get<BenchResult>());
    if (message.contains("result") || message.contains("warm_up")) {
      watch_.end_run();
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
