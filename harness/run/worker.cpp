#include "run/worker.h"

#include <ATen/Parallel.h>

#include <memory>
#include <optional>

#include "generate/generator.h"
#include "kvc/plugin.h"
#include "plugin/plugin_library.h"
#include "run/dtype.h"
#include "run/worker_process.h"

namespace kvc {
namespace {

// What stays for the life of the process.
struct Worker {
  MemoryMeter meter;  // before the model: its weights are booked on it
  Transformer model;
  Tokenizer tokenizer;
  Generator generator;
  std::vector<PluginLibrary> libraries;
  std::vector<std::unique_ptr<Compressor>> compressors;

  explicit Worker(const WorkerSetUp& set_up)
      : model(Transformer::load(set_up.model, parse_dtype(set_up.dtype))),
        tokenizer(Tokenizer::load(set_up.model)),
        generator(model, tokenizer, meter) {
    for (const auto& compressor : set_up.compressors) {
      libraries.emplace_back(compressor.file);
      compressors.push_back(libraries.back().make(compressor.options, nullptr));
    }
  }
};

std::vector<JobBytes> byte_rows(const Generation& generation) {
  std::vector<JobBytes> rows;
  for (size_t layer = 0; layer < generation.footprints.size(); ++layer) {
    for (const auto& row : generation.footprints[layer].rows()) {
      rows.push_back({static_cast<int64_t>(layer), to_string(row.tensor), to_string(row.kind), row.bytes});
    }
  }
  return rows;
}

JobResult decode(const Worker& worker, Prefill& prefill, size_t i, std::span<const int64_t> prompt_ids,
                 const Job& job) {
  const auto& shape = worker.model.shape();
  const StopRule rule{worker.model.config().eos_token_ids, job.stop_strings, job.max_new_tokens};
  const auto generation = worker.generator.decode(prefill, i, prompt_ids, rule);
  const auto& sequence = prefill.sequences[i];
  const int64_t n_prompt = static_cast<int64_t>(prompt_ids.size());
  const int64_t n_cached = sequence.layers.front()->length();

  JobResult result;
  result.compressor = job.compressors[i];
  result.text = generation.text;
  result.stop_reason = to_string(generation.stop_reason);
  result.ids = generation.ids;
  result.n_prompt_tokens = n_prompt;
  result.bytes = byte_rows(generation);
  result.kv_bytes = generation.kv_bytes;
  result.kv_bytes_fp16 = 4 * shape.n_layers * shape.n_kv_heads * shape.head_dim * n_cached;
  result.n_encoded_tokens = generation.n_encoded_tokens;
  result.paper_bytes =
      static_cast<double>(shape.n_layers) *
      worker.compressors[static_cast<size_t>(job.compressors[i])]->paper_bytes(shape, n_prompt, n_cached - n_prompt);
  result.k_error = sequence.k_error;
  result.v_error = sequence.v_error;
  result.weights_bytes = worker.model.weights_bytes();
  result.workspace_bytes = generation.workspace_bytes;
  result.prefill_seconds = prefill.seconds;
  result.encode_seconds = sequence.encode_seconds + generation.encode_seconds;
  result.attend_seconds = generation.attend_seconds;
  result.other_seconds = generation.other_seconds;
  return result;
}

JobResult failure(int compressor, const std::string& error) {
  JobResult result;
  result.compressor = compressor;
  result.error = error;
  return result;
}

void run_job(const Worker& worker, const Job& job, WorkerChannel& channel) {
  std::vector<int64_t> prompt_ids;
  std::vector<const Compressor*> compressors;
  std::optional<Prefill> prefill;
  try {
    prompt_ids = worker.tokenizer.encode(job.prompt, job.add_special_tokens);
    for (const int i : job.compressors) compressors.push_back(worker.compressors.at(static_cast<size_t>(i)).get());
    const auto entering = [&](int i) { channel.enter(i < 0 ? -1 : job.compressors[static_cast<size_t>(i)]); };
    prefill = worker.generator.prefill(prompt_ids, compressors, job.sequence_key, entering);
  } catch (const std::exception& e) {  // the prompt's fault or the model's: it fails for all
    for (const int i : job.compressors) channel.send(failure(i, e.what()));
    return;
  }
  for (size_t i = 0; i < job.compressors.size(); ++i) {
    channel.enter(job.compressors[i]);
    try {
      channel.send(decode(worker, *prefill, i, prompt_ids, job));
    } catch (const std::exception& e) {
      channel.send(failure(job.compressors[i], e.what()));
    }
    prefill->sequences[i].layers.clear();
    channel.enter(-1);
  }
}

}  // namespace

int run_worker() {
  WorkerChannel channel;
  const auto set_up = channel.receive();
  if (!set_up) return 0;
  std::optional<Worker> worker;
  try {
    const auto settings = set_up->get<WorkerSetUp>();
    at::set_num_threads(static_cast<int>(settings.threads));
    worker.emplace(settings);
    channel.send({{"ready", true}});
  } catch (const std::exception& e) {
    channel.send({{"ready", false}, {"error", e.what()}});
    return 3;
  }
  while (const auto message = channel.receive()) {
    run_job(*worker, message->get<Job>(), channel);
    channel.send({{"done", true}});
  }
  return 0;
}

}  // namespace kvc
