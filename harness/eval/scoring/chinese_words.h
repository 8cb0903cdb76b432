// Chinese word segmentation, token for token that of the Python package jieba 0.42.1 in its accurate mode with HMM.
// The dictionary and the model are read from the installed package; no Python runs.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kvc {

// Words and their counts; every prefix of a word is known, too.
class PrefixDictionary {
 public:
  static constexpr uint32_t kRoot = 0, kNone = ~uint32_t{0};

  // dict.txt: "word count tag" a line. Throws Error file:line for anything else.
  explicit PrefixDictionary(const std::filesystem::path& file);

  // The node of a node's text and one more character; kNone when no word begins like that.
  uint32_t child(uint32_t node, char32_t c) const;
  double log_count(uint32_t node) const { return log_counts_[node]; }  // of max(count, 1)
  bool is_word(uint32_t node) const { return counts_[node] > 0; }
  double log_total() const { return log_total_; }

 private:
  struct Edge {
    uint64_t key = 0;  // node and character, 0 when free
    uint32_t child = kNone;
  };
  uint32_t add_child(uint32_t node, char32_t c);
  size_t slot(uint64_t key) const;
  void grow();
  std::vector<Edge> edges_;  // open addressing
  size_t n_edges_ = 0;
  std::vector<int64_t> counts_;
  std::vector<double> log_counts_;
  double log_total_ = 0;
};

// The hidden Markov model over B, E, M, S (begin, end, middle, single) in logarithms.
struct WordModel {
  enum State : int { kB, kE, kM, kS, kNStates };  // in the order of their letters: the later one wins a tie
  static constexpr double kNever = -3.14e100;
  static constexpr char32_t kFirst = 0x4E00, kLast = 0x9FD5;

  using Row = std::array<double, kNStates>;
  Row start{};
  std::array<Row, kNStates> transition{};  // [from][to]
  std::vector<Row> emission;               // [character - kFirst][state]

  // finalseg/prob_start.py, prob_trans.py, prob_emit.py: each one dictionary.
  static WordModel load(const std::filesystem::path& folder);
};

class ChineseWords {
 public:
  // `folder` is the package's: dict.txt and finalseg/. Throws EnvironmentError naming it and the command that installs
  // it.
  explicit ChineseWords(const std::filesystem::path& folder);

  // Words in order; joined they are `text`.
  std::vector<std::u32string> cut(std::u32string_view text) const;

 private:
  using Words = std::vector<std::u32string>;
  void cut_block(std::u32string_view block, Words& words) const;
  void cut_unknown(std::u32string_view run, Words& words) const;
  void cut_by_model(std::u32string_view run, Words& words) const;
  std::vector<size_t> best_path(std::u32string_view block) const;
  bool is_word(std::u32string_view text) const;
  PrefixDictionary dictionary_;
  WordModel model_;
};

// KVC_JIEBA, or the folder jieba/ beside the program's bin/, where the set-up puts it.
std::filesystem::path jieba_folder();

}  // namespace kvc
