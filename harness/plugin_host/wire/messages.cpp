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
KVC_DEFINE_JSON(WorkerSetUp, model, dtype, weights, quantization, devices, threads, batch_size, n_workers, share_prefix,
                sampling, compressors, references)
KVC_DEFINE_JSON(OtherCompressors, use)
KVC_DEFINE_JSON(ScoredText, prompt_ids, continuations, n_given)
KVC_DEFINE_JSON(ProbeSettings, measures, n_queries)
KVC_DEFINE_JSON(JobProbe, settings, answer_ids, dump)
KVC_DEFINE_JSON(Job, id, prompt_ids, n_question_tokens, n_shared_tokens, scored, reference, sequence_key, compressors,
                stop_strings, stop_ids, max_new_tokens, min_new_tokens, probe, sizes, greedy)
KVC_DEFINE_JSON(WorkerAt::Answer, job, compressor, n_new_tokens, seconds)
KVC_DEFINE_JSON(WorkerAt, job, prefilled, n_tokens, prefill_seconds, answers)
KVC_DEFINE_JSON(JobLikelihood, log_likelihoods, is_greedy, kl, top1_same)
KVC_DEFINE_JSON(ByteRow, layer, stage, tensor, kind, bytes)
KVC_DEFINE_JSON(StageTimeRow, stage, encode_seconds, attend_seconds)
KVC_DEFINE_JSON(JobResult, job, compressor, error, text, stop_reason, ids, likelihoods, measured, bytes, stages, probe,
                sizes)

}  // namespace kvc
