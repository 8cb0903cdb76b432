#include "wire/messages.h"

#include <cmath>
#include <type_traits>

#include "text/optional_json.h"

namespace kvc {
namespace {

template <class Number>
void read_number(const nlohmann::json& json, Number& value) {
  if constexpr (std::is_same_v<Number, double>) {
    value = json.is_null() ? std::nan("") : json.get<double>();
  } else {
    json.get_to(value);
  }
}

// A variant is an object with one field, the name of what it holds.
template <class Variant>
nlohmann::json named(const Variant& variant) {
  return std::visit([](const auto& kind) { return nlohmann::json{{kind.kName, kind}}; }, variant);
}

template <class... Kinds>
void read_named(const nlohmann::json& json, std::variant<Kinds...>& variant) {
  const auto read = [&]<class Kind>(std::type_identity<Kind>) {
    if (json.size() != 1 || !json.contains(Kind::kName)) return false;
    variant = json.at(Kind::kName).template get<Kind>();
    return true;
  };
  if (!(read(std::type_identity<Kinds>()) || ...))
    throw nlohmann::json::other_error::create(501, "expected one kind that is known", &json);
}

}  // namespace

// NaN is null.
void to_json(nlohmann::json& json, const ProbeRow& row) {
  json = {row.measure, row.layer, row.head, row.tensor, row.step, row.value};
}

void from_json(const nlohmann::json& json, ProbeRow& row) {
  json.at(0).get_to(row.measure);
  json.at(1).get_to(row.layer);
  json.at(2).get_to(row.head);
  json.at(3).get_to(row.tensor);
  json.at(4).get_to(row.step);
  read_number(json.at(5), row.value);
}

void to_json(nlohmann::json& json, const Measurement& measured) {
  Measurement::visit(measured, [&](const char* name, const auto& value) { json[name] = value; });
}

void from_json(const nlohmann::json& json, Measurement& measured) {
  Measurement::visit(measured, [&](const char* name, auto& value) { read_number(json.at(name), value); });
}

void to_json(nlohmann::json& json, const CacheSize& size) {
  json = {{"n_tokens", size.n_tokens}, {"error", size.error}};
  CacheSize::visit(size, [&](const char* name, const auto& value) { json[name] = value; });
}

void from_json(const nlohmann::json& json, CacheSize& size) {
  json.at("n_tokens").get_to(size.n_tokens);
  json.at("error").get_to(size.error);
  CacheSize::visit(size, [&](const char* name, auto& value) { json.at(name).get_to(value); });
}

KVC_DEFINE_JSON(Sampling, temperature, top_k, top_p, seed)
KVC_DEFINE_JSON(QuantizationChoice, weight_bits, group_size, activation_bits, alpha, smoothing_file)
KVC_DEFINE_JSON(PrefillChoice, chunk, through_all)
KVC_DEFINE_JSON(WorkerSetUp, model_path, dtype, weights, quantization, devices, threads, batch_size, n_workers,
                share_prefix, sampling, prefill, patience, compressors, references)
KVC_DEFINE_JSON(OtherCompressors, use)
KVC_DEFINE_JSON(StopRule, eos_ids, stop_strings, max_new_tokens, min_new_tokens)
KVC_DEFINE_JSON(TokenPrompt, prompt_ids, continuations, n_given, n_question_tokens, n_shared_tokens)
KVC_DEFINE_JSON(ProbeSettings, measures, n_queries)
KVC_DEFINE_JSON(GenerateJob, prompt, stop, greedy)
KVC_DEFINE_JSON(LikelihoodJob, prompts, reference)
KVC_DEFINE_JSON(ProbeJob, prompt_ids, answer_ids, stop, settings, dump)
KVC_DEFINE_JSON(SizesJob, n_tokens)

void to_json(nlohmann::json& json, const Job& job) {
  json = {{"id", job.id},
          {"sequence_key", job.sequence_key},
          {"compressors", job.compressors},
          {"asked", named(job.asked)}};
}

void from_json(const nlohmann::json& json, Job& job) {
  json.at("id").get_to(job.id);
  json.at("sequence_key").get_to(job.sequence_key);
  json.at("compressors").get_to(job.compressors);
  read_named(json.at("asked"), job.asked);
}

KVC_DEFINE_JSON(WorkerAt::Answer, job, compressor, n_new_tokens, seconds)
KVC_DEFINE_JSON(WorkerAt, job, prefilled, n_tokens, prefill_seconds, answers)
KVC_DEFINE_JSON(JobLikelihood, log_likelihoods, is_greedy, kl, top1_same, acceptance)
KVC_DEFINE_JSON(ByteRow, layer, stage, tensor, kind, bytes)
KVC_DEFINE_JSON(StageTimeRow, stage, encode_seconds, attend_seconds)
KVC_DEFINE_JSON(GenerateResult, measured, bytes, stages, text, stop_reason, ids)
KVC_DEFINE_JSON(LikelihoodResult, measured, bytes, stages, likelihoods)
KVC_DEFINE_JSON(ProbeResult, rows)
KVC_DEFINE_JSON(SizesResult, sizes)
NLOHMANN_JSON_SERIALIZE_ENUM(FailedResult::Process, {{FailedResult::Process::lives, "lives"},
                                                     {FailedResult::Process::died, "died"},
                                                     {FailedResult::Process::stuck, "stuck"}})
void to_json(nlohmann::json& json, const FailedResult& failed) {
  json = {{"error", failed.error}, {"process", failed.process}};
}
void from_json(const nlohmann::json& json, FailedResult& failed) {
  json.at("error").get_to(failed.error);
  failed.process = json.value("process", FailedResult::Process::lives);
}

void to_json(nlohmann::json& json, const JobResult& result) {
  json = {{"job", result.job}, {"compressor", result.compressor}, {"answer", named(result.answer)}};
}

void from_json(const nlohmann::json& json, JobResult& result) {
  json.at("job").get_to(result.job);
  json.at("compressor").get_to(result.compressor);
  read_named(json.at("answer"), result.answer);
}

std::string JobResult::error() const {
  const auto* failed = std::get_if<FailedResult>(&answer);
  return failed ? failed->error : "";
}

const CacheResult* JobResult::measured() const {
  if (const auto* generated = std::get_if<GenerateResult>(&answer)) return generated;
  return std::get_if<LikelihoodResult>(&answer);
}

}  // namespace kvc
