#include "scoring/chinese_words.h"

#include <algorithm>
#include <cstdlib>

#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

bool is_ascii_alnum(char32_t c) {
  return c < 0x80 && ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'));
}
bool is_han(char32_t c) { return c >= WordModel::kFirst && c <= WordModel::kLast; }

// The characters that the dictionary is asked about; all others stand alone.
bool is_block_char(char32_t c) {
  return is_han(c) || is_ascii_alnum(c) || c == '+' || c == '#' || c == '&' || c == '.' || c == '_' || c == '%' ||
         c == '-';
}

// End of [a-zA-Z0-9]+(.[0-9]+)?%? from `begin`, which is a letter or digit.
size_t end_of_ascii_word(std::u32string_view text, size_t begin) {
  const auto is_digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  size_t end = begin;
  while (end < text.size() && is_ascii_alnum(text[end])) ++end;
  if (end < text.size() && text[end] == '.' && is_digit(end + 1)) {
    ++end;
    while (is_digit(end)) ++end;
  }
  return end < text.size() && text[end] == '%' ? end + 1 : end;
}

// Letters, numbers with a fraction or percent sign, and what stands between them.
void cut_ascii(std::u32string_view text, std::vector<std::u32string>& words) {
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    if (is_ascii_alnum(text[begin])) {
      end = end_of_ascii_word(text, begin);
    } else {
      while (end < text.size() && !is_ascii_alnum(text[end])) ++end;
    }
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
}

// What may precede a state: B after E, S; E after B, M; M after M, B; S after S, E.
constexpr std::array<std::array<WordModel::State, 2>, WordModel::kNStates> kBefore = {{
    {WordModel::kE, WordModel::kS},
    {WordModel::kB, WordModel::kM},
    {WordModel::kB, WordModel::kM},
    {WordModel::kE, WordModel::kS},
}};

// The likeliest states of a run of Han characters; of equals the one with the later letter.
std::vector<WordModel::State> likeliest_states(const WordModel& model, std::u32string_view run) {
  using State = WordModel::State;
  std::vector<std::array<State, WordModel::kNStates>> came_from(run.size());
  WordModel::Row score{};
  for (int y = 0; y < WordModel::kNStates; ++y)
    score[y] = model.start[y] + model.emission[run[0] - WordModel::kFirst][y];
  for (size_t t = 1; t < run.size(); ++t) {
    const auto& emission = model.emission[run[t] - WordModel::kFirst];
    WordModel::Row next{};
    for (int y = 0; y < WordModel::kNStates; ++y) {
      const auto [first, second] = kBefore[y];
      const double a = score[first] + model.transition[first][y] + emission[y];
      const double b = score[second] + model.transition[second][y] + emission[y];
      came_from[t][y] = b >= a ? second : first;
      next[y] = b >= a ? b : a;
    }
    score = next;
  }
  std::vector<State> states(run.size());
  State state = score[WordModel::kS] >= score[WordModel::kE] ? WordModel::kS : WordModel::kE;
  for (size_t t = run.size(); t-- > 0;) {
    states[t] = state;
    if (t > 0) state = came_from[t][state];
  }
  return states;
}

}  // namespace

ChineseWords::ChineseWords(const std::filesystem::path& folder) try
    : dictionary_(folder / "dict.txt"), model_(WordModel::load(folder / "finalseg")) {
} catch (const Error& error) {
  throw EnvironmentError(
      concat("Chinese text is scored with the dictionary of the Python package jieba 0.42.1, looked "
             "for in '",
             folder.string(), "': ", error.what(), "; './kvc setup' installs it, KVC_JIEBA names another place"));
}

bool ChineseWords::is_word(std::u32string_view text) const {
  uint32_t node = PrefixDictionary::kRoot;
  for (const char32_t c : text) {
    node = dictionary_.child(node, c);
    if (node == PrefixDictionary::kNone) return false;
  }
  return dictionary_.is_word(node);
}

// Where the word that begins at each place ends, on the path of the largest product of word frequencies.
std::vector<size_t> ChineseWords::best_path(std::u32string_view block) const {
  std::vector<double> score(block.size() + 1);
  std::vector<size_t> end(block.size());
  const double log_total = dictionary_.log_total();
  for (size_t begin = block.size(); begin-- > 0;) {
    bool has_word = false;
    uint32_t node = PrefixDictionary::kRoot;
    for (size_t i = begin; i < block.size(); ++i) {
      node = dictionary_.child(node, block[i]);
      if (node == PrefixDictionary::kNone) break;
      if (!dictionary_.is_word(node)) continue;
      const double candidate = dictionary_.log_count(node) - log_total + score[i + 1];
      if (has_word && candidate < score[begin]) continue;  // of equals the longer word
      has_word = true;
      score[begin] = candidate;
      end[begin] = i + 1;
    }
    if (has_word) continue;
    score[begin] = 0.0 - log_total + score[begin + 1];  // an unknown character counts as seen once
    end[begin] = begin + 1;
  }
  return end;
}

void ChineseWords::cut_by_model(std::u32string_view run, Words& words) const {
  const auto states = likeliest_states(model_, run);
  size_t begin = 0, next = 0;
  for (size_t i = 0; i < run.size(); ++i) {
    if (states[i] == WordModel::kB) begin = i;
    if (states[i] != WordModel::kE && states[i] != WordModel::kS) continue;
    const size_t first = states[i] == WordModel::kS ? i : begin;
    words.emplace_back(run.substr(first, i + 1 - first));
    next = i + 1;
  }
  if (next < run.size()) words.emplace_back(run.substr(next));
}

// A run of characters that the dictionary left single.
void ChineseWords::cut_unknown(std::u32string_view run, Words& words) const {
  if (run.size() <= 1 || is_word(run)) {
    for (const char32_t c : run) words.emplace_back(1, c);
    return;
  }
  for (size_t begin = 0; begin < run.size();) {
    size_t end = begin;
    while (end < run.size() && is_han(run[end]) == is_han(run[begin])) ++end;
    const auto part = run.substr(begin, end - begin);
    is_han(run[begin]) ? cut_by_model(part, words) : cut_ascii(part, words);
    begin = end;
  }
}

void ChineseWords::cut_block(std::u32string_view block, Words& words) const {
  const auto ends = best_path(block);
  size_t unknown = 0;  // where the run of single characters before `begin` starts
  for (size_t begin = 0; begin < block.size(); begin = ends[begin]) {
    if (ends[begin] == begin + 1) continue;
    cut_unknown(block.substr(unknown, begin - unknown), words);
    words.emplace_back(block.substr(begin, ends[begin] - begin));
    unknown = ends[begin];
  }
  cut_unknown(block.substr(unknown), words);
}

std::vector<std::u32string> ChineseWords::cut(std::u32string_view text) const {
  Words words;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && is_block_char(text[end])) ++end;
    if (end > begin) {
      cut_block(text.substr(begin, end - begin), words);
    } else {
      end = begin + (text.substr(begin).starts_with(U"\r\n") ? 2 : 1);
      words.emplace_back(text.substr(begin, end - begin));
    }
    begin = end;
  }
  return words;
}

std::filesystem::path jieba_folder() {
  if (const char* folder = std::getenv("KVC_JIEBA")) return folder;
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "jieba";
}

}  // namespace kvc
