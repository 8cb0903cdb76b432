#include "scoring/answer_scorer.h"

#include <algorithm>

namespace kvc {

double AnswerScorer::score(const Extractor& extractor, const std::optional<std::string>& answer, const Gold& gold) {
  if (!answer) return 0;
  const auto& scorer = *extractor.scorer;
  if (scorer.needs_words && !words_) words_ = std::make_unique<const ChineseWords>(jieba_);
  double best = 0, sum = 0;
  for (const auto& text : gold.answers) {
    const auto expected = gold_answer(extractor, text);
    if (!expected) continue;
    const double score = scorer.score({*answer, *expected, gold.classes, words_.get()});
    best = std::max(best, score);
    sum += score;
  }
  return scorer.wants_all ? sum / static_cast<double>(gold.answers.size()) : best;
}

}  // namespace kvc
