#include "experiment/read_compressors.h"

#include <charconv>
#include <set>

#include "text/nearest.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using Points = std::vector<CompressorChoice>;

constexpr size_t kMostPoints = 10'000;  // of one entry: lists of lists come to millions before anybody means it

void check_points(size_t n, const std::string& where) {
  KVC_CHECK(n <= kMostPoints, where, ": error: a sweep of ", n, " compressors or more, expected at most ", kMostPoints);
}

// A plain scalar is a number where it reads as one; a quoted one is always text.
nlohmann::json scalar_json(const YamlValue& value) {
  const auto& node = value.node();
  if (!node.IsScalar())
    value.fail(value.name(), " is ", value.found(), ", expected a number, a word, or a list of these");
  if (node.Tag() != "!") {
    int64_t integer;
    double real;
    if (YAML::convert<int64_t>::decode(node, integer)) return integer;
    if (YAML::convert<double>::decode(node, real)) return real;
  }
  return value.string();
}

std::vector<nlohmann::json> sweep_values(const YamlValue& value) {
  if (!value.is_sequence()) return {scalar_json(value)};
  std::vector<nlohmann::json> values;
  for (const auto& item : value.sequence()) values.push_back(scalar_json(item));
  if (values.empty()) value.fail(value.name(), " is an empty list, expected at least one value");
  return values;
}

// The product of the options' values, put over `base`.
std::vector<nlohmann::json> option_points(const YamlValue& options, const nlohmann::json& base) {
  std::vector<nlohmann::json> points{base};
  if (options.is_null()) return points;
  auto option_map = options.map();
  for (const auto& [option, value] : option_map.entries()) {
    const auto settings = sweep_values(value);
    check_points(points.size() * settings.size(), value.where());
    std::vector<nlohmann::json> wider;
    for (const auto& point : points) {
      for (const auto& setting : settings) {
        wider.push_back(point);
        wider.back()[option] = setting;
      }
    }
    points = std::move(wider);
  }
  return points;
}

Points read_plugin(const std::string& plugin, const YamlValue& options, const std::string& where) {
  Points points;
  for (auto& point : option_points(options, nlohmann::json::object())) {
    points.push_back({plugin, std::move(point), where});
  }
  return points;
}

// Each point with each of `parts` behind its own.
Points with_part(const Points& points, const Points& parts) {
  check_points(points.size() * parts.size(), parts.front().where);
  Points wider;
  for (const auto& point : points) {
    for (const auto& part : parts) {
      KVC_CHECK(part.label.empty(), part.where,
                ": error: a part of a composition has a label, expected it on the composition");
      wider.push_back(point);
      wider.back().parts.push_back(part);
    }
  }
  return wider;
}

std::vector<std::optional<int64_t>> read_blocks(const YamlValue& value) {
  if (!value.is_sequence()) return {value.integer(1, 1 << 20)};
  std::vector<std::optional<int64_t>> blocks;
  for (const auto& item : value.sequence()) blocks.push_back(item.integer(1, 1 << 20));
  if (blocks.empty()) value.fail(value.name(), " is an empty list, expected at least one value");
  return blocks;
}

struct ChainEntry {
  std::optional<YamlValue> stages;
  std::vector<std::optional<int64_t>> blocks{std::nullopt};
};

void chain_keys(YamlKeys& keys, ChainEntry& entry) {
  const auto block = concat(kDefaultBlock);
  keys.other({"chain",
              "stages, in order: an evicting stage passes on the tokens it keeps, any other stage passes on its error",
              kRequired},
             "list of at least two compressors", [&](const YamlValue& value) { entry.stages = value; });
  keys.other(
      {"block", "tokens per block, in a chain whose stages store errors; a list is a sweep", false, block.c_str()},
      "integer, 1 to 1048576, or a list", [&](const YamlValue& value) { entry.blocks = read_blocks(value); });
}

Points read_chain(YamlMap map) {
  ChainEntry entry;
  KeyReader keys(map);
  chain_keys(keys, entry);
  map.reject_unknown();
  const auto& stages = *entry.stages;
  const auto list = stages.sequence();
  if (list.size() < 2) stages.fail(stages.name(), " has ", list.size(), " stages, expected at least two");
  Points points{{"chain", nlohmann::json::object(), map.value().where(), CompressorChoice::Kind::chain}};
  for (const auto& stage : list) points = with_part(points, read_compressor(stage));
  check_points(points.size() * entry.blocks.size(), map.value().where());
  Points whole;
  for (const auto& point : points) {
    for (const auto& block : entry.blocks) {
      whole.push_back(point);
      whole.back().block = block;
    }
  }
  return whole;
}

// "0-3" -> 0, 3; "2" -> 2, 2
std::pair<int64_t, int64_t> read_range(const YamlValue& value) {
  const auto text = value.string();
  int64_t first = 0, last = 0;
  const char* const end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, first);
  last = first;
  if (error == std::errc() && at != end && *at == '-') {
    const auto rest = std::from_chars(at + 1, end, last);
    at = rest.ptr, error = rest.ec;
  }
  if (error != std::errc() || at != end || first < 0 || last < first) {
    value.fail(value.name(), " is ", value.found(),
               ", expected a layer, a range of layers such as 0-3, or sliding_window");
  }
  return {first, last};
}

struct RuleEntry {
  RuleScope scope;
  std::optional<YamlValue> use, options;
};

void rule_keys(YamlKeys& keys, RuleEntry& rule) {
  keys.other({"layers", "layers the rule applies to", false, "all"},
             "a layer, a range as 0-3, sliding_window (the layers that have one), or a list",
             [&](const YamlValue& value) {
               const auto ranges = value.is_sequence() ? value.sequence() : std::vector<YamlValue>{value};
               if (ranges.empty()) value.fail(value.name(), " is an empty list, expected at least one layer");
               for (const auto& range : ranges) {
                 if (range.string() == "sliding_window") {
                   rule.scope.windowed = true;
                 } else {
                   rule.scope.layers.push_back(read_range(range));
                 }
               }
             });
  keys.other({"tensor", "tensor the rule applies to", false, "both"}, "k, v", [&](const YamlValue& value) {
    rule.scope.tensor = value.choice({"k", "v"}) == "k" ? CacheTensor::k : CacheTensor::v;
  });
  keys.other({"phase", "tokens the rule applies to: the prompt's, or decoded ones", false, "both"}, "prompt, decode",
             [&](const YamlValue& value) {
               rule.scope.decode = value.choice({"prompt", "decode"}) == "decode";
             });
  keys.other({"use", "the compressor to use"}, "a compressor", [&](const YamlValue& value) { rule.use = value; });
  keys.other({"options", "alternatively, options that override those of the default compressor"}, "map of options",
             [&](const YamlValue& value) { rule.options = value; });
}

// What a rule uses, where the rules' default is this one.
Points read_use(const YamlValue& place, const RuleEntry& rule, const CompressorChoice& otherwise) {
  const auto& [scope, use, options] = rule;
  if (use && options) options->fail(place.name(), " has both 'use' and 'options', expected one of them");
  if (use) return read_compressor(*use);
  if (!options) place.fail("missing key 'use' in ", place.name(), " (a compressor), or 'options' (of the default's)");
  if (!otherwise.parts.empty()) {
    options->fail(options->name(), " are of a plugin, and the default is made of several: expected 'use'");
  }
  Points points;
  for (auto& point : option_points(*options, otherwise.options)) {
    points.push_back({otherwise.plugin, std::move(point), options->where()});
  }
  return points;
}

struct RulesEntry {
  Points otherwise;
  std::optional<YamlValue> where;
};

void rules_keys(YamlKeys& keys, RulesEntry& rules) {
  keys.other({"default", "compressor where no rule applies", kRequired}, "a compressor",
             [&](const YamlValue& value) { rules.otherwise = read_compressor(value); });
  keys.other(
      {"where", "rules; the last one that applies wins", kRequired}, "list of maps",
      [&](const YamlValue& value) { rules.where = value; },
      [](YamlKeys& inner) {
        RuleEntry rule;
        rule_keys(inner, rule);
      });
}

Points read_rules(const YamlValue& value) {
  RulesEntry rules;
  read_keys(value.map(), [&](YamlKeys& keys) { rules_keys(keys, rules); });
  const auto& where = *rules.where;
  const auto list = where.sequence();
  if (list.empty()) where.fail(where.name(), " is an empty list, expected at least one rule");
  Points all;
  for (const auto& one : rules.otherwise) {
    Points points{{"rules", nlohmann::json::object(), value.where(), CompressorChoice::Kind::rules, {one}}};
    for (const auto& item : list) {
      RuleEntry rule;
      read_keys(item.map(), [&](YamlKeys& keys) { rule_keys(keys, rule); });
      points = with_part(points, read_use(item, rule, one));
      if (to_string(rule.scope).empty()) {
        item.fail(item.name(), " names no layers, tensor or phase: expected at least one of them");
      }
      for (auto& point : points) point.scopes.push_back(rule.scope);
    }
    check_points(all.size() + points.size(), value.where());
    all.insert(all.end(), points.begin(), points.end());
  }
  return all;
}

// Compositions around one other compressor, by their names in a file.
struct WrappedKind {
  const char* name;
  CompressorChoice::Kind kind;
  const char* about;
};
constexpr WrappedKind kWrapped[] = {
    {"sinks", CompressorChoice::Kind::sinks, "the first n tokens of each layer stored exactly, the others by `of`"},
    {"recent", CompressorChoice::Kind::recent, "the latest n tokens of each layer stored exactly, the others by `of`"},
    {"centered", CompressorChoice::Kind::centered,
     "keys minus their mean over the prompt, per channel; dequantizing adds it back"},
};

struct WrappedEntry {
  std::vector<int64_t> n{0};
  Points of;
};

void wrapped_keys(YamlKeys& keys, CompressorChoice::Kind kind, WrappedEntry& entry) {
  if (kind != CompressorChoice::Kind::centered) {
    keys.other({"n", "tokens; a list is a sweep", kRequired}, "integer, 1 to 1048576, or a list",
               [&](const YamlValue& value) {
                 entry.n.clear();
                 for (const auto& n : read_blocks(value)) entry.n.push_back(*n);
               });
  }
  keys.other({"of", "compressor of the other tokens", kRequired}, "a compressor",
             [&](const YamlValue& value) { entry.of = read_compressor(value); });
}

Points read_wrapped(const WrappedKind& wrapped, const YamlValue& value) {
  WrappedEntry entry;
  read_keys(value.map(), [&](YamlKeys& keys) { wrapped_keys(keys, wrapped.kind, entry); });
  Points points;
  for (const int64_t n : entry.n) {
    Points whole{{wrapped.name, nlohmann::json::object(), value.where(), wrapped.kind}};
    whole.front().n_exact = n;
    for (auto& point : with_part(whole, entry.of)) points.push_back(std::move(point));
  }
  check_points(points.size(), value.where());
  return points;
}

void label_key(YamlKeys& keys, std::optional<YamlValue>& label) {
  keys.other({"label", "row name in tables; {option} is replaced by that option's value"}, "text",
             [&](const YamlValue& value) { label = value; });
}

Points read_unlabelled(const YamlValue& entry, YamlMap& map) {
  if (map.has("chain")) return read_chain(map);
  // Copied, not erased from: assigning a yaml-cpp node writes to the document.
  std::vector<std::pair<std::string, YamlValue>> entries;
  for (const auto& entry : map.entries()) {
    if (entry.first != "label") entries.push_back(entry);
  }
  if (entries.size() != 1) {
    entry.fail("a compressor is a name, or a name with its options; found a map of ", entries.size(), " names");
  }
  const auto& [name, value] = entries.front();
  for (const auto& wrapped : kWrapped) {
    if (name == wrapped.name) return read_wrapped(wrapped, value);
  }
  return name == "rules" ? read_rules(value) : read_plugin(name, value, entry.where());
}

// "KIVI {bits} bits" -> "KIVI 2 bits"
std::string filled_in(std::string label, const nlohmann::json& options) {
  for (const auto& [option, value] : options.items()) {
    const auto place = "{" + option + "}";
    const auto text = value.is_string() ? value.get<std::string>() : value.dump();
    for (size_t at = 0; (at = label.find(place, at)) != std::string::npos; at += text.size()) {
      label.replace(at, place.size(), text);
    }
  }
  return label;
}

void set_labels(const YamlValue& label, Points& points) {
  std::set<std::string> taken;
  for (auto& point : points) {
    point.label = filled_in(label.string(), point.options);
    if (point.label.empty() || has_control(point.label)) {
      label.fail(label.name(), " is ", in_quotes(point.label), ", expected a row's name, without control characters");
    }
    if (!taken.insert(point.label).second) {
      label.fail(label.name(), " is ", label.found(), " for ", points.size(),
                 " compressors of a sweep, expected an {option} in it that distinguishes them");
    }
  }
}

}  // namespace

std::vector<CompressorChoice> read_compressor(const YamlValue& entry) {
  if (entry.is_scalar()) return {{entry.string(), nlohmann::json::object(), entry.where()}};
  auto map = entry.map();
  std::optional<YamlValue> label;
  KeyReader keys(map);
  label_key(keys, label);
  auto points = read_unlabelled(entry, map);
  if (label) set_labels(*label, points);
  return points;
}

CompressorChoice compressor_argument(const std::string& what, const std::string& text) {
  auto choices = read_compressor(parse_yaml(what, text));
  KVC_CHECK(choices.size() == 1 && choices[0].kind == CompressorChoice::Kind::plugin, what, ": '", text, "' is ",
            choices.size() == 1 ? "a composition" : concat(choices.size(), " compressors"),
            ", expected one plugin: NAME, or 'NAME: {option: value}'");
  return std::move(choices.front());
}

void isolation_keys(YamlKeys& keys, IsolationChoice& isolation) {
  keys.other({"isolation", "whether compressors run in processes of their own; compressors in Python always do", false,
              "process for plugins that were not built with kvc"},
             "process, none", [&](const YamlValue& value) {
               isolation.isolation = value.choice({"process", "none"});
             });
  keys.text({"python", "interpreter that runs compressors written in Python", false, "KVC_PYTHON, or python3"},
            isolation.python);
}

void plugin_path_key(YamlKeys& keys, std::vector<std::string>& folders) {
  keys.other({"plugin_path", "folders to search before the built-in plugins"}, "list of texts",
             [&](const YamlValue& value) {
               for (const auto& item : value.sequence()) {
                 const auto beside = value.folder() / item.string();
                 const bool is_beside = std::filesystem::is_directory(beside);
                 if (!is_beside && !std::filesystem::is_directory(item.string())) {
                   item.fail(value.name(), ": no folder '", beside.string(), "' nor '", item.string(), "'");
                 }
                 folders.push_back(is_beside ? beside.string() : item.string());
               }
             });
}

void compressors_key(YamlKeys& keys, std::vector<CompressorChoice>& compressors, std::filesystem::path& folder) {
  keys.other({"compressors", "compressors to evaluate, one row each in the tables", kRequired}, "list of compressors",
             [&](const YamlValue& value) {
               folder = value.folder();
               for (const auto& entry : value.sequence()) {
                 for (auto& choice : read_compressor(entry)) compressors.push_back(std::move(choice));
               }
             });
}

void declare_compressor_keys(YamlKeys& keys) {
  std::optional<YamlValue> label;
  label_key(keys, label);
  ChainEntry chain;
  chain_keys(keys, chain);
  keys.map({"rules", "compressors by layer, tensor and phase"}, [](YamlKeys& inner) {
    RulesEntry rules;
    rules_keys(inner, rules);
  });
  for (const auto& wrapped : kWrapped) {
    keys.map({wrapped.name, wrapped.about}, [&](YamlKeys& inner) {
      WrappedEntry entry;
      wrapped_keys(inner, wrapped.kind, entry);
    });
  }
}

void check_labels(const std::vector<CompressorChoice>& compressors) {
  std::set<std::string> taken;
  for (const auto& choice : compressors) {
    KVC_CHECK(choice.label.empty() || taken.insert(choice.label).second, choice.where, ": error: the label '",
              choice.label, "' is there twice, expected one compressor of that label");
  }
}

}  // namespace kvc
