// Variables that are assigned one from the other, in lines of noise.
#include <algorithm>
#include <set>

#include "data/drawn_text.h"
#include "data/makers.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using Json = nlohmann::json;

struct Chains {
  struct Example {
    Template text;  // {context}, {value}, {names}
    DrawnText names;
    int64_t tokens = 0;  // at most, without the names that answer it
  };
  MakerSettings settings;
  std::string line;
  Template first, next;  // {name}, {value}; {name}, {previous}
  DrawnText names, values;
  int64_t n_chains = 1, n_hops = 1, step = 1;
  std::optional<Example> example;
};

struct ChainText {
  std::string context, value;
  std::vector<std::string> names;
};

class ChainMaker final : public QuestionMaker {
 public:
  ChainMaker(Chains spec, const MakerPlace& place) : spec_(std::move(spec)) {
    spec_.names.load(place.data_dir);
    spec_.values.load(place.data_dir);
    if (!spec_.example || !place.n_tokens) return;
    spec_.example->names.load(place.data_dir);
    const auto n_tokens = [&](int64_t n) { return place.n_tokens(example(n, 0, false)); };
    n_example_lines_ = spec_.n_hops + 1;
    while (n_tokens(n_example_lines_ + 1) <= spec_.example->tokens) ++n_example_lines_;
  }

  Growth growth() const override { return {std::max(spec_.step, spec_.n_hops + 1), 1, spec_.step}; }

  Json make(int64_t n_units, int64_t index) const override {
    auto random = random_of(spec_.settings.seed, static_cast<uint64_t>(index));
    const auto made = in_lines(n_units, spec_.n_chains, spec_.names, random, random);
    return {{"context", made.context},
            {"value", made.value},
            {"answers", made.names},
            {"example", spec_.example ? example(n_example_lines_, index, true) : ""}};
  }

 private:
  // The statements of each chain in their order, at drawn places.
  ChainText in_lines(int64_t n, int64_t n_chains, const DrawnText& names, Random& random, Random& places) const {
    std::vector<std::string> lines(static_cast<size_t>(n), spec_.line);
    std::set<std::string> used;
    ChainText first;
    for (int64_t chain = 0; chain < n_chains; ++chain) {
      ChainText made;
      made.value = spec_.values.draw(random);
      std::vector<std::string> statements;
      for (int64_t hop = 0; hop <= spec_.n_hops; ++hop) {
        const auto name = names.draw_other(random, used);
        statements.push_back(hop == 0 ? fill_template(spec_.first, {{"name", name}, {"value", made.value}})
                                      : fill_template(spec_.next, {{"name", name}, {"previous", made.names.back()}}));
        made.names.push_back(name);
      }
      auto at = places.sample(lines.size(), statements.size());
      std::sort(at.begin(), at.end());
      for (size_t i = 0; i < statements.size(); ++i) {
        lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at[i] + i), statements[i]);
      }
      if (chain == 0) first = std::move(made);
    }
    first.context = join(lines, "\n");
    return first;
  }

  // In all questions the same lines at the same places, but other names and another value.
  std::string example(int64_t n_lines, int64_t index, bool is_answered) const {
    Random places(spec_.settings.seed);
    auto random = random_of(~spec_.settings.seed, static_cast<uint64_t>(index));
    const auto made = in_lines(n_lines, 1, spec_.example->names, random, places);
    const auto names = is_answered ? join(made.names, " ") : "";
    return fill_template(spec_.example->text, {{"context", made.context}, {"value", made.value}, {"names", names}});
  }

  Chains spec_;
  int64_t n_example_lines_ = 0;
};

}  // namespace

ReadMaker read_chains(YamlMap& map, const MakerSettings& settings) {
  Chains spec;
  spec.settings = settings;
  spec.line = map.required_string("line");
  spec.first = read_template_of(map.required("first"), {"name", "value"});
  spec.next = read_template_of(map.required("next"), {"name", "previous"});
  spec.names = DrawnText::read(map.required("names"));
  spec.values = DrawnText::read(map.required("values"));
  spec.n_chains = map.optional_integer("chains", 1, 1000, 1);
  spec.n_hops = map.required_integer("hops", 1, 1000);
  spec.step = map.optional_integer("step", 1, 1'000'000, 1);
  auto files = spec.names.files();
  const auto add = [&](const DrawnText& drawn) {
    files.insert(files.end(), drawn.files().begin(), drawn.files().end());
  };
  add(spec.values);
  if (const auto example = map.optional("example")) {
    auto of_example = example->map();
    spec.example = Chains::Example{read_template_of(of_example.required("template"), {"context", "value", "names"}),
                                   DrawnText::read(of_example.required("names")),
                                   of_example.required_integer("tokens", 1, 1'000'000)};
    of_example.reject_unknown();
    add(spec.example->names);
  }
  return {[spec](const MakerPlace& place) { return std::make_unique<const ChainMaker>(spec, place); }, files};
}

}  // namespace kvc
