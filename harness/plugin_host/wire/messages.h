// What parent and worker say to each other: the set-up, jobs and their results, as JSON.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "contract/measurement.h"
#include "contract/prefill_choice.h"
#include "contract/probe_settings.h"
#include "contract/quantization_choice.h"
#include "contract/sampling.h"
#include "contract/stop_rule.h"
#include "contract/token_prompt.h"
#include "text/json.h"
#include "wire/compressor_choice.h"

namespace kvc {

// The first message to a worker.
struct WorkerSetUp {
  std::string model_path;  // checkpoint folder or .gguf file
  std::string dtype;       // fp32, fp16, bf16
  std::string weights;     // as dtype says, or int8
  QuantizationChoice quantization;
  std::vector<std::string> devices;  // cpu, cuda:0, ...; each takes an equal run of layers
  int64_t threads = 1;
  int64_t batch_size = 0;    // sequences decoded together; 0: as many as fit
  int64_t n_workers = 1;     // that share the machine's memory
  bool share_prefix = true;  // K and V of a prefix that prompts share are computed once
  Sampling sampling;
  PrefillChoice prefill;
  double patience = 0;  // seconds that one call of a compressor in its own process may take; 0: any number
  std::vector<CompressorChoice> compressors;
  std::vector<CompressorChoice> references = {};  // that tasks name: what reads of texts are compared with
};

// Other compressors in the place of the set-up's, between jobs. The worker answers {"ready": true}, or false and why.
struct OtherCompressors {
  std::vector<CompressorChoice> use;
};

// What is asked of a worker, by kind; kName: its name on the wire, which its result has too.

// A prompt that is answered.
struct GenerateJob {
  static constexpr const char* kName = "generate";
  TokenPrompt prompt = {};
  StopRule stop = {};
  bool greedy = false;  // whatever sampling the set-up says
};

// Prompts whose continuations are scored.
struct LikelihoodJob {
  static constexpr const char* kName = "likelihoods";
  std::vector<TokenPrompt> prompts = {};
  int64_t reference = -1;  // of the worker's: what each scored token is compared with; -1: nothing
};

// A prompt whose caches are probed while they read the model's answer.
struct ProbeJob {
  static constexpr const char* kName = "probe";
  std::vector<int64_t> prompt_ids = {};
  std::vector<int64_t> answer_ids = {};  // of full precision; empty: the worker computes them
  StopRule stop = {};
  ProbeSettings settings = {};
  std::string dump = {};  // files "<dump>-<compressor>.safetensors"; "": none
};

// Synthetic prompts whose caches' sizes are measured.
struct SizesJob {
  static constexpr const char* kName = "sizes";
  std::vector<int64_t> n_tokens = {};  // of each
};

// One sample for some of the compressors. The worker answers with one JobResult per compressor, as they end.
struct Job {
  int64_t id = 0;
  uint64_t sequence_key = 0;
  std::vector<int> compressors = {};
  std::variant<GenerateJob, LikelihoodJob, ProbeJob, SizesJob> asked = {};
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
  std::vector<double> acceptance;       // and the sum of min(p, q) of both distributions
};

// What caches held and took, over all sequences of a job.
struct CacheResult {
  Measurement measured;
  std::vector<ByteRow> bytes;
  std::vector<StageTimeRow> stages;  // of a composition, its own (0) included
};

struct GenerateResult : CacheResult {
  static constexpr const char* kName = GenerateJob::kName;
  std::string text, stop_reason;
  std::vector<int64_t> ids;
};

struct LikelihoodResult : CacheResult {
  static constexpr const char* kName = LikelihoodJob::kName;
  std::vector<std::vector<JobLikelihood>> likelihoods;  // of each prompt, of each of its continuations
};

struct ProbeResult {
  static constexpr const char* kName = ProbeJob::kName;
  std::vector<ProbeRow> rows = {};
};

struct SizesResult {
  static constexpr const char* kName = SizesJob::kName;
  std::vector<CacheSize> sizes = {};
};

struct FailedResult {
  static constexpr const char* kName = "failed";
  // What became of the compressor's own process.
  enum class Process { lives, died, stuck };
  std::string error = {};
  Process process = Process::lives;
};

// What one compressor made of a job: of the job's kind, or failed.
struct JobResult {
  int64_t job = 0;
  int compressor = 0;
  std::variant<GenerateResult, LikelihoodResult, ProbeResult, SizesResult, FailedResult> answer = {};

  std::string error() const;            // "": it did not fail
  const CacheResult* measured() const;  // null where no sequence was run to its end
};

KVC_DECLARE_JSON(Sampling)
KVC_DECLARE_JSON(QuantizationChoice)
KVC_DECLARE_JSON(WorkerSetUp)
KVC_DECLARE_JSON(OtherCompressors)
KVC_DECLARE_JSON(StopRule)
KVC_DECLARE_JSON(TokenPrompt)
KVC_DECLARE_JSON(ProbeSettings)
KVC_DECLARE_JSON(GenerateJob)
KVC_DECLARE_JSON(LikelihoodJob)
KVC_DECLARE_JSON(ProbeJob)
KVC_DECLARE_JSON(SizesJob)
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
KVC_DECLARE_JSON(GenerateResult)
KVC_DECLARE_JSON(LikelihoodResult)
KVC_DECLARE_JSON(ProbeResult)
KVC_DECLARE_JSON(SizesResult)
KVC_DECLARE_JSON(FailedResult)
KVC_DECLARE_JSON(JobResult)

}  // namespace kvc
