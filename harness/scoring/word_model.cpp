// The model's tables stand in the package as Python dictionary literals: P={'B': -0.26, ...}, or of dictionaries.
#include <charconv>

#include "kvc/check.h"
#include "scoring/chinese_words.h"
#include "text/files.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr std::u32string_view kLetters = U"BEMS";  // in the order of WordModel::State

// Reads the one dictionary literal of a file: keys are strings of one character, values numbers or dictionaries.
class LiteralReader {
 public:
  explicit LiteralReader(const std::filesystem::path& file) : file_(file), text_(read_file(file)) {
    at_ = text_.find("P={");
    if (at_ == std::string::npos) at_ = 0;
    expect("P=");
  }

  // Calls visit(key) with the reader standing at the key's value, which visit must read.
  template <class Visit>
  void dictionary(Visit visit) {
    expect("{");
    while (!take("}")) {
      const char32_t key = character();
      expect(":");
      visit(key);
      if (!take(",")) {
        expect("}");
        return;
      }
    }
  }

  double number() {
    skip_space();
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  WordModel::State state(char32_t letter) {
    const size_t index = kLetters.find(letter);
    if (index == std::u32string_view::npos) fail("one of the states B, E, M, S");
    return static_cast<WordModel::State>(index);
  }

 private:
  char32_t character() {
    expect("'");
    char32_t c = 0;
    if (take("\\u")) {
      const auto digits = std::string_view(text_).substr(at_, 4);
      uint32_t code = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
      if (error != std::errc() || end != digits.data() + 4) fail("four hexadecimal digits");
      c = code;
      at_ += 4;
    } else {
      const size_t end = text_.find('\'', at_);
      if (end == std::string::npos) fail("a quoted character");
      const auto points = to_code_points_replacing(std::string_view(text_).substr(at_, end - at_));
      if (points.size() != 1) fail("one character in quotes");
      c = points[0];
      at_ = end;
    }
    expect("'");
    return c;
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }

  bool take(std::string_view mark) {
    skip_space();
    if (!std::string_view(text_).substr(at_).starts_with(mark)) return false;
    at_ += mark.size();
    return true;
  }

  void expect(std::string_view mark) {
    if (!take(mark)) fail(concat("'", mark, "'"));
  }

  [[noreturn]] void fail(const std::string& expected) {
    throw Error(concat("'", file_.string(), "' at byte ", at_, ": expected ", expected));
  }

  std::filesystem::path file_;
  std::string text_;
  size_t at_ = 0;
};

}  // namespace

WordModel WordModel::load(const std::filesystem::path& folder) {
  WordModel model;
  Row never;
  never.fill(kNever);
  model.start = never;
  model.transition.fill(never);
  model.emission.assign(kLast - kFirst + 1, never);
  LiteralReader start(folder / "prob_start.py");
  start.dictionary([&](char32_t letter) { model.start[start.state(letter)] = start.number(); });
  LiteralReader transition(folder / "prob_trans.py");
  transition.dictionary([&](char32_t from) {
    auto& row = model.transition[transition.state(from)];
    transition.dictionary([&](char32_t to) { row[transition.state(to)] = transition.number(); });
  });
  LiteralReader emission(folder / "prob_emit.py");
  emission.dictionary([&](char32_t letter) {
    const auto state = emission.state(letter);
    emission.dictionary([&](char32_t c) {
      const double value = emission.number();
      if (c >= kFirst && c <= kLast) model.emission[c - kFirst][state] = value;  // the model sees no others
    });
  });
  return model;
}

}  // namespace kvc
