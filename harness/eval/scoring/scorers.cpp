#include "scoring/scorers.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "scoring/chinese_words.h"
#include "scoring/edit_similarity.h"
#include "scoring/latex_answer.h"
#include "scoring/rouge.h"
#include "scoring/token_f1.h"
#include "scoring/unicode.h"
#include "text/utf8.h"

namespace kvc {
namespace {

double exact(const ScoreInput& input) { return input.answer == input.gold ? 1 : 0; }

// Digits of other scripts are digits, as in Python's float().
std::string with_ascii_digits(std::string_view text) {
  auto points = to_code_points_replacing(text);
  for (auto& c : points) {
    if (c >= 0x80 && is_decimal_digit(c)) c = U'0' + static_cast<char32_t>(u_charDigitValue(static_cast<UChar32>(c)));
  }
  return to_utf8(points);
}

std::optional<double> parse_number(std::string_view text) {
  const auto ascii = with_ascii_digits(text);
  const char* begin = ascii.data() + (ascii.starts_with('+') ? 1 : 0);
  const char* end = ascii.data() + ascii.size();
  double value = 0;
  const auto [last, error] = std::from_chars(begin, end, value);
  if (last != end || error == std::errc::invalid_argument) return std::nullopt;
  // Beyond the range of a double: infinite or 0, as in Python.
  return error == std::errc::result_out_of_range ? std::strtod(begin, nullptr) : value;
}

// Whatever the case of letters, as Python's lower() has it.
double mentions(const ScoreInput& input) {
  return lower(input.answer).find(lower(input.gold)) != std::string::npos ? 1 : 0;
}

double number(const ScoreInput& input) {
  const auto value = parse_number(input.answer), gold = parse_number(input.gold);
  return value && gold && *value == *gold ? 1 : 0;
}

double latex(const ScoreInput& input) { return is_same_latex(input.answer, input.gold) ? 1 : 0; }

// The share of the gold's lines that stand at the answer's beginning: it ends at the first line that is wrong. Blanks
// at the ends of lines do not count.
double leading_lines(const ScoreInput& input) {
  std::string_view answer = input.answer, gold = input.gold;
  const auto take_line = [](std::string_view& text) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = strip_end(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
  };
  int64_t n = 0, n_right = 0;
  for (bool is_right = true; !gold.empty(); ++n) {
    const auto line = take_line(gold);
    is_right = is_right && !answer.empty() && take_line(answer) == line;
    n_right += is_right;
  }
  return n == 0 ? 0 : static_cast<double>(n_right) / static_cast<double>(n);
}

bool is_number(std::string_view gold) { return parse_number(gold).has_value(); }

double f1(const ScoreInput& input) { return token_f1(input.answer, input.gold); }
double f1_zh(const ScoreInput& input) { return token_f1(input.answer, input.gold, *input.words); }

double rouge_l_of(const ScoreInput& input) {
  return rouge_l(to_code_points_replacing(input.answer), to_code_points_replacing(input.gold));
}

std::u32string words_joined(std::string_view text, const ChineseWords& segmenter) {
  std::u32string joined;
  for (const auto& word : segmenter.cut(to_code_points_replacing(text))) {
    if (!joined.empty()) joined += U' ';
    joined += word;
  }
  return joined;
}

double rouge_l_zh(const ScoreInput& input) {
  return rouge_l(words_joined(input.answer, *input.words), words_joined(input.gold, *input.words), kRougeDepthZh);
}

double edit_similarity(const ScoreInput& input) {
  return percent_similarity(difflib_ratio, to_code_points_replacing(input.answer),
                            to_code_points_replacing(input.gold));
}

double edit_similarity_levenshtein(const ScoreInput& input) {
  return percent_similarity(indel_ratio, to_code_points_replacing(input.answer), to_code_points_replacing(input.gold));
}

// The class names that the answer contains share the point. Names that are part of the gold's own are struck from the
// list while it is walked, as the public script does it: the name after a struck one is not looked at.
double classification(const ScoreInput& input) {
  std::vector<std::string_view> named;
  for (const auto& name : input.classes) {
    if (input.answer.find(name) != std::string_view::npos) named.push_back(name);
  }
  for (size_t i = 0; i < named.size(); ++i) {
    const auto name = named[i];
    if (name == input.gold || input.gold.find(name) == std::string_view::npos) continue;
    named.erase(std::find(named.begin(), named.end(), name));
  }
  const bool has_gold = std::find(named.begin(), named.end(), input.gold) != named.end();
  return has_gold ? 1.0 / static_cast<double>(named.size()) : 0;
}

// The share of the numbers in the answer (runs of digits of any script) that are the gold one, as text.
double number_precision(const ScoreInput& input) {
  const auto text = to_code_points_replacing(input.answer);
  const auto gold = to_code_points_replacing(input.gold);
  int64_t n = 0, n_right = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && is_decimal_digit(text[end])) ++end;
    n += end > begin;
    n_right += end > begin && std::u32string_view(text).substr(begin, end - begin) == gold;
    begin = std::max(end, begin + 1);
  }
  return n == 0 ? 0 : static_cast<double>(n_right) / static_cast<double>(n);
}

// What follows the last "<letter>)" of all options, to the end of the line.
std::string_view option_text(const std::string& options, const std::string& label) {
  const size_t at = options.rfind(label);
  auto text = std::string_view(options);
  if (at != std::string::npos) text.remove_prefix(at + label.size());
  return text.substr(0, text.find('\n'));
}

// Right when the answer holds the gold option's text, or its letter and a bracket, unless it names all of A to D.
double option_mention(const ScoreInput& input) {
  std::string options;
  for (const auto& option : input.classes) options += (options.empty() ? "" : "\n") + option;
  const auto label = std::string(input.gold) + ")";
  const auto holds = [&](std::string_view part) { return input.answer.find(part) != std::string_view::npos; };
  const bool names_all = holds("A)") && holds("B)") && holds("C)") && holds("D)");
  return !names_all && (holds(option_text(options, label)) || holds(label)) ? 1 : 0;
}

constexpr Scorer kScorers[] = {
    {"exact", "accuracy", exact},
    {"match_all", "match_all", mentions, false, false, nullptr, true},
    {"match_part", "match_part", mentions},
    {"number", "accuracy", number, false, false, is_number},
    {"latex", "accuracy", latex, false, false, nullptr, false, 2},
    {"leading_lines", "leading_lines", leading_lines},
    {"option_mention", "accuracy", option_mention, true},
    {"classification", "classification", classification, true},
    {"number_precision", "number_precision", number_precision},
    {"f1", "f1", f1},
    {"f1_zh", "f1_zh", f1_zh, false, true},
    {"rouge_l", "rouge_l", rouge_l_of},
    {"rouge_l_zh", "rouge_l_zh", rouge_l_zh, false, true},
    {"edit_similarity", "edit_similarity", edit_similarity},
    {"edit_similarity_levenshtein", "edit_similarity_levenshtein", edit_similarity_levenshtein},
};

}  // namespace

const Scorer* find_scorer(std::string_view name) {
  for (const auto& scorer : kScorers) {
    if (name == scorer.name) return &scorer;
  }
  return nullptr;
}

std::vector<std::string> scorer_names() {
  std::vector<std::string> names;
  for (const auto& scorer : kScorers) names.push_back(scorer.name);
  return names;
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const auto& scorer : kScorers) {
    if (std::find(names.begin(), names.end(), scorer.metric) == names.end()) names.push_back(scorer.metric);
  }
  return names;
}

}  // namespace kvc
