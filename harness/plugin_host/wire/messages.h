// What parent and worker say to each other: the set-up, jobs and their results, as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "contract/measurement.h"
#include "contract/probe_settings.h"
#include "contract/quantization_choice.h"
#include "contract/sampling.h"
#include "text/json.h"
#include "wire/compressor_choice.h"

namespace kvc {

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
  std::vector<CompressorChoice> compressors;
  std::vector<CompressorChoice> references = {};  // that tasks name: what reads of texts are held against
};

// Other compressors in the place of the set-up's, between jobs. The worker answers {"ready": true}, or false and why.
struct OtherCompressors {
  std::vector<CompressorChoice> use;
};

// A prompt that is prefilled, and what follows it token by token through the caches.
struct ScoredText {
  std::vector<int64_t> prompt_ids;
  std::vector<std::vector<int64_t>> continuations;
  int64_t n_given = 0;  // of each continuation's first ids: read, but not scored
};

// What a probe looks at instead of answering.
struct JobProbe {
  ProbeSettings settings;
  std::vector<int64_t> answer_ids;  // of full precision; empty: the worker computes them
  std::string dump;                 // files "<dump>-<compressor>.safetensors"; "": none
};

// One prompt for some of the compressors. The worker answers with one JobResult per compressor, as they end.
struct Job {
  int64_t id = 0;
  std::vector<int64_t> prompt_ids;
  int64_t n_question_tokens = 0;   // of the prompt, its last: read through the caches, which hold the others compressed
  int64_t n_shared_tokens = 0;     // of the prompt: as many as its task's other prompts begin with
  std::vector<ScoredText> scored;  // instead of prompt_ids: texts whose continuations are scored, nothing is generated
  int64_t reference = -1;          // of the worker's: what each scored token is held against; -1: nothing
  uint64_t sequence_key = 0;
  std::vector<int> compressors;
  std::vector<std::string> stop_strings;
  std::vector<int64_t> stop_ids;  // beside the model's own
  int64_t max_new_tokens = 256, min_new_tokens = 0;
  std::optional<JobProbe> probe;  // the prompt is looked into
  std::vector<int64_t> sizes;     // no prompt: what the caches of so many made tokens each hold
  bool greedy = false;            // whatever sampling the set-up says
};

// How far a worker is, told now and then unasked: {"at": WorkerAt}.
struct WorkerAt {
  // Of the prefill that is under way or was done since it was last told; -1: none.
  int64_t job = -1;
  double prefilled = 0;        // share of the job's prompts that is computed
  int64_t n_tokens = 0;        // of the prompts; those that were brought by an earlier one are not
  double prefill_seconds = 0;  // what the share took
  struct Answer {
    int64_t job;
    int compressor;
    int64_t n_new_tokens;  // of all of its sequences
    double seconds;        // of encoding and decoding; of 0 tokens the prompt's encoding
  };
  std::vector<Answer> answers;  // under way
};

struct JobLikelihood {
  std::vector<double> log_likelihoods;  // of each scored token
  bool is_greedy = false;               // each was the most likely one
  std::vector<double> kl;               // of each, from the reference, in nats; none without a reference
  std::vector<uint8_t> top1_same;       // and whether both find the same token most likely
};

struct JobResult {
  int64_t job = 0;
  int compressor = 0;
  std::string error;  // empty when all went well; the rest holds only then
  std::string text, stop_reason;
  std::vector<int64_t> ids;
  std::vector<std::vector<JobLikelihood>> likelihoods;  // of each scored text, of each of its continuations
  Measurement measured;
  std::vector<ByteRow> bytes;
  std::vector<StageTimeRow> stages;  // of a composition, its own (0) included
  std::vector<ProbeRow> probe;       // of a probe; of the above then job, compressor and error
  std::vector<CacheSize> sizes;      // of a job that asks for them; of the above then job, compressor and error
};

KVC_DECLARE_JSON(Sampling)
KVC_DECLARE_JSON(QuantizationChoice)
KVC_DECLARE_JSON(WorkerSetUp)
KVC_DECLARE_JSON(OtherCompressors)
KVC_DECLARE_JSON(ScoredText)
KVC_DECLARE_JSON(ProbeSettings)
KVC_DECLARE_JSON(JobProbe)
void to_json(nlohmann::json& json, const ProbeRow& row);
void from_json(const nlohmann::json& json, ProbeRow& row);
KVC_DECLARE_JSON(Job)
KVC_DECLARE_JSON(WorkerAt::Answer)
KVC_DECLARE_JSON(WorkerAt)
KVC_DECLARE_JSON(JobLikelihood)
KVC_DECLARE_JSON(ByteRow)
KVC_DECLARE_JSON(StageTimeRow)
void to_json(nlohmann::json& json, const CacheSize& size);
void from_json(const nlohmann::json& json, CacheSize& size);
void to_json(nlohmann::json& json, const Measurement& measured);
void from_json(const nlohmann::json& json, Measurement& measured);
KVC_DECLARE_JSON(JobResult)

}  // namespace kvc
