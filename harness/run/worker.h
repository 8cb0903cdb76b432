// The worker process: one model, the compressors of a sweep, and a loop over jobs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "generate/sampler.h"
#include "run/experiment.h"

namespace kvc {

struct WorkerCompressor {
  std::string file;        // the plugin's .so
  nlohmann::json options;  // as given; the plugin's defaults fill the rest
};

// The first message to a worker.
struct WorkerSetUp {
  std::string model;    // checkpoint folder
  std::string dtype;    // fp32, fp16, bf16
  std::string weights;  // as dtype says, or int8
  QuantizationChoice quantization;
  std::vector<std::string> devices;  // cpu, cuda:0, ...; each takes an equal run of layers
  int64_t threads = 1;
  int64_t batch_size = 0;    // sequences decoded together; 0: as many as fit
  int64_t n_workers = 1;     // that share the machine's memory
  bool share_prefix = true;  // K and V of a prefix that prompts share are computed once
  Sampling sampling;
  std::vector<WorkerCompressor> compressors;
};

// One prompt for some of the compressors. The worker answers with one JobResult per compressor, as they end.
struct Job {
  int64_t id = 0;
  std::string prompt;
  bool add_special_tokens = true;  // false where the prompt begins with its BOS token
  int64_t n_shared_bytes = 0;      // of the prompt: as many as its task's other prompts begin with
  uint64_t sequence_key = 0;
  std::vector<int> compressors;
  std::vector<std::string> stop_strings;
  int64_t max_new_tokens = 256;
};

struct JobBytes {
  int64_t layer;
  std::string tensor, kind;
  int64_t bytes;
};

struct JobResult {
  int64_t job = 0;
  int compressor = 0;
  std::string error;  // empty when all went well; the rest holds only then
  std::string text, stop_reason;
  std::vector<int64_t> ids;
  int64_t n_prompt_tokens = 0, n_reused_tokens = 0;
  std::vector<JobBytes> bytes;
  int64_t kv_bytes = 0, kv_bytes_fp16 = 0, n_encoded_tokens = 0;
  double paper_bytes = 0;
  double k_error = 0, v_error = 0;
  int64_t weights_bytes = 0, workspace_bytes = 0;
  double prefill_seconds = 0, encode_seconds = 0, attend_seconds = 0, other_seconds = 0;
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Sampling, temperature, top_k, top_p, seed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkerCompressor, file, options)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(QuantizationChoice, weight_bits, group_size, activation_bits, alpha, smoothing_file)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkerSetUp, model, dtype, weights, quantization, devices, threads, batch_size,
                                   n_workers, share_prefix, sampling, compressors)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Job, id, prompt, add_special_tokens, n_shared_bytes, sequence_key, compressors,
                                   stop_strings, max_new_tokens)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(JobBytes, layer, tensor, kind, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(JobResult, job, compressor, error, text, stop_reason, ids, n_prompt_tokens,
                                   n_reused_tokens, bytes, kv_bytes, kv_bytes_fp16, n_encoded_tokens, paper_bytes,
                                   k_error, v_error, weights_bytes, workspace_bytes, prefill_seconds, encode_seconds,
                                   attend_seconds, other_seconds)

// Runs until the parent closes the channel. Returns the process's exit code.
int run_worker();

}  // namespace kvc
