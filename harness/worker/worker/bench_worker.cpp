#include "worker/bench_worker.h"

#include <ATen/Parallel.h>

#include <limits>

#include "plugin_loader/build_compressor.h"
#include "plugin_loader/plan_memory.h"
#include "sandbox/device.h"
#include "sandbox/device_clock.h"
#include "sandbox/thrown.h"
#include "text/message.h"
#include "worker/bench_run.h"
#include "worker/read_memory.h"

namespace kvc {
namespace {

using nlohmann::json;

class BenchWorker {
 public:
  BenchWorker(const BenchSetUp& set_up, WorkerChannel& channel)
      : channel_(channel),
        choice_(set_up.compressor),
        subject_(set_up.bench),
        body_(make_bench_body(subject_, meter_)),
        reads_here_(!works_apart(device_named(subject_.device))) {
    check_plugin_files(choice_);
  }

  int64_t max_tokens() const { return body_->max_tokens(); }

  void measure() {
    try {
      const auto line = measure_cache(compressor(), body_->shape());
      channel_.send({{"bytes_per_token", line.bytes_per_token}, {"fixed_bytes", line.fixed_bytes}});
    } catch (...) {
      channel_.send({{"error", thrown()}});
    }
  }

  void run(const BenchJob& job) {
    json last = {{"done", true}};
    try {
      body_->prepare(job.point);
      if (job.limit_bytes > 0) meter_.set_limit(job.limit_bytes + body_->input_bytes());
      for (int64_t i = -job.n_warmups; i < job.n_repeats; ++i) {
        auto& made = compressor();
        channel_.enter(0);
        auto result = run_bench_point(
            *body_, made, job.point, meter_, i < 0 || job.n_warmups == 0, [&] { channel_.enter(0); }, may_evict_);
        if (i >= 0 && job.limit_bytes == 0 && reads_here_) result.read_seconds = reader_.seconds(result.memory.kv);
        channel_.enter(-1);
        channel_.send(i < 0 ? json{{"warm_up", true}} : json{{"result", result}});
      }
    } catch (...) {
      last["error"] = thrown();
    }
    last["hit_limit"] = meter_.hit_limit();
    meter_.set_limit(std::numeric_limits<int64_t>::max());
    channel_.send(last);
  }

 private:
  // Made when it is first asked for: what a plugin does there costs its own points.
  const Compressor& compressor() {
    if (compressor_) return *compressor_;
    channel_.enter(0);
    auto built = build_compressor(choice_, body_->shape());
    compressor_ = std::move(built.part.compressor);
    may_evict_ = built.part.capabilities.evicts;
    compressor_->check_model(body_->shape());
    channel_.enter(-1);
    return *compressor_;
  }

  WorkerChannel& channel_;
  CompressorChoice choice_;
  BenchSubject subject_;
  MemoryMeter meter_;  // before the body: its weights are charged to it
  std::unique_ptr<BenchBody> body_;
  std::unique_ptr<Compressor> compressor_;
  bool may_evict_ = true;
  bool reads_here_;  // caches: from the machine's memory
  MemoryReader reader_;
};

}  // namespace

int run_bench_worker(const json& set_up, WorkerChannel& channel) {
  std::optional<BenchWorker> worker;
  try {
    const auto settings = set_up.get<BenchSetUp>();
    at::set_num_threads(static_cast<int>(settings.bench.threads));
    worker.emplace(settings, channel);
    channel.send({{"ready", true}, {"max_tokens", worker->max_tokens()}});
  } catch (const std::exception& e) {
    channel.send({{"ready", false}, {"error", said_by(e)}});
    return 3;
  }
  while (const auto message = channel.receive()) {
    message->contains("measure") ? worker->measure() : worker->run(message->get<BenchJob>());
  }
  return 0;
}

}  // namespace kvc
