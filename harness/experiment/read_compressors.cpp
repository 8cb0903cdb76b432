#include "experiment/read_compressors.h"

#include <charconv>
#include <set>

#include "text/nearest.h"

namespace kvc {
namespace {

using Points = std::vector<CompressorChoice>;

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
    std::vector<nlohmann::json> wider;
    for (const auto& point : points) {
      for (const auto& setting : sweep_values(value)) {
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
  Points wider;
  for (const auto& point : points) {
    for (const auto& part : parts) {
      KVC_CHECK(part.label.empty(), part.where,
                ": error: a part of a compressor has a label, expected it beside the whole");
      wider.push_back(point);
      wider.back().parts.push_back(part);
    }
  }
  return wider;
}

Points read_chain(YamlMap entry) {
  const auto stages = entry.required("chain");
  std::vector<std::optional<int64_t>> blocks{std::nullopt};
  if (const auto block = entry.optional("block")) {
    blocks.clear();
    if (!block->is_sequence()) blocks.push_back(block->integer(1, 1 << 20));
    if (block->is_sequence()) {
      for (const auto& item : block->sequence()) blocks.push_back(item.integer(1, 1 << 20));
    }
    if (blocks.empty()) block->fail(block->name(), " is an empty list, expected at least one value");
  }
  entry.reject_unknown();
  const auto list = stages.sequence();
  if (list.size() < 2) stages.fail(stages.name(), " has ", list.size(), " stages, expected at least two");
  Points points{{"chain", nlohmann::json::object(), entry.value().where()}};
  for (const auto& stage : list) points = with_part(points, read_compressor(stage));
  Points whole;
  for (const auto& point : points) {
    for (const auto& block : blocks) {
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
    value.fail(value.name(), " is ", value.found(), ", expected a layer or a range of layers such as 0-3");
  }
  return {first, last};
}

RuleScope read_scope(YamlMap& rule) {
  RuleScope scope;
  if (const auto layers = rule.optional("layers")) {
    const auto ranges = layers->is_sequence() ? layers->sequence() : std::vector<YamlValue>{*layers};
    if (ranges.empty()) layers->fail(layers->name(), " is an empty list, expected at least one layer");
    for (const auto& range : ranges) scope.layers.push_back(read_range(range));
  }
  if (const auto tensor = rule.optional("tensor")) {
    scope.tensor = tensor->choice({"k", "v"}) == "k" ? CacheTensor::k : CacheTensor::v;
  }
  if (const auto phase = rule.optional("phase")) scope.decode = phase->choice({"prompt", "decode"}) == "decode";
  return scope;
}

// What a rule uses, where the rules' default is this one.
Points read_use(YamlMap& rule, const CompressorChoice& otherwise) {
  const auto use = rule.optional("use"), options = rule.optional("options");
  rule.reject_unknown();
  const auto& place = rule.value();
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

Points read_rules(const YamlValue& value) {
  auto map = value.map();
  const auto otherwise = read_compressor(map.required("default"));
  const auto where = map.required("where");
  map.reject_unknown();
  const auto list = where.sequence();
  if (list.empty()) where.fail(where.name(), " is an empty list, expected at least one rule");
  Points all;
  for (const auto& one : otherwise) {
    Points points{{"rules", nlohmann::json::object(), value.where(), {one}}};
    for (const auto& item : list) {
      auto rule = item.map();
      const auto scope = read_scope(rule);
      points = with_part(points, read_use(rule, one));
      if (to_string(scope).empty()) {
        item.fail(item.name(), " names no layers, tensor or phase: expected at least one of them");
      }
      for (auto& point : points) point.scopes.push_back(scope);
    }
    all.insert(all.end(), points.begin(), points.end());
  }
  return all;
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
    if (point.label.empty()) label.fail(label.name(), " is '', expected a row's name");
    if (!taken.insert(point.label).second) {
      label.fail(label.name(), " is ", label.found(), " for ", points.size(),
                 " compressors of a sweep, expected the {option} in it that tells them apart");
    }
  }
}

}  // namespace

std::vector<CompressorChoice> read_compressor(const YamlValue& entry) {
  if (entry.is_scalar()) return {{entry.string(), nlohmann::json::object(), entry.where()}};
  auto map = entry.map();
  const auto label = map.optional("label");
  auto points = read_unlabelled(entry, map);
  if (label) set_labels(*label, points);
  return points;
}

void check_labels(const std::vector<CompressorChoice>& compressors) {
  std::set<std::string> taken;
  for (const auto& choice : compressors) {
    KVC_CHECK(choice.label.empty() || taken.insert(choice.label).second, choice.where, ": error: the label '",
              choice.label, "' is there twice, expected one compressor of that label");
  }
}

}  // namespace kvc
