// Tasks that read a text: its tokens' likelihoods through the compressed cache decide, and how far the distributions
// over the next token are from a reference's; nothing is generated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/yaml_read.h"

namespace kvc {

struct LikelihoodSpec {
  int64_t prompt_tokens = 0;  // of a window: prefilled exactly
  int64_t tokens = 0;         // of a window; those behind the prompt are read one by one, and scored
  int64_t windows = 0;        // the first of all texts; 0: all. A limit: what a window is does not depend on it
  int64_t block = 64;         // scored tokens whose sums are kept together
  // Windows with text between them: where the first begins in a text (`kvc check`, so that tasks share none), and the
  // tokens from one's begin to the next's; the texts are taken in turn. stride 0: one window follows another.
  int64_t offset = 0, stride = 0;
  std::string reference;  // the compressor, with its default options, that the others are compared with
  std::string where;      // in the task file, for messages
};

LikelihoodSpec read_likelihood_spec(const YamlValue& value);

// Sums over scored tokens; of a window, or of a block of it.
struct LikelihoodSums {
  int64_t n_tokens = 0;
  double nll = 0;           // -log p(token), in nats
  double kl = 0;            // KL(reference || this), in nats
  int64_t n_top1_same = 0;  // tokens at which both find the same one most likely
};

// One line of JSON: what is stored as the generation, so that it can be scored again.
std::string likelihood_json(const LikelihoodSums& sums);
LikelihoodSums parse_likelihood_json(const std::string& text);

struct LikelihoodScore {
  std::string name;
  double value = 0;
};

// top1: share of the tokens whose most likely one is the reference's, the headline; then of a token, on average,
// mean_kl and log_likelihood, which are no shares.
std::vector<LikelihoodScore> likelihood_scores(const LikelihoodSums& sums);

}  // namespace kvc
