// Sentences with keys and values, hidden in lines, in sentences like them, or in a text.
#include <algorithm>
#include <cmath>
#include <set>

#include "data/drawn_text.h"
#include "data/makers.h"
#include "data/sentences.h"
#include "text/json.h"
#include "text/nearest.h"
#include "text/text_file.h"

namespace kvc {
namespace {

using Json = nlohmann::json;

constexpr size_t kDepths = 40;  // places of a text that needles are put at: 0 to 100 percent of its sentences

struct Needles {
  enum class Filler { kLine, kNeedles, kText };
  MakerSettings settings;
  Template needle;  // {key}, {value}
  DrawnText keys, values;
  size_t n_keys = 1, n_values = 1, n_queries = 1;
  Filler filler = Filler::kLine;
  std::string line, between = "\n";  // a line, and what stands between lines
  std::optional<TaskFile> text;
  std::string text_pointer;  // of a JSON file
  int64_t step = 1;
  std::string where;

  size_t n_needles() const { return n_keys * n_values; }
  std::string fill(const std::string& key, const std::string& value) const {
    return fill_template(needle, {{"key", key}, {"value", value}});
  }
};

std::vector<std::string> read_text_words(const Needles& spec, const std::filesystem::path& data_dir) {
  const auto path = locate(*spec.text, data_dir);
  std::string text;
  if (spec.text_pointer.empty()) {
    text = read_text(path);
  } else {
    try {
      text = read_json_text(path).at(Json::json_pointer(spec.text_pointer)).get<std::string>();
    } catch (const Json::exception&) {
      throw Error(concat(path.string(), ":1:1: error: expected JSON with a text at ", spec.text_pointer));
    }
  }
  auto words = split_words(text);
  KVC_CHECK(!words.empty(), path.string(), ":1:1: error: no words, expected a text to hide needles in");
  return words;
}

// "a", "a, and b", "a, b, and c"
std::string listed(const std::vector<std::string>& names) {
  if (names.size() == 1) return names[0];
  return join({names.begin(), names.end() - 1}) + ", and " + names.back();
}

class NeedleMaker final : public QuestionMaker {
 public:
  NeedleMaker(Needles spec, const MakerPlace& place) : spec_(std::move(spec)) {
    spec_.keys.load(place.data_dir);
    spec_.values.load(place.data_dir);
    if (spec_.text) words_ = read_text_words(spec_, place.data_dir);
  }

  // Lines hold the needles at different places, so there are at least as many; other needles have keys and values of
  // their own.
  Growth growth() const override {
    const auto least = std::max<int64_t>(spec_.step, static_cast<int64_t>(spec_.n_needles()));
    Growth growth{least, 1, spec_.step};
    if (spec_.filler == Needles::Filler::kNeedles) {
      growth.most = std::min(spec_.keys.n_texts() - static_cast<int64_t>(spec_.n_keys),
                             spec_.values.n_texts() - static_cast<int64_t>(spec_.n_needles()));
      KVC_CHECK(growth.most >= least, spec_.where, ": error: ", least,
                " other needles at least, and there are keys and ", "values for ", std::max<int64_t>(0, growth.most));
    }
    return growth;
  }

  Json make(int64_t n_units, int64_t index) const override {
    auto random = random_of(spec_.settings.seed, static_cast<uint64_t>(index));
    std::set<std::string> used_keys, used_values;
    std::vector<std::string> keys, needles;
    std::vector<std::vector<std::string>> values(spec_.n_keys);
    for (auto& of_key : values) {
      keys.push_back(spec_.keys.draw_other(random, used_keys));
      for (size_t i = 0; i < spec_.n_values; ++i) {
        of_key.push_back(spec_.values.draw_other(random, used_values));
        needles.push_back(spec_.fill(keys.back(), of_key.back()));
      }
    }
    std::vector<std::string> asked, answers;
    for (const size_t i : random.sample(spec_.n_keys, spec_.n_queries)) {
      asked.push_back(keys[i]);
      answers.insert(answers.end(), values[i].begin(), values[i].end());
    }
    auto order = spec_.settings.one_order ? Random(spec_.settings.seed) : random;
    order.shuffle(needles);
    const auto context = spec_.filler == Needles::Filler::kText
                             ? hide_in_text(n_units, needles, random)
                             : hide_in_lines(n_units, needles, used_keys, used_values, random);
    return {{"context", context}, {"query", listed(asked)}, {"answers", answers}, {"needles", needles}};
  }

 private:
  std::string hide_in_lines(int64_t n, const std::vector<std::string>& needles, std::set<std::string>& used_keys,
                            std::set<std::string>& used_values, Random& random) const {
    std::vector<std::string> lines;
    for (int64_t i = 0; i < n; ++i) {
      if (spec_.filler == Needles::Filler::kLine) {
        lines.push_back(spec_.line);
        continue;
      }
      const auto key = spec_.keys.draw_other(random, used_keys);
      lines.push_back(spec_.fill(key, spec_.values.draw_other(random, used_values)));
    }
    auto places = random.sample(lines.size(), needles.size());
    std::sort(places.rbegin(), places.rend());  // from the back, so that places before stay as they are
    for (size_t i = 0; i < needles.size(); ++i) {
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(places[i]), needles[i]);
    }
    return join(lines, spec_.between);
  }

  // Before needle i, and behind the last, stand the sentences between their places, which may be none.
  std::string hide_in_text(int64_t n, const std::vector<std::string>& needles, Random& random) const {
    std::vector<std::string> words;
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) words.push_back(words_[i % words_.size()]);
    const auto sentences = split_sentences(words);
    std::vector<size_t> places;
    for (const size_t i : random.sample(kDepths, needles.size())) {
      const auto percent = std::nearbyint(100.0 * static_cast<double>(i) / (kDepths - 1));
      places.push_back(static_cast<size_t>(static_cast<double>(sentences.size()) * (percent / 100)));
    }
    std::sort(places.begin(), places.end());
    std::vector<std::string> parts;
    size_t begin = 0;
    for (size_t i = 0; i <= needles.size(); ++i) {
      const size_t end = i < needles.size() ? places[i] : sentences.size();
      const auto at = [&](size_t place) { return sentences.begin() + static_cast<std::ptrdiff_t>(place); };
      parts.push_back(join({at(begin), at(end)}, " "));
      if (i < needles.size()) parts.push_back(needles[i]);
      begin = end;
    }
    return join(parts, " ");
  }

  Needles spec_;
  std::vector<std::string> words_;  // of the text
};

// One line, again and again; needles; or {text: {file, root, pointer}}.
void read_filler(const YamlValue& value, Needles& spec) {
  auto map = value.map();
  if (const auto text = map.optional("text")) {
    auto file = text->map();
    spec.filler = Needles::Filler::kText;
    spec.text = read_task_file(file, {"task", "data_dir", "prompts"});
    spec.text_pointer = file.optional_string("pointer", "");
    file.reject_unknown();
    if (spec.n_needles() > kDepths) {
      value.fail(spec.n_needles(), " needles in a text, which has ", kDepths, " places for them");
    }
  } else if (const auto line = map.optional("line")) {
    spec.line = line->string();
  } else {
    map.required("others").choice({"needles"});
    spec.filler = Needles::Filler::kNeedles;
  }
  map.reject_unknown();
}

}  // namespace

ReadMaker read_needles(YamlMap& map, const MakerSettings& settings) {
  Needles spec;
  spec.settings = settings;
  spec.where = map.value().where();
  spec.needle = read_template_of(map.required("needle"), {"key", "value"});
  spec.keys = DrawnText::read(map.required("keys"));
  spec.values = DrawnText::read(map.required("values"));
  spec.n_keys = static_cast<size_t>(map.optional_integer("n_keys", 1, 1000, 1));
  spec.n_values = static_cast<size_t>(map.optional_integer("n_values", 1, 1000, 1));
  spec.n_queries = static_cast<size_t>(map.optional_integer("n_queries", 1, static_cast<int64_t>(spec.n_keys), 1));
  spec.step = map.optional_integer("step", 1, 1'000'000, 1);
  spec.between = map.optional_string("between", "\n");
  read_filler(map.required("filler"), spec);
  auto files = spec.keys.files();
  files.insert(files.end(), spec.values.files().begin(), spec.values.files().end());
  if (spec.text) files.push_back(*spec.text);
  return {[spec](const MakerPlace& place) { return std::make_unique<const NeedleMaker>(spec, place); }, files};
}

}  // namespace kvc
