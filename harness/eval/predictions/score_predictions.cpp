#include "predictions/score_predictions.h"

#include <nlohmann/json.hpp>

#include "text/utf8.h"

namespace kvc {
void check_gold(const Extractor& extractor, const Gold& gold) {
  KVC_CHECK(!extractor.scorer->needs_classes || !gold.classes.empty(), "extractor '", extractor.name, "' compares by '",
            extractor.scorer->name, "', and the line has no classes");
  for (const auto& answer : gold.answers) {
    KVC_CHECK(gold_answer(extractor, answer), "extractor '", extractor.name, "' finds no answer in the gold ",
              in_quotes(answer));
  }
}

PredictionScores score_predictions(const TaskSpec& spec, const Extractor& extractor,
                                   const std::vector<Prediction>& predictions, const std::filesystem::path& file,
                                   AnswerScorer& scorer) {
  PredictionScores scores{spec.name, extractor.name, extractor.scorer->metric, {}};
  for (const auto& prediction : predictions) {
    try {
      check_gold(extractor, prediction.gold);
      auto answer = prediction.is_null ? std::nullopt
                                       : extract_answer(extractor, scored_text(spec, extractor, prediction.generation));
      const double score = prediction.is_null ? 0 : scorer.score(extractor, answer, prediction.gold);
      scores.sum += score;
      scores.n_no_answer += !answer;
      scores.samples.push_back({prediction.line, std::move(answer), score});
    } catch (const EnvironmentError&) {
      throw;
    } catch (const Error& error) {
      throw Error(concat(file.string(), ":", prediction.line, ":1: error: ", error.what()));
    }
  }
  return scores;
}

std::string scores_json(const PredictionScores& scores) {
  auto per_sample = nlohmann::ordered_json::array();
  for (const auto& sample : scores.samples) per_sample.push_back(sample.score);
  return nlohmann::ordered_json{{"task", scores.task},           {"metric", scores.metric},
                                {"extractor", scores.extractor}, {"score", scores.percent()},
                                {"n", scores.samples.size()},    {"n_no_answer", scores.n_no_answer},
                                {"per_sample", per_sample}}
      .dump();
}

}  // namespace kvc
