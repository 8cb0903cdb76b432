#include "task/likelihood.h"

#include <nlohmann/json.hpp>

namespace kvc {
namespace {

constexpr int64_t kMostTokens = 100'000'000;

}  // namespace

LikelihoodSpec read_likelihood_spec(const YamlValue& value) {
  auto map = value.map();
  LikelihoodSpec spec;
  spec.where = value.where();
  spec.tokens = map.required("tokens").integer(2, kMostTokens);
  const auto prompt = map.required("prompt_tokens");
  spec.prompt_tokens = prompt.integer(1);
  if (spec.prompt_tokens >= spec.tokens) {
    prompt.fail(prompt.name(), " is ", spec.prompt_tokens, ", expected 1 to ", spec.tokens - 1,
                ": likelihood.tokens is ", spec.tokens, ", and some must be left to score");
  }
  if (const auto block = map.optional("block")) spec.block = block->integer(1, kMostTokens);
  if (const auto windows = map.optional("windows")) spec.windows = windows->integer(1, kMostTokens);
  if (const auto stride = map.optional("stride")) spec.stride = stride->integer(spec.tokens, kMostTokens);
  spec.reference = map.required_string("reference");
  map.reject_unknown();
  return spec;
}

std::string likelihood_json(const LikelihoodSums& sums) {
  const nlohmann::ordered_json json = {
      {"n_tokens", sums.n_tokens}, {"nll", sums.nll}, {"kl", sums.kl}, {"n_top1_same", sums.n_top1_same}};
  return json.dump();
}

LikelihoodSums parse_likelihood_json(const std::string& text) {
  LikelihoodSums sums;
  try {
    const auto json = nlohmann::json::parse(text);
    sums = {json.at("n_tokens").get<int64_t>(), json.at("nll").get<double>(), json.at("kl").get<double>(),
            json.at("n_top1_same").get<int64_t>()};
  } catch (const nlohmann::json::exception&) {
    throw Error(concat("expected the sums of a text's likelihoods, found '", text.substr(0, 80), "'"));
  }
  KVC_CHECK(sums.n_tokens > 0, "the sums of a text's likelihoods are over ", sums.n_tokens,
            " tokens, expected 1 or more");
  return sums;
}

std::vector<LikelihoodScore> likelihood_scores(const LikelihoodSums& sums) {
  const auto n = static_cast<double>(sums.n_tokens);
  return {
      {"top1", static_cast<double>(sums.n_top1_same) / n}, {"mean_kl", sums.kl / n}, {"log_likelihood", -sums.nll / n}};
}

}  // namespace kvc
