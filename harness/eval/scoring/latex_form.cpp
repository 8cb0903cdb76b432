#include "scoring/latex_form.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

namespace kvc {
namespace {

constexpr int kMostDeep = 100;       // groups in groups; each level copies its text once
constexpr int kMostShifted = 1'000;  // digits that a power of ten moves the point by

struct NoForm {};

struct Piece {
  enum class Kind { kNumber, kOperand, kFraction, kFunction, kSign, kOperator, kTimes, kOpen, kClose };
  Kind kind = Kind::kOperand;
  std::string text, below = "", above = "";
  int depth = 0;  // of fractions in it

  bool has_scripts() const { return !below.empty() || !above.empty(); }
  bool is(Kind of, std::string_view name) const { return kind == of && text == name && !has_scripts(); }
};
using PieceKind = Piece::Kind;
using Pieces = std::vector<Piece>;

PieceKind kind_of_token(const LatexToken& token) {
  using Set = std::set<std::string_view>;
  static const Set kSigns = {"+", "-", "\\pm", "\\mp"};
  static const Set kOperators = {"=",          "<",          ">",          "\\le",         "\\ge",
                                 "\\ne",       "\\approx",   "\\equiv",    "\\in",         "\\notin",
                                 "\\cup",      "\\cap",      "\\to",       "\\subset",     ",",
                                 ";",          ":",          "&",          "\\\\",         "/",
                                 "\\setminus", "\\sim",      "\\wedge",    "\\vee",        "\\cong",
                                 "\\perp",     "\\parallel", "\\subseteq", "\\Rightarrow", "\\Leftrightarrow",
                                 "\\propto"};
  static const Set kFunctions = {"\\sin", "\\cos",    "\\tan",    "\\cot",    "\\sec", "\\csc", "\\log", "\\ln",
                                 "\\exp", "\\arcsin", "\\arccos", "\\arctan", "\\lim", "\\max", "\\min", "\\gcd"};
  if (kSigns.contains(token.name)) return PieceKind::kSign;
  if (kOperators.contains(token.name)) return PieceKind::kOperator;
  if (kFunctions.contains(token.name)) return PieceKind::kFunction;
  if (token.name == "\\cdot") return PieceKind::kTimes;
  const int step = bracket_step(token);
  return step > 0 ? PieceKind::kOpen : step < 0 ? PieceKind::kClose : PieceKind::kOperand;
}

// Of a sign or factor that comes after such a piece, nothing is before it.
bool begins_term(const Piece* before) {
  return !before || before->kind == PieceKind::kOpen || before->kind == PieceKind::kOperator;
}

bool is_accent(std::string_view name) {
  static const std::set<std::string_view> kNames = {"\\overline", "\\underline", "\\bar",     "\\vec",     "\\hat",
                                                    "\\tilde",    "\\dot",       "\\ddot",    "\\mathbb",  "\\mathcal",
                                                    "\\overarc",  "\\widebar",   "\\mathscr", "\\mathfrak"};
  return kNames.contains(name);
}

// What may end a term: the sign of nothing is no sign.
bool ends_term(const Piece* after) {
  return !after || after->kind == PieceKind::kClose || after->kind == PieceKind::kOperator ||
         after->kind == PieceKind::kSign;
}

std::string with_scripts(const Piece& piece) {
  auto text = piece.text;
  if (!piece.below.empty()) text += "_{" + piece.below + "}";
  if (!piece.above.empty()) text += "^{" + piece.above + "}";
  return text;
}

// "0012.50" -> "12.5"
std::string plain_number(std::string text) {
  const auto point = text.find('.');
  if (point != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
  }
  text.erase(0, std::min(text.find_first_not_of('0'), text.size()));
  return text.empty() || text[0] == '.' ? "0" + text : text;
}

// The number times 10^power, or nothing where the power is no integer of a few digits.
std::optional<std::string> times_power_of_ten(const std::string& number, const std::string& power) {
  int shift = 0;
  const auto [end, error] = std::from_chars(power.data(), power.data() + power.size(), shift);
  if (error != std::errc() || end != power.data() + power.size() || std::abs(shift) > kMostShifted) return std::nullopt;
  const auto point = std::min(number.find('.'), number.size());
  auto digits = number.substr(0, point) + (point < number.size() ? number.substr(point + 1) : "");
  auto at = static_cast<int64_t>(point) + shift;
  if (at < 0) digits.insert(0, static_cast<size_t>(-at), '0'), at = 0;
  if (at > static_cast<int64_t>(digits.size())) digits.append(static_cast<size_t>(at) - digits.size(), '0');
  return plain_number(digits.substr(0, static_cast<size_t>(at)) + "." + digits.substr(static_cast<size_t>(at)));
}

// A number, times and a power of ten; nothing where pieces[at] begins no such.
std::optional<std::string> scientific(const Pieces& pieces, size_t at) {
  const auto& number = pieces[at];
  if (number.kind != PieceKind::kNumber || number.has_scripts() || at + 2 >= pieces.size()) return std::nullopt;
  const auto& power = pieces[at + 2];
  const bool is_power = pieces[at + 1].kind == PieceKind::kTimes && power.text == "10" && power.below.empty();
  return is_power ? times_power_of_ten(number.text, power.above) : std::nullopt;
}

class Joiner {
 public:
  explicit Joiner(const Pieces& pieces) : pieces_(pieces) {}

  std::string join() {
    for (size_t at = 0; at < pieces_.size(); ++at) {
      if (is_left_out(at)) continue;
      if (auto number = scientific(pieces_, at)) {
        add(*number, PieceKind::kNumber);
        at += 2;
      } else {
        add(with_scripts(pieces_[at]), pieces_[at].kind);
      }
    }
    return std::move(text_);
  }

 private:
  const Piece* at_or_none(size_t at) const { return at < pieces_.size() ? &pieces_[at] : nullptr; }

  bool is_left_out(size_t at) const {
    const auto& piece = pieces_[at];
    const auto* before = at > 0 ? &pieces_[at - 1] : nullptr;
    const auto* after = at_or_none(at + 1);
    if (piece.kind == PieceKind::kTimes) {  // 2 \cdot x, not 2 \cdot 3 nor 2 \cdot \frac{1}{2}
      return before && after && !begins_term(before) && before->kind != PieceKind::kSign &&
             (after->kind == PieceKind::kOperand || after->kind == PieceKind::kFunction ||
              after->kind == PieceKind::kOpen);
    }
    if (piece.kind != PieceKind::kSign || piece.has_scripts() || !begins_term(before)) return false;
    const bool is_zero = after && after->is(PieceKind::kNumber, "0") && ends_term(at_or_none(at + 2));
    return (piece.text == "+" && !ends_term(after)) || (piece.text == "-" && is_zero);
  }

  void add(const std::string& text, PieceKind kind) {
    if (kind == PieceKind::kNumber && last_ == PieceKind::kNumber) text_ += ' ';  // 2 3 is not 23
    if (is_command_ && !text.empty() && std::isalpha(static_cast<unsigned char>(text[0]))) text_ += ' ';  // \pi x
    is_command_ = ends_in_command(text);
    text_ += text;
    last_ = kind;
  }

  static bool ends_in_command(std::string_view text) {
    const auto is_alpha = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
    const auto end = std::find_if_not(text.rbegin(), text.rend(), is_alpha);
    return end != text.rbegin() && end != text.rend() && *end == '\\';
  }

  const Pieces& pieces_;
  std::string text_;
  std::optional<PieceKind> last_;
  bool is_command_ = false;  // the text ends in a control word
};

std::string joined(const Pieces& pieces) { return Joiner(pieces).join(); }

// Whether one pair of parentheses encloses all pieces, and no comma is in it alone.
bool is_enclosed(const Pieces& pieces) {
  if (pieces.size() < 2 || !pieces.front().is(PieceKind::kOpen, "(") || !pieces.back().is(PieceKind::kClose, ")")) {
    return false;
  }
  int depth = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    depth += (pieces[i].kind == PieceKind::kOpen) - (pieces[i].kind == PieceKind::kClose);
    if (depth == 0 && i + 1 < pieces.size()) return false;
    if (depth == 1 && pieces[i].kind == PieceKind::kOperator) return false;
  }
  return true;
}

void drop_parentheses(Pieces& pieces) {
  if (!is_enclosed(pieces)) return;
  pieces.pop_back();
  pieces.erase(pieces.begin());
}

// Takes the minus of a single term away, and says whether there was one.
bool take_minus(Pieces& pieces) {
  drop_parentheses(pieces);
  if (pieces.empty() || !pieces.front().is(PieceKind::kSign, "-")) return false;
  int depth = 0;
  for (size_t i = 1; i < pieces.size(); ++i) {
    depth += (pieces[i].kind == PieceKind::kOpen) - (pieces[i].kind == PieceKind::kClose);
    const bool is_of_term = pieces[i].kind != PieceKind::kSign && pieces[i].kind != PieceKind::kOperator;
    if (depth == 0 && !is_of_term) return false;
  }
  pieces.erase(pieces.begin());
  drop_parentheses(pieces);
  return true;
}

int depth_of(const Pieces& pieces) {
  int depth = 0;
  for (const auto& piece : pieces) depth = std::max(depth, piece.depth);
  return depth;
}

// Pieces as they are read, and where the product begins that a slash would divide.
class Run {
 public:
  bool is_empty() const { return pieces_.empty(); }
  bool is_open() const { return !opened_.empty(); }
  const Piece* last() const { return pieces_.empty() ? nullptr : &pieces_.back(); }
  Piece& scripted() {  // what a script belongs to
    if (pieces_.empty() || begins_term(last()) || last()->kind == PieceKind::kSign) pieces_.push_back({});
    return pieces_.back();
  }

  void add(Piece piece) {
    const auto kind = piece.kind;
    const bool is_other_number = kind == PieceKind::kNumber && last() && last()->kind == PieceKind::kNumber;
    if (is_other_number) product_ = pieces_.size();  // 2 1/2
    if (kind == PieceKind::kOpen) opened_.push_back(product_);
    pieces_.push_back(std::move(piece));
    if (kind == PieceKind::kClose && !opened_.empty()) {
      product_ = opened_.back();
      opened_.pop_back();
    } else if (kind == PieceKind::kSign || kind == PieceKind::kOperator || kind == PieceKind::kOpen) {
      product_ = pieces_.size();
    }
  }

  void add_all(Pieces pieces) {
    for (auto& piece : pieces) add(std::move(piece));
  }

  Pieces take_product() {
    Pieces product(std::make_move_iterator(pieces_.begin() + static_cast<long>(product_)),
                   std::make_move_iterator(pieces_.end()));
    pieces_.resize(product_);
    return product;
  }

  // A minus goes before the fraction, where no factor is; there it meets the sign of the term.
  void add_fraction(Pieces above, Pieces below) {
    const int depth = std::max(depth_of(above), depth_of(below)) + 1;
    if (depth > kMostDeep) throw NoForm{};
    const bool is_negative = take_minus(above) != take_minus(below);
    const bool is_moved = is_negative && move_minus();
    product_ = is_negative && is_moved ? pieces_.size() : std::min(product_, pieces_.size());
    auto text =
        "\\frac{" + std::string(is_negative && !is_moved ? "-" : "") + joined(above) + "}{" + joined(below) + "}";
    pieces_.push_back({PieceKind::kFraction, std::move(text), "", "", depth});
  }

  Pieces take() { return std::move(pieces_); }

 private:
  bool move_minus() {
    if (begins_term(last())) {
      pieces_.push_back({PieceKind::kSign, "-"});
    } else if (last()->is(PieceKind::kSign, "+")) {
      pieces_.back().text = "-";
    } else if (last()->is(PieceKind::kSign, "-")) {
      pieces_.pop_back();
      if (!begins_term(last())) pieces_.push_back({PieceKind::kSign, "+"});
    } else {
      return false;
    }
    return true;
  }

  Pieces pieces_;
  size_t product_ = 0;
  std::vector<size_t> opened_;  // products that brackets interrupt
};

class FormReader {
 public:
  explicit FormReader(const LatexTokens& tokens) : tokens_(tokens) {}

  std::string read() { return joined(sequence("")); }

 private:
  struct Deeper {
    explicit Deeper(int& depth) : depth_(depth) {
      if (++depth_ > kMostDeep) throw NoForm{};
    }
    ~Deeper() { --depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    int& depth_;
  };

  bool has(std::string_view name) const { return at_ < tokens_.size() && tokens_[at_].name == name; }
  bool has_script() const { return has("^") || has("_") || has("'"); }

  // To the token `end` and beyond, or to the end of all.
  Pieces sequence(std::string_view end) {
    const Deeper deeper(depth_);
    Run run;
    while (at_ < tokens_.size() && !has(end)) {
      if (has("}")) throw NoForm{};
      if (has("\\over") || has("\\choose")) {
        const auto name = tokens_[at_++].name;
        auto above = run.take(), below = sequence(end);
        Run whole;
        name == "\\over" ? whole.add_fraction(std::move(above), std::move(below)) : add_binomial(whole, above, below);
        return whole.take();
      }
      step(run);
    }
    if (!end.empty() && !has(end)) throw NoForm{};
    at_ += !end.empty();
    return run.take();
  }

  void step(Run& run) {
    const Deeper deeper(depth_);
    const auto& token = tokens_[at_];
    if (token.name == "{") {
      ++at_;
      return run.add_all(sequence("}"));
    }
    if (is_number()) return number(run);
    if (has_script()) return script(run);
    ++at_;
    if (token.name == "\\frac") {
      auto above = argument();
      run.add_fraction(std::move(above), argument());
    } else if (token.name == "\\binom") {
      const auto above = argument();
      add_binomial(run, above, argument());
    } else if (token.name == "\\sqrt" || token.name == "\\surd") {
      root(run, token.name == "\\surd");
    } else if (is_accent(token.name)) {
      run.add({PieceKind::kOperand, token.name + "{" + joined(argument()) + "}"});
    } else if (token.name == "/") {
      slash(run);
    } else {
      run.add({kind_of_token(token), token.name});
    }
  }

  static void add_binomial(Run& run, const Pieces& above, const Pieces& below) {
    run.add({PieceKind::kOperand, "\\binom{" + joined(above) + "}{" + joined(below) + "}"});
  }

  bool is_digit_at(size_t at) const { return at < tokens_.size() && is_digit(tokens_[at]); }
  bool is_accent_at(size_t at) const { return at < tokens_.size() && is_accent(tokens_[at].name); }
  bool is_number() const { return is_digit_at(at_) || (has(".") && (is_digit_at(at_ + 1) || is_accent_at(at_ + 1))); }

  std::string digits() {
    std::string text;
    while (is_digit_at(at_) && (text.empty() || !tokens_[at_].after_space)) text += tokens_[at_++].name;
    return text;
  }

  void number(Run& run) {
    auto text = digits();
    if (has(".")) {
      ++at_;
      text = (text.empty() ? "0" : text) + ".";
      if (is_digit_at(at_) && !tokens_[at_].after_space) text += digits();
    }
    const bool goes_on = is_accent_at(at_) || has("\\dots");  // 0.5\overline{3}
    if (!goes_on || text.find('.') == std::string::npos) text = plain_number(text);
    const bool is_half = text == "0.5" && !goes_on;
    run.add({is_half ? PieceKind::kFraction : PieceKind::kNumber, is_half ? "\\frac{1}{2}" : text});
  }

  void script(Run& run) {
    const auto name = tokens_[at_++].name;
    auto& piece = run.scripted();
    (name == "_" ? piece.below : piece.above) += name == "'" ? "\\prime" : joined(script_argument());
  }

  // In braces, or without them a number, a signed number or letter, what is in parentheses, or one token.
  Pieces script_argument() {
    if (has("{") || has("}") || at_ == tokens_.size()) return argument();
    Run run;
    do {
      step(run);
    } while (at_ < tokens_.size() && !has("}") && (run.is_open() || needs_factor(run)));
    auto pieces = run.take();
    drop_parentheses(pieces);
    return pieces;
  }

  bool needs_factor(const Run& run) const {
    return run.last() && run.last()->is(PieceKind::kSign, "-") && kind_of_token(tokens_[at_]) == PieceKind::kOperand;
  }

  // As TeX takes it: a group, or one token, of a number its first digit.
  Pieces argument() {
    if (at_ == tokens_.size() || has("}")) return {};
    if (has("{")) {
      ++at_;
      return sequence("}");
    }
    if (is_digit_at(at_)) return {{PieceKind::kNumber, tokens_[at_++].name}};
    Run run;
    step(run);
    return run.take();
  }

  void root(Run& run, bool is_character) {
    std::string index;
    if (has("[")) {
      ++at_;
      index = joined(sequence("]"));
    }
    auto of = is_character || has("(") ? script_argument() : argument();
    drop_parentheses(of);
    const auto name = index.empty() || index == "2" ? "\\sqrt" : "\\sqrt[" + index + "]";
    run.add({PieceKind::kOperand, name + "{" + joined(of) + "}"});
  }

  void slash(Run& run) {
    auto above = run.take_product();
    auto below = above.empty() ? Pieces{} : factor();
    if (below.empty()) {
      run.add_all(std::move(above));
      return run.add({PieceKind::kOperator, "/"});
    }
    run.add_fraction(std::move(above), std::move(below));
  }

  // One factor with its sign, its scripts and, of a function, its argument.
  Pieces factor() {
    Run run;
    const auto is_whole = [&] {
      return run.last() && !run.is_open() && run.last()->kind != PieceKind::kSign &&
             run.last()->kind != PieceKind::kFunction && !has_script();
    };
    while (at_ < tokens_.size() && !has("}") && !is_whole()) {
      if (run.is_empty() &&
          (kind_of_token(tokens_[at_]) == PieceKind::kOperator || kind_of_token(tokens_[at_]) == PieceKind::kClose)) {
        return {};
      }
      step(run);
    }
    return run.take();
  }

  const LatexTokens& tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<std::string> latex_form(const LatexTokens& tokens) {
  try {
    return FormReader(tokens).read();
  } catch (const NoForm&) {
    return std::nullopt;
  }
}

}  // namespace kvc
