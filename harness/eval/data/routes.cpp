// A way to write down step by step, in a graph that each place leaves by one line.
#include <set>

#include "data/drawn_text.h"
#include "data/makers.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using Json = nlohmann::json;

struct Routes {
  MakerSettings settings;
  Template line, step;  // {from}, {by}, {to}: in the text, and in the answer
  DrawnText places;
  std::vector<std::string> by;
  int64_t n_others = 1;  // places that are not on the way, for each step of it
};

class RouteMaker final : public QuestionMaker {
 public:
  RouteMaker(Routes spec, const MakerPlace& place) : spec_(std::move(spec)) { spec_.places.load(place.data_dir); }

  Growth growth() const override { return {}; }

  // The way's places are the first; its end and the others lead anywhere, which may be onto the way.
  Json make(int64_t n_units, int64_t index) const override {
    auto random = random_of(spec_.settings.seed, static_cast<uint64_t>(index));
    const auto n_steps = static_cast<size_t>(n_units);
    const size_t n_places = n_steps + 1 + n_steps * static_cast<size_t>(spec_.n_others);
    std::set<std::string> used;
    std::vector<std::string> places, lines, answer;
    for (size_t i = 0; i < n_places; ++i) places.push_back(spec_.places.draw_other(random, used));
    for (size_t i = 0; i < n_places; ++i) {
      auto to = i + 1;
      while (i >= n_steps && (to = random.below(n_places)) == i) {
      }
      const std::vector<std::pair<std::string, std::string>> values = {
          {"from", places[i]}, {"by", spec_.by[random.below(spec_.by.size())]}, {"to", places[to]}};
      lines.push_back(fill_template(spec_.line, values));
      if (i < n_steps) answer.push_back(fill_template(spec_.step, values));
    }
    random.shuffle(lines);
    return {{"context", join(lines, "\n")},
            {"from", places.front()},
            {"to", places[n_steps]},
            {"answer", join(answer, "\n")}};
  }

 private:
  Routes spec_;
};

}  // namespace

ReadMaker read_routes(YamlMap& map, const MakerSettings& settings) {
  Routes spec;
  spec.settings = settings;
  spec.line = read_template_of(map.required("line"), {"from", "by", "to"});
  spec.step = read_template_of(map.required("step"), {"from", "by", "to"});
  spec.places = DrawnText::read(map.required("places"));
  const auto by = map.required("by");
  spec.by = by.strings();
  if (spec.by.empty()) by.fail(by.name(), " is empty, expected at least one text");
  spec.n_others = map.optional_integer("others", 0, 100, 1);
  const auto files = spec.places.files();
  return {[spec](const MakerPlace& place) { return std::make_unique<const RouteMaker>(spec, place); }, files};
}

}  // namespace kvc
