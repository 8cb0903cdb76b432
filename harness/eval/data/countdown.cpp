// Numbers that are combined to reach a target, and the depth-first search that finds out how, line by line.
#include <algorithm>

#include "data/makers.h"
#include "data/random.h"
#include "kvc/check.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using Json = nlohmann::json;
using Numbers = std::vector<int64_t>;

constexpr int64_t kMostTries = 200'000;

struct Countdown {
  MakerSettings settings;
  int64_t n_numbers = 4, most = 50;  // numbers are 2 to `most`
  int64_t limit = 2000;              // larger results are left alone
  int64_t n_examples = 0, example_lines = 1;
  std::string where;
};

std::string spaced(const Numbers& numbers) {
  std::string text;
  for (const auto number : numbers) text += (text.empty() ? "" : " ") + std::to_string(number);
  return text;
}

// The first number with the second, then the third, ..., the second with the third, ...; of each pair, the larger one
// first, + - * and, without a remainder, /; the result stands in front of what is left.
class Search {
 public:
  Search(int64_t target, int64_t limit, size_t most_lines) : target_(target), limit_(limit), most_lines_(most_lines) {}

  bool run(const Numbers& numbers) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      for (size_t j = i + 1; j < numbers.size(); ++j) {
        Numbers left;
        for (size_t k = 0; k < numbers.size(); ++k) {
          if (k != i && k != j) left.push_back(numbers[k]);
        }
        const auto a = std::max(numbers[i], numbers[j]), b = std::min(numbers[i], numbers[j]);
        for (const char sign : {'+', '-', '*', '/'}) {
          if (sign == '/' && (b == 0 || a % b != 0)) continue;
          if (attempt(a, sign, b, left)) return true;
          if (lines_.size() > most_lines_) return false;
        }
      }
    }
    return false;
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  bool attempt(int64_t a, char sign, int64_t b, const Numbers& left) {
    const int64_t result = sign == '+' ? a + b : sign == '-' ? a - b : sign == '*' ? a * b : a / b;
    const auto equation = concat(a, " ", std::string(1, sign), " ", b, " = ", result, ": ");
    if (left.empty()) {
      lines_.push_back(equation + (result == target_ ? "yes" : "no"));
      return result == target_;
    }
    if (result > limit_) {
      lines_.push_back(equation + "too large");
      return false;
    }
    Numbers next{result};
    next.insert(next.end(), left.begin(), left.end());
    lines_.push_back(equation + spaced(next));
    return run(next);
  }

  int64_t target_, limit_;
  size_t most_lines_;
  std::vector<std::string> lines_;
};

struct Puzzle {
  std::string numbers, target, search;
};

class CountdownMaker final : public QuestionMaker {
 public:
  explicit CountdownMaker(Countdown spec) : spec_(std::move(spec)) {
    Random random(spec_.settings.seed);
    for (int64_t i = 0; i < spec_.n_examples; ++i) {
      const auto example = draw(spec_.example_lines, random);
      examples_ +=
          concat("Numbers: ", example.numbers, "\nTarget: ", example.target, "\nSearch:\n", example.search, "\n\n");
    }
  }

  Growth growth() const override { return {}; }

  Json make(int64_t n_units, int64_t index) const override {
    auto random = random_of(spec_.settings.seed, static_cast<uint64_t>(index) + 1);
    const auto puzzle = draw(n_units, random);
    return {{"numbers", puzzle.numbers}, {"target", puzzle.target}, {"answer", puzzle.search}, {"examples", examples_}};
  }

 private:
  // One whose search has three quarters of so many lines, or up to as many.
  Puzzle draw(int64_t n_lines, Random& random) const {
    for (int64_t i = 0; i < kMostTries; ++i) {
      Numbers numbers;
      for (int64_t k = 0; k < spec_.n_numbers; ++k) {
        numbers.push_back(2 + static_cast<int64_t>(random.below(static_cast<uint64_t>(spec_.most - 1))));
      }
      const auto target = draw_target(numbers, random);
      Search search(target, spec_.limit, static_cast<size_t>(n_lines));
      if (!search.run(numbers)) continue;
      const auto n = static_cast<int64_t>(search.lines().size());
      if (n * 4 < n_lines * 3 || n > n_lines) continue;
      return {spaced(numbers), std::to_string(target), join(search.lines(), "\n")};
    }
    throw Error(concat(spec_.where, ": error: no search of about ", n_lines, " lines was found for ", spec_.n_numbers,
                       " numbers to ", spec_.most));
  }

  int64_t draw_target(Numbers numbers, Random& random) const {
    while (numbers.size() > 1) {
      random.shuffle(numbers);
      const auto a = std::max(numbers[0], numbers[1]), b = std::min(numbers[0], numbers[1]);
      const auto sign = random.below(4);
      numbers.erase(numbers.begin());
      const bool divides = b != 0 && a % b == 0;
      const bool is_small = a * b <= spec_.limit;
      numbers[0] = sign == 0 ? a - b : sign == 1 && is_small ? a * b : sign == 2 && divides ? a / b : a + b;
    }
    return numbers[0];
  }

  Countdown spec_;
  std::string examples_;
};

}  // namespace

ReadMaker read_countdown(YamlMap& map, const MakerSettings& settings) {
  Countdown spec;
  spec.settings = settings;
  spec.where = map.value().where();
  spec.n_numbers = map.optional_integer("numbers", 2, 5, 4);
  spec.most = map.optional_integer("most", 2, 1000, 50);
  spec.limit = map.optional_integer("limit", 1, 1'000'000, 2000);
  if (const auto examples = map.optional("examples")) {
    auto of_examples = examples->map();
    spec.n_examples = of_examples.required_integer("n", 1, 100);
    spec.example_lines = of_examples.required_integer("lines", 1, 1000);
    of_examples.reject_unknown();
  }
  return {[spec](const MakerPlace&) { return std::make_unique<const CountdownMaker>(spec); }, {}};
}

}  // namespace kvc
