// One extractor's scores over a file of predictions.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "predictions/predictions.h"
#include "scoring/answer_scorer.h"

namespace kvc {

struct PredictionScore {
  int64_t line = 0;
  std::optional<std::string> answer;
  double score = 0;  // 0 to 1
};

struct PredictionScores {
  std::string task, extractor, metric;
  std::vector<PredictionScore> samples;
  double sum = 0;
  int64_t n_no_answer = 0;
  double percent() const { return 100 * sum / static_cast<double>(samples.size()); }
};

// Throws Error when the extractor cannot read a gold, or lacks the classes that its scorer needs.
void check_gold(const Extractor& extractor, const Gold& gold);

// Throws Error file:line when a gold cannot be read, classes are missing, or a pattern runs into its match limit.
PredictionScores score_predictions(const TaskSpec& spec, const Extractor& extractor,
                                   const std::vector<Prediction>& predictions, const std::filesystem::path& file,
                                   AnswerScorer& scorer);

// {"task", "metric", "extractor", "score" (percent), "n", "n_no_answer", "per_sample" (0 to 1)} on one line.
std::string scores_json(const PredictionScores& scores);

}  // namespace kvc
