// A text of coded words whose frequencies fall with a power of their rank; the first rank is noise.
#include <algorithm>
#include <cmath>
#include <set>

#include "data/drawn_text.h"
#include "data/makers.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using Json = nlohmann::json;

struct CodedWords {
  MakerSettings settings;
  std::string noise;  // in place of the most frequent word
  int64_t n_letters = 1, n_asked = 1;
  double exponent = 2;
  std::optional<int64_t> vocabulary;  // else as many as tokens_per_word says
  int64_t tokens_per_word = 1;
  std::string where;
};

class CodedWordMaker final : public QuestionMaker {
 public:
  CodedWordMaker(CodedWords spec, const MakerPlace& place)
      : spec_(std::move(spec)),
        prompt_tokens_(place.prompt_tokens),
        n_words_(spec_.vocabulary.value_or(prompt_tokens_ / spec_.tokens_per_word)) {
    KVC_CHECK(!place.n_tokens || n_words_ > spec_.n_asked, spec_.where, ": error: a vocabulary of ", n_words_,
              " coded words, expected more than the ", spec_.n_asked, " that are asked for");
    KVC_CHECK(static_cast<double>(n_words_) * 2 <= std::pow(26.0, spec_.n_letters), spec_.where, ": error: ", n_words_,
              " coded words of ", spec_.n_letters, " letters, expected longer ones");
  }

  // As many words as the prompt could have tokens by its letters, and a 32nd part of its tokens more each time.
  Growth growth() const override {
    const auto step = std::max<int64_t>(1, prompt_tokens_ / 32);
    return {std::max<int64_t>(1, prompt_tokens_ / spec_.n_letters), step, step};
  }

  Json make(int64_t n_units, int64_t index) const override {
    auto random = random_of(spec_.settings.seed, static_cast<uint64_t>(index));
    auto vocabulary = draw_vocabulary(random);
    vocabulary[0] = spec_.noise;
    std::vector<std::string> text;
    const double n = static_cast<double>(n_units), zeta = std::riemann_zeta(spec_.exponent);
    for (size_t rank = 1; rank <= vocabulary.size(); ++rank) {
      const auto count = n * std::pow(static_cast<double>(rank), -spec_.exponent) / zeta;
      text.insert(text.end(), static_cast<size_t>(count), vocabulary[rank - 1]);
    }
    auto order = spec_.settings.one_order ? Random(spec_.settings.seed) : random;
    order.shuffle(text);
    const auto first = vocabulary.begin() + 1;
    return {{"context", join(text, " ")}, {"answers", std::vector<std::string>(first, first + spec_.n_asked)}};
  }

 private:
  std::vector<std::string> draw_vocabulary(Random& random) const {
    std::set<std::string> used;
    std::vector<std::string> words;
    while (static_cast<int64_t>(words.size()) < n_words_) {
      std::string word;
      for (int64_t i = 0; i < spec_.n_letters; ++i)
        word += static_cast<char>('a' + static_cast<char>(random.below(26)));
      if (used.insert(word).second) words.push_back(std::move(word));
    }
    return words;
  }

  CodedWords spec_;
  int64_t prompt_tokens_, n_words_;
};

}  // namespace

ReadMaker read_coded_words(YamlMap& map, const MakerSettings& settings) {
  CodedWords spec;
  spec.settings = settings;
  spec.where = map.value().where();
  spec.noise = map.required_string("noise");
  spec.n_letters = map.required_integer("letters", 2, 1000);
  spec.n_asked = map.required_integer("asked", 1, 1000);
  spec.exponent = map.optional_real("exponent", 1.01, 100, 2);
  if (const auto vocabulary = map.optional("vocabulary")) {
    spec.vocabulary = vocabulary->integer(spec.n_asked + 1, 1'000'000);
  } else {
    spec.tokens_per_word = map.required_integer("tokens_per_word", 1, 1'000'000);
  }
  return {[spec](const MakerPlace& place) { return std::make_unique<const CodedWordMaker>(spec, place); }, {}};
}

}  // namespace kvc
