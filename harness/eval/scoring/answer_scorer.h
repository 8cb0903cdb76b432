// Scores answers, and reads what some scorers need (the Chinese dictionary) when the first of them asks for it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "scoring/chinese_words.h"
#include "scoring/extractor.h"
#include "scoring/gold.h"

namespace kvc {

class AnswerScorer {
 public:
  explicit AnswerScorer(std::filesystem::path jieba = jieba_folder()) : jieba_(std::move(jieba)) {}

  // The best score over the gold answers, or the mean for a scorer that wants them all; 0 for no answer. Throws
  // EnvironmentError when a dictionary is missing.
  double score(const Extractor& extractor, const std::optional<std::string>& answer, const Gold& gold);

 private:
  std::filesystem::path jieba_;
  std::unique_ptr<const ChineseWords> words_;
};

}  // namespace kvc
