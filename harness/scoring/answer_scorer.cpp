#include "scoring/answer_scorer.h"

#include <algorithm>

namespace kvc {

double AnswerScorer::score(const Extractor& extractor, const std::optional<std::string>& answer, const Gold& gold) {
  if (!answer) return 0;
  const auto& scorer = *extractor.scorer;
  if (scorer.needs_words && !words_) words_ = std::make_unique<const ChineseWords>(jieba_);
  double best = 0;
  for (const auto& text : gold.answers) {
    const auto expected = gold_answer(extractor, text);
    if (expected) best = std::max(best, scorer.score({*answer, *expected, gold.classes, words_.get()}));
  }
  return best;
}

}  // namespace kvc
