#include "scoring/rouge.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "scoring/unicode.h"

namespace kvc {
namespace {

using WordId = uint32_t;
using Sentence = std::vector<WordId>;

// Words numbered over both texts: sets of words become flags.
class Vocabulary {
 public:
  // Split at full stops; empty pieces go, a blank one is the one empty word.
  std::vector<Sentence> sentences(std::u32string_view text) {
    std::vector<Sentence> result;
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(U'.', begin), text.size());
      if (end > begin) result.push_back(sentence(text.substr(begin, end - begin)));
      begin = end + 1;
    }
    return result;
  }

  size_t size() const { return ids_.size(); }

 private:
  Sentence sentence(std::u32string_view piece) {
    Sentence words;
    for (const auto& word : split_at_space(piece)) words.push_back(id(word));
    if (words.empty()) words.push_back(id({}));
    return words;
  }

  WordId id(std::u32string_view word) { return ids_.try_emplace(word, static_cast<WordId>(ids_.size())).first->second; }

  std::unordered_map<std::u32string_view, WordId> ids_;
};

size_t count_distinct(const std::vector<Sentence>& sentences, size_t n_words) {
  std::vector<bool> seen(n_words);
  size_t n = 0;
  for (const auto& sentence : sentences) {
    for (const auto word : sentence) {
      n += !seen[word];
      seen[word] = true;
    }
  }
  return n;
}

// Lengths of longest common subsequences of all prefixes; row i, column j at [i * (m + 1) + j].
void fill_table(const Sentence& x, const Sentence& y, std::vector<uint16_t>& table) {
  const size_t width = y.size() + 1;
  table.assign((x.size() + 1) * width, 0);
  for (size_t i = 1; i <= x.size(); ++i) {
    const uint16_t* above = &table[(i - 1) * width];
    uint16_t* row = &table[i * width];
    for (size_t j = 1; j <= y.size(); ++j) {
      row[j] = x[i - 1] == y[j - 1] ? static_cast<uint16_t>(above[j - 1] + 1) : std::max(above[j], row[j - 1]);
    }
  }
}

// Marks the words of one longest common subsequence, the one that the package reconstructs: on a tie it goes back in y.
// Returns false when that takes more than `max_depth` calls of the package's recursion.
bool mark_common(const Sentence& x, const Sentence& y, size_t max_depth, std::vector<uint16_t>& table,
                 std::vector<bool>& marked) {
  if (std::min(x.size(), y.size()) >= max_depth) return false;  // each call takes at most one off each
  fill_table(x, y, table);
  const size_t width = y.size() + 1;
  size_t n_calls = 1;
  for (size_t i = x.size(), j = y.size(); i > 0 && j > 0; ++n_calls) {
    if (n_calls == max_depth) return false;
    if (x[i - 1] == y[j - 1]) {
      marked[x[i - 1]] = true;
      --i, --j;
    } else if (table[(i - 1) * width + j] > table[i * width + j - 1]) {
      --i;
    } else {
      --j;
    }
  }
  return true;
}

}  // namespace

double rouge_l(std::u32string_view prediction, std::u32string_view gold, int max_depth) {
  Vocabulary vocabulary;
  const auto predicted = vocabulary.sentences(prediction), expected = vocabulary.sentences(gold);
  if (predicted.empty() || expected.empty()) return 0;
  std::vector<bool> common(vocabulary.size());
  std::vector<uint16_t> table;
  for (const auto& x : expected) {
    for (const auto& y : predicted) {
      if (!mark_common(x, y, static_cast<size_t>(max_depth), table, common)) return 0;
    }
  }
  const auto n_common = static_cast<double>(std::count(common.begin(), common.end(), true));
  const double recall = n_common / static_cast<double>(count_distinct(expected, vocabulary.size()));
  const double precision = n_common / static_cast<double>(count_distinct(predicted, vocabulary.size()));
  return 2.0 * ((precision * recall) / (precision + recall + 1e-8));
}

}  // namespace kvc
