// Tasks that choose: the likelihoods of given continuations of a context decide, nothing is generated.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/data_spec.h"
#include "data/template.h"

namespace kvc {

struct Record;

struct ChoiceSpec {
  std::vector<Template> texts;              // what follows the context, in the task's fields
  std::optional<FieldSpec> from;            // or: the field that holds the choices' texts
  std::string before;                       // and what stands before each of these
  std::vector<std::string> golds;           // how the gold names each choice; "0", "1", ... where there are none
  bool last_token = false;                  // or: the one choice is the last token of the prompt
  std::optional<std::string> content_free;  // put in place of every field, it gives the likelihoods to calibrate with
  bool after_exemplars = false;             // only the exemplars are prefilled; the rest is read token by token
  std::vector<std::string> scores;          // names of choice_scores(), the first is the headline
};

ChoiceSpec read_choice_spec(const YamlValue& value, const std::vector<std::string>& fields);

// acc, acc_norm, mean_nll, mean_nll_calibrated, greedy, log_likelihood: see tasks/README.md.
const std::vector<std::string>& choice_scores();

// The continuations of one item's context, in order; none for last_token.
std::vector<std::string> choice_texts(const ChoiceSpec& spec, const std::map<std::string, std::string>& fields,
                                      const Record& record);

// The right choice; throws Error naming the record where the gold names none of `n`.
int64_t gold_choice(const ChoiceSpec& spec, const std::string& gold, size_t n, const std::string& where);

// What a model said of one choice.
struct ChoiceLikelihood {
  std::string text;           // the continuation
  double log_likelihood = 0;  // natural, sum over its tokens
  int64_t n_tokens = 0;
  int64_t n_characters = 0;  // code points, without the blank that joins it to the context
  bool is_greedy = false;    // each token was the most likely one
  std::optional<double> content_free_log_likelihood;
};

// Code points, without the blank that joins a choice to its context.
int64_t n_characters(const std::string& choice);

// One line of JSON that holds all of it: what is stored as the generation, so that it can be scored again.
std::string choices_json(const std::vector<ChoiceLikelihood>& choices);
std::vector<ChoiceLikelihood> parse_choices_json(const std::string& text);

struct ChoiceScore {
  std::string answer;  // the text chosen, or the number
  double value = 0;    // 1: right; of log_likelihood the sum itself
};

// One score by its name; of equal likelihoods the first choice wins.
ChoiceScore score_choices(const std::string& score, const std::vector<ChoiceLikelihood>& choices, int64_t gold);

}  // namespace kvc
