#include "data/haystack.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/random.h"
#include "kvc/check.h"
#include "text/nearest.h"
#include "text/text_file.h"

namespace kvc {
namespace {

int64_t n_words(const std::string& text) {
  std::istringstream words(text);
  int64_t n = 0;
  for (std::string word; words >> word;) ++n;
  return n;
}

std::vector<std::string> read_sentences(const std::filesystem::path& path) {
  std::istringstream text(read_text(path));
  std::vector<std::string> sentences;
  for (std::string line; std::getline(text, line);) {
    if (n_words(line) > 0) sentences.push_back(line);
  }
  KVC_CHECK(sentences.size() >= 2, path.string(), ":1:1: error: ", sentences.size(),
            " sentences of filler, expected at least two, one per line");
  return sentences;
}

std::string fill(const Template& parts, const std::string& key, const std::string& subject) {
  std::string text;
  for (const auto& part : parts) text += !part.is_variable ? part.text : part.text == "key" ? key : subject;
  return text;
}

// Sentences in a drawn order, each after every other once before any comes again, until `n` words are there.
std::vector<std::string> draw_filler(const std::vector<std::string>& sentences, int64_t n, Random& random) {
  std::vector<std::string> drawn;
  std::vector<size_t> order(sentences.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (size_t next = order.size(); n > 0; ++next) {
    if (next >= order.size()) {
      random.shuffle(order);
      next = 0;
    }
    drawn.push_back(sentences[order[next]]);
    n -= n_words(drawn.back());
  }
  if (n < 0 && !drawn.empty()) drawn.pop_back();  // not above the length
  return drawn;
}

nlohmann::json make_one(const Haystack& spec, const std::vector<std::string>& sentences, int64_t length, int64_t depth,
                        Random& random) {
  const auto key =
      spec.keys.empty() ? std::to_string(10'000 + random.below(90'000)) : spec.keys[random.below(spec.keys.size())];
  const auto subject = spec.subjects.empty() ? "" : spec.subjects[random.below(spec.subjects.size())];
  const auto needle = fill(spec.needle, key, subject);
  const int64_t room = length - n_words(needle);
  KVC_CHECK(room >= 0, spec.filler.where, ": error: a text of ", length, " words has no room for the needle ", "of ",
            n_words(needle));
  auto lines = draw_filler(sentences, room, random);
  const auto place = static_cast<std::ptrdiff_t>((lines.size() * static_cast<size_t>(depth) + 50) / 100);
  lines.insert(lines.begin() + place, needle);
  return {{"haystack", join(lines, "\n")},
          {"key", key},
          {"subject", subject},
          {"length", length},
          {"depth", depth},
          {"needle", needle}};
}

struct Question {
  int64_t length, depth, repeat;
};

std::vector<Question> questions_of(const Haystack& spec) {
  std::vector<Question> questions;
  for (const auto length : spec.lengths) {
    for (const auto depth : spec.depths) {
      for (int64_t i = 0; i < spec.repeats; ++i) questions.push_back({length, depth, i});
    }
  }
  if (spec.in_rounds) {
    std::stable_sort(questions.begin(), questions.end(),
                     [](const Question& a, const Question& b) { return a.repeat < b.repeat; });
  }
  return questions;
}

std::vector<int64_t> read_integers(const YamlValue& value, int64_t min, int64_t max) {
  std::vector<int64_t> numbers;
  for (const auto& item : value.sequence()) numbers.push_back(item.integer(min, max));
  if (numbers.empty()) value.fail(value.name(), " is empty, expected at least one number");
  return numbers;
}

}  // namespace

Haystack read_haystack(const YamlValue& value) {
  auto map = value.map();
  Haystack spec;
  auto filler = map.required("filler").map();
  spec.filler = read_task_file(filler, {"task", "data_dir", "prompts"});
  filler.reject_unknown();
  const auto needle = map.required("needle");
  spec.needle = parse_template(needle.string());
  spec.keys = map.optional_strings("keys");
  spec.subjects = map.optional_strings("subjects");
  bool has_key = false;
  for (const auto& part : spec.needle) {
    if (!part.is_variable) continue;
    if (part.text != "key" && (part.text != "subject" || spec.subjects.empty())) {
      needle.fail(unknown_name("needle variable", part.text, {"key", "subject"}));
    }
    has_key = has_key || part.text == "key";
  }
  if (!has_key) needle.fail(needle.name(), " does not name {key}: there would be nothing to find");
  spec.lengths = read_integers(map.required("lengths"), 1, 1'000'000);
  spec.depths = read_integers(map.required("depths"), 0, 100);
  spec.repeats = map.optional_integer("repeats", 1, 10'000, 1);
  spec.in_rounds = map.optional_choice("order", {"lengths", "rounds"}, "lengths") == "rounds";
  spec.seed = static_cast<uint64_t>(map.optional_integer("seed", 0, std::numeric_limits<int64_t>::max(), 0));
  map.reject_unknown();
  return spec;
}

std::vector<nlohmann::json> make_haystacks(const Haystack& spec, const std::filesystem::path& data_dir) {
  const auto sentences = read_sentences(locate(spec.filler, data_dir));
  std::vector<nlohmann::json> made;
  for (const auto& [length, depth, repeat] : questions_of(spec)) {
    // Each question's own stream: it stays the same where lengths or depths are added.
    const auto place = static_cast<uint64_t>((length * 101 + depth) * 10'007 + repeat);
    auto random = random_of(spec.seed, place);
    made.push_back(make_one(spec, sentences, length, depth, random));
  }
  return made;
}

}  // namespace kvc
