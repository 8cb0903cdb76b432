#include "data/made.h"

#include <algorithm>

#include "data/makers.h"
#include "text/files.h"
#include "text/json.h"

namespace kvc {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostTokens = 100'000'000;
constexpr const char* kMadeVersion = "1";  // another one where the same task file makes other questions

struct MakerKind {
  const char* name;
  ReadMaker (*read)(YamlMap& map, const MakerSettings& settings);
};

constexpr MakerKind kKinds[] = {{"needles", read_needles},         {"chains", read_chains},
                                {"word_counts", read_word_counts}, {"coded_words", read_coded_words},
                                {"documents", read_documents},     {"routes", read_routes},
                                {"countdown", read_countdown},     {"lists", read_lists}};

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const auto& kind : kKinds) names.push_back(kind.name);
  return names;
}

Json plain(const YAML::Node& node) {
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const auto& item : node) list.push_back(plain(item));
    return list;
  }
  if (!node.IsMap()) return node.IsNull() ? Json() : Json(node.Scalar());
  Json object = Json::object();
  for (const auto& item : node) object[item.first.Scalar()] = plain(item.second);
  return object;
}

// The length: tokens, or units.
void read_length(YamlMap& map, MadeSpec& spec) {
  if (const auto tokens = map.optional("tokens")) {
    spec.tokens = tokens->integer(1, kMostTokens);
    if (map.has("units")) tokens->fail("data.made has both tokens and units, expected one of them: it is the length");
  } else {
    spec.units = map.required("units").integer(1, kMostTokens);
  }
}

// The most units that fit, as if more units always were more tokens; nothing where the fewest do not.
std::optional<int64_t> most_that_fit(const Growth& growth, const std::function<bool(int64_t)>& fits) {
  const auto units = [&](int64_t step) { return growth.first + step * growth.by; };
  if (!fits(growth.first)) return std::nullopt;
  const int64_t last = growth.most < growth.first ? 0 : (growth.most - growth.first) / growth.by;
  int64_t low = 0, high = 1;  // low fits; high is not known to
  while (high <= last && fits(units(high))) {
    low = high;
    high *= 2;
  }
  high = std::min(high, last + 1);
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(units(middle)) ? low : high) = middle;
  }
  return units(low);
}

}  // namespace

MadeSpec read_made_spec(const YamlValue& value) {
  auto map = value.map();
  MadeSpec spec;
  spec.where = value.where();
  spec.recipe = plain(value.node()).dump();
  const auto kind = map.required_choice("kind", kind_names());
  read_length(map, spec);
  spec.n_samples = map.required("samples").integer(1, 1'000'000);
  MakerSettings settings;
  settings.seed = static_cast<uint64_t>(map.optional_integer("seed", 0, std::numeric_limits<int64_t>::max(), 0));
  settings.one_order = map.optional_choice("shuffle", {"each", "alike"}, "each") == "alike";
  const auto* known =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const MakerKind& k) { return k.name == kind; });
  auto read = known->read(map, settings);
  spec.open = std::move(read.open);
  spec.files = std::move(read.files);
  map.reject_unknown();
  return spec;
}

int64_t count_questions(const MadeSpec& spec, const std::filesystem::path& data_dir) {
  return std::min(spec.n_samples, spec.open({data_dir})->n_questions());
}

MadeQuestions make_questions(const MadeSpec& spec, const MakerPlace& place, int64_t n,
                             const std::function<int64_t(const Json&)>& n_prompt_tokens) {
  const auto maker = spec.open(place);
  const auto growth = maker->growth();
  const auto fits = [&](const Json& question) { return n_prompt_tokens(question) <= place.prompt_tokens; };
  int64_t n_units = spec.units;
  if (spec.tokens) {
    const auto most = most_that_fit(growth, [&](int64_t units) { return fits(maker->make(units, 0)); });
    KVC_CHECK(most, spec.where, ": error: data.made.tokens is ", *spec.tokens, ", and the shortest prompt has ",
              n_prompt_tokens(maker->make(growth.first, 0)), " where ", place.prompt_tokens,
              " are left after reserving the answer");
    KVC_CHECK(*most + growth.by <= growth.most, spec.where, ": error: data.made.tokens is ", *spec.tokens,
              ", and there is text for a prompt of ", n_prompt_tokens(maker->make(*most, 0)), " tokens");
    n_units = *most;
  }
  MadeQuestions made;
  made.n_all = std::min(spec.n_samples, maker->n_questions());
  for (int64_t i = 0; i < std::min(n, made.n_all); ++i) {
    auto question = maker->make(n_units, i);
    for (auto units = n_units; spec.tokens && !fits(question);) {
      KVC_CHECK(units > growth.first, spec.where, ": error: data.made.tokens is ", *spec.tokens,
                ", and the shortest prompt of question ", i, " has ", n_prompt_tokens(question), " where ",
                place.prompt_tokens, " are left after reserving the answer");
      units = std::max(units - growth.back, growth.first);
      question = maker->make(units, i);
    }
    made.items.push_back(std::move(question));
  }
  std::string all = concat(kMadeVersion, spec.recipe, "\n", n_units, "\n");
  for (const auto& file : spec.files) all += sha256_file(locate(file, place.data_dir)) + "\n";
  made.sha256 = sha256_hex(all);
  return made;
}

}  // namespace kvc
