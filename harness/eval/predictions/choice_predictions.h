// lm-eval's samples of log-likelihoods, as its 0.4 writes them: a line a question, with
//   resps      a [[log-likelihood, is greedy]] a choice, as numbers or in quotes ("-1.25", "False")
//   arguments  {"gen_args_0": {"arg_0": context, "arg_1": continuation}, ...}, one a choice
//   target     the right choice: its number from 0, or its text
//   acc, acc_norm  lm-eval's own scores of the question
#pragma once

#include "predictions/prediction_line.h"
#include "predictions/predictions.h"
#include "predictions/score_predictions.h"

namespace kvc {

// Throws Error file:line for what is missing or of another kind, another number of choices than the task's, a target
// that is none of them, and for conditional likelihoods less unconditional ones (acc_mutual_info).
Prediction read_choice_line(const TaskSpec& spec, const PredictionLine& line);

// The task's scores that such samples hold enough for: shares of right choices that need no number of tokens.
std::vector<std::string> scores_of_likelihoods(const ChoiceSpec& spec);

// One of these. Throws Error file:line where a line's own score is another: it was made by another rule.
PredictionScores score_choice_predictions(const TaskSpec& spec, const std::string& score,
                                          const std::vector<Prediction>& predictions,
                                          const std::filesystem::path& file);

}  // namespace kvc
