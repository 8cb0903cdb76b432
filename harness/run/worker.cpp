#include "run/worker.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "generate/generator.h"
#include "kvc/plugin.h"
#include "plugin/plugin_library.h"
#include "run/admission.h"
#include "run/load_model.h"
#include "run/worker_process.h"

namespace kvc {
namespace {

constexpr double kMemoryForKv = 0.8;  // of what is free once the weights are there

// What stays for the life of the process, and the jobs under way.
class Worker {
 public:
  Worker(const WorkerSetUp& set_up, WorkerChannel& channel)
      : channel_(channel),
        set_up_(set_up),
        model_(load_model(set_up.model, set_up.dtype, set_up.weights, set_up.devices, set_up.quantization)),
        tokenizer_(Tokenizer::load(set_up.model)),
        generator_(model_, tokenizer_, meter_, set_up.share_prefix),
        admission_(set_up.batch_size,
                   static_cast<int64_t>(kMemoryForKv * static_cast<double>(available_memory_bytes()) /
                                        static_cast<double>(set_up.n_workers))) {
    for (const auto& compressor : set_up.compressors) {
      libraries_.emplace_back(compressor.file);
      compressors_.push_back(libraries_.back().make(compressor.options, nullptr));
    }
    generator_.on_entering([this](int64_t ticket, int i) {
      channel_.enter(i < 0 ? -1 : entered_job(ticket).compressors[static_cast<size_t>(i)]);
    });
  }

  // Takes jobs as there is room for them, until the parent closes the channel.
  void serve() {
    bool asked = true;  // the parent gives the first job unasked
    while (true) {
      if (!asked && has_room()) {
        channel_.send({{"more", true}});
        asked = true;
      }
      if (const bool idle = generator_.n_sequences() == 0; idle || channel_.has_message()) {
        const auto message = channel_.receive();
        if (!message) return;
        asked = false;
        start(message->get<Job>());
      }
      for (auto& finished : generator_.step()) answer(finished);
    }
  }

 private:
  struct ActiveJob {
    Job job;
    size_t n_left;  // compressors that have not answered
    int64_t final_tokens;
  };

  // A job's prefill runs before its ticket is known.
  const Job& entered_job(int64_t ticket) const {
    const auto found = active_.find(ticket);
    return found == active_.end() ? *starting_ : found->second.job;
  }

  // For another job like the last.
  bool has_room() const {
    int64_t final_tokens = 0, cached_tokens = 0, n_new = 0, new_tokens = 0;
    for (const auto& [ticket, active] : active_) {
      n_new = static_cast<int64_t>(active.job.compressors.size());
      new_tokens = n_new * active.final_tokens;
      final_tokens += static_cast<int64_t>(active.n_left) * active.final_tokens;
      cached_tokens += static_cast<int64_t>(active.n_left) * (active.final_tokens - active.job.max_new_tokens);
    }
    return admission_.admits(n_new, new_tokens, generator_.n_sequences(), generator_.kv_bytes(), cached_tokens,
                             final_tokens);
  }

  void start(const Job& job) {
    starting_ = &job;
    try {
      GenerationRequest request;
      request.prompt_ids = tokenizer_.encode(job.prompt, job.add_special_tokens);
      for (const int i : job.compressors) {
        request.compressors.push_back(compressors_.at(static_cast<size_t>(i)).get());
      }
      request.sequence_key = job.sequence_key;
      request.stop = {model_.config().eos_token_ids, job.stop_strings, job.max_new_tokens};
      request.sampling = set_up_.sampling;
      request.n_shared_tokens = n_shared_tokens(job, request.prompt_ids);
      const auto n_prompt = static_cast<int64_t>(request.prompt_ids.size());
      const int64_t ticket = generator_.add(std::move(request));
      active_[ticket] = {job, job.compressors.size(), n_prompt + job.max_new_tokens};
    } catch (const std::exception& e) {  // the prompt's fault or the model's: it fails for all
      for (const int i : job.compressors) {
        JobResult failed;
        failed.job = job.id;
        failed.compressor = i;
        failed.error = e.what();
        channel_.send(failed);
      }
      channel_.send({{"done", job.id}});
    }
    starting_ = nullptr;
  }

  // Tokens at the head of the prompt that the shared text alone has too.
  int64_t n_shared_tokens(const Job& job, const std::vector<int64_t>& prompt_ids) const {
    const auto shared = job.prompt.substr(0, static_cast<size_t>(job.n_shared_bytes));
    const auto ids = tokenizer_.encode(shared, job.add_special_tokens);
    const auto end = std::mismatch(ids.begin(), ids.end(), prompt_ids.begin(), prompt_ids.end()).first;
    return end - ids.begin();
  }

  void answer(const Finished& finished) {
    auto& active = active_.at(finished.ticket);
    channel_.send(result_of(active.job, finished));
    if (--active.n_left > 0) return;
    channel_.send({{"done", active.job.id}});
    active_.erase(finished.ticket);
  }

  JobResult result_of(const Job& job, const Finished& finished) const {
    const auto& generation = finished.generation;
    const auto& shape = model_.shape();
    JobResult result;
    result.job = job.id;
    result.compressor = job.compressors[finished.compressor];
    result.error = generation.error;
    if (!result.error.empty()) return result;
    result.text = generation.text;
    result.stop_reason = to_string(generation.stop_reason);
    result.ids = generation.ids;
    result.n_prompt_tokens = generation.n_prompt_tokens;
    result.n_reused_tokens = generation.n_reused_tokens;
    for (size_t layer = 0; layer < generation.footprints.size(); ++layer) {
      for (const auto& row : generation.footprints[layer].rows()) {
        result.bytes.push_back({static_cast<int64_t>(layer), to_string(row.tensor), to_string(row.kind), row.bytes});
      }
    }
    result.kv_bytes = generation.kv_bytes;
    result.kv_bytes_fp16 = 4 * shape.n_layers * shape.n_kv_heads * shape.head_dim * generation.n_cached_tokens;
    result.n_encoded_tokens = generation.n_encoded_tokens;
    const auto& compressor = *compressors_[static_cast<size_t>(result.compressor)];
    const int64_t n_new = generation.n_cached_tokens - generation.n_prompt_tokens;
    result.paper_bytes =
        static_cast<double>(shape.n_layers) * compressor.paper_bytes(shape, generation.n_prompt_tokens, n_new);
    result.k_error = generation.k_error;
    result.v_error = generation.v_error;
    result.weights_bytes = model_.weights_bytes();
    result.workspace_bytes = generation.workspace_bytes;
    result.prefill_seconds = generation.prefill_seconds;
    result.encode_seconds = generation.encode_seconds;
    result.attend_seconds = generation.attend_seconds;
    result.other_seconds = generation.other_seconds;
    return result;
  }

  WorkerChannel& channel_;
  WorkerSetUp set_up_;
  MemoryMeter meter_;  // before the model: its weights are booked on it
  Transformer model_;
  Tokenizer tokenizer_;
  std::vector<PluginLibrary> libraries_;
  std::vector<std::unique_ptr<Compressor>> compressors_;  // outlive the generator's caches
  Generator generator_;
  Admission admission_;
  std::map<int64_t, ActiveJob> active_;  // by ticket
  const Job* starting_ = nullptr;
};

}  // namespace

int run_worker() {
  WorkerChannel channel;
  const auto set_up = channel.receive();
  if (!set_up) return 0;
  std::optional<Worker> worker;
  try {
    const auto settings = set_up->get<WorkerSetUp>();
    at::set_num_threads(static_cast<int>(settings.threads));
    worker.emplace(settings, channel);
    channel.send({{"ready", true}});
  } catch (const std::exception& e) {
    channel.send({{"ready", false}, {"error", e.what()}});
    return 3;
  }
  worker->serve();
  return 0;
}

}  // namespace kvc
