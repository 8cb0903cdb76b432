// A numbered list of words, some more frequent than the others.
#include <algorithm>

#include "data/drawn_text.h"
#include "data/makers.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using Json = nlohmann::json;

struct Repeats {
  int64_t common = 1, rest = 1;
};

struct WordCounts {
  MakerSettings settings;
  std::vector<TaskFile> words;
  int64_t n_common = 1, step = 1;
  Repeats repeats;
  int64_t n_example_words = 0;  // 0: no example
  Repeats example_repeats;
};

struct CountedList {
  std::string list;
  std::vector<std::string> common;
};

std::string numbered(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) text += concat(i == 0 ? "" : " ", i + 1, ". ", words[i]);
  return text;
}

class WordCountMaker final : public QuestionMaker {
 public:
  WordCountMaker(WordCounts spec, const MakerPlace& place)
      : spec_(std::move(spec)), words_(read_words(spec_.words, place.data_dir)) {
    const auto n_least = std::max({spec_.n_common + 1, spec_.step, spec_.n_example_words});
    KVC_CHECK(n_least <= n_words(), spec_.words.front().where, ": error: ", n_words(),
              " different words, expected at least ", n_least);
  }

  Growth growth() const override { return {std::max(spec_.step, spec_.n_common + 1), 1, spec_.step, n_words()}; }

  Json make(int64_t n_units, int64_t index) const override {
    auto random = random_of(spec_.settings.seed, static_cast<uint64_t>(index));
    CountedList example;
    if (spec_.n_example_words > 0) example = draw(spec_.n_example_words, spec_.example_repeats, random);
    const auto made = draw(n_units, spec_.repeats, random);
    return {{"context", made.list},
            {"answers", made.common},
            {"example", example.list},
            {"example_answer", numbered(example.common)}};
  }

 private:
  int64_t n_words() const { return static_cast<int64_t>(words_.size()); }

  CountedList draw(int64_t n, const Repeats& repeats, Random& random) const {
    KVC_CHECK(n <= n_words(), spec_.words.front().where, ": error: a list of ", n, " different words of ", n_words());
    CountedList made;
    std::vector<std::string> list;
    int64_t n_drawn = 0;
    for (const size_t i : random.sample(words_.size(), static_cast<size_t>(n))) {
      const bool is_common = n_drawn++ < spec_.n_common;
      if (is_common) made.common.push_back(words_[i]);
      list.insert(list.end(), static_cast<size_t>(is_common ? repeats.common : repeats.rest), words_[i]);
    }
    auto order = spec_.settings.one_order ? Random(spec_.settings.seed) : random;
    order.shuffle(list);
    made.list = numbered(list);
    return made;
  }

  WordCounts spec_;
  std::vector<std::string> words_;
};

Repeats read_repeats(YamlMap& map) {
  const auto rest = map.required_integer("rest_repeats", 1, 1000);
  return {map.required_integer("common_repeats", rest + 1, 1000), rest};
}

}  // namespace

ReadMaker read_word_counts(YamlMap& map, const MakerSettings& settings) {
  WordCounts spec;
  spec.settings = settings;
  spec.words = read_task_files(map.required("words"));
  spec.n_common = map.required_integer("common", 1, 1000);
  spec.repeats = read_repeats(map);
  spec.step = map.optional_integer("step", 1, 1'000'000, 1);
  if (const auto example = map.optional("example")) {
    auto of_example = example->map();
    spec.n_example_words = of_example.required_integer("words", spec.n_common + 1, 1'000'000);
    spec.example_repeats = read_repeats(of_example);
    of_example.reject_unknown();
  }
  const auto files = spec.words;
  return {[spec](const MakerPlace& place) { return std::make_unique<const WordCountMaker>(spec, place); }, files};
}

}  // namespace kvc
