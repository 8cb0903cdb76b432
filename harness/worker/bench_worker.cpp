#include "worker/bench_worker.h"

#include <ATen/Parallel.h>

#include <limits>

#include "compressors/build_compressor.h"
#include "compressors/plan_memory.h"
#include "text/message.h"
#include "worker/bench_run.h"
#include "worker/read_memory.h"

namespace kvc {
namespace {

using nlohmann::json;

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
        auto result = run_bench_point(*body_, *compressor_, job.point, subject_, meter_, i < 0 || job.n_warmups == 0);
        if (i >= 0 && job.limit_bytes == 0) result.read_seconds = reader_.seconds(result.memory.kv);
        channel.enter(-1);
        channel.send(i < 0 ? json{{"warm_up", true}} : json{{"result", result}});
      }
    } catch (const std::exception& e) {
      last["error"] = said_by(e);
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
  MemoryReader reader_;
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
    channel.send({{"ready", false}, {"error", said_by(e)}});
    return 3;
  }
  while (const auto message = channel.receive()) {
    message->contains("measure") ? channel.send(worker->measure()) : worker->run(message->get<BenchJob>(), channel);
  }
  return 0;
}

}  // namespace kvc
