#include "task/task_yaml.h"

#include <map>

#include "text/files.h"
#include "text/nearest.h"
#include "text/program_paths.h"

namespace kvc {
namespace {

using Values = std::map<std::string, YAML::Node>;

YAML::Node value_of(const YamlValue& place, const std::string& name, const Values& values) {
  if (const auto found = values.find(name); found != values.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [key, value] : values) known.push_back(key);
  place.fail(unknown_name("value of the variant", name, known));
}

std::string put_into_text(const YamlValue& place, const std::string& text, const Values& values) {
  std::string result;
  size_t at = 0;
  for (size_t start; (start = text.find("${", at)) != std::string::npos;) {
    const size_t end = text.find('}', start);
    if (end == std::string::npos) break;
    const auto name = text.substr(start + 2, end - start - 2);
    const auto value = value_of(place, name, values);
    if (!value.IsScalar()) place.fail("'${", name, "}' is part of a text, but its value is not text");
    result += text.substr(at, start - at) + value.Scalar();
    at = end + 1;
  }
  return result + text.substr(at);
}

// A text that is one ${name} and nothing else becomes the value, whatever it is; within a text the value is a text.
void put_into_scalar(const YamlValue& place, YAML::Node node, const Values& values) {
  const auto text = node.Scalar();
  if (text.find("${") == std::string::npos) return;
  const bool is_one = text.starts_with("${") && text.find('}') == text.size() - 1;
  const auto whole = is_one ? value_of(place, text.substr(2, text.size() - 3), values) : YAML::Node();
  if (is_one && !whole.IsScalar()) {
    node = YAML::Clone(whole);
    return;
  }
  const auto tag = node.Tag();
  node = put_into_text(place, text, values);
  node.SetTag(tag);
}

// In place: the marks of the nodes stay.
void put_values(const YamlValue& place, YAML::Node node, const Values& values) {
  const YamlValue here(place.file(), place.name(), node, node.Mark());
  if (node.IsScalar()) return put_into_scalar(here, node, values);  // what is put in is taken as it is
  if (node.IsSequence()) {
    for (auto item : node) put_values(here, item, values);
  }
  if (node.IsMap()) {
    for (auto item : node) put_values(here, item.second, values);
  }
}

// "longbench/qasper" as a task file names another: of its own tasks/ first, then of those that come with the program.
// Empty where there is none.
std::filesystem::path named_task_file(const YamlValue& named, const std::string& name) {
  const auto tasks = std::filesystem::absolute(named.file()).parent_path().parent_path();
  if (auto own = tasks / (name + ".yaml"); is_file(own)) return own;
  const auto shipped = find_paths().root / "tasks" / (name + ".yaml");
  return is_file(shipped) ? shipped : std::filesystem::path();
}

// The map of variants: written here, or, where `each` is the name of another task file, there.
YamlValue variants_of(const YamlValue& each) {
  if (!each.is_scalar()) return each;
  const auto file = named_task_file(each, each.string());
  if (file.empty()) each.fail("each is ", each.found(), ", which is no task file");
  auto map = load_yaml(file).map();
  const auto theirs = map.required("each");
  if (theirs.is_scalar()) each.fail("each is ", each.found(), ", whose own variants are another file's");
  return theirs;
}

Values variant_values(const YamlValue& each, const std::string& variant) {
  std::vector<std::string> known;
  for (const auto& [name, given] : variants_of(each).map().entries()) {
    known.push_back(name);
    if (name != variant) continue;
    Values values{{"variant", YAML::Node(variant)}};
    if (given.is_null()) return values;
    for (const auto& [key, value] : given.map().entries()) values[key] = value.node();
    return values;
  }
  each.fail(unknown_name("variant", variant, known));
}

YamlValue load_variant(const TaskId& id) {
  const auto file = load_yaml(id.yaml_file);
  auto map = file.map();
  const auto each = map.optional("each");
  if (!each) {
    if (!id.variant.empty()) file.fail("the task has no variants, and '", id.variant, "' was asked for");
    return file;
  }
  if (id.variant.empty()) each->fail("the file defines several tasks: name one of its variants");
  const auto values = variant_values(*each, id.variant);
  for (const auto& [key, value] : map.entries()) {
    if (key != "each") put_values(value, value.node(), values);
  }
  return file;
}

TaskId base_of(const YamlValue& like) {
  const auto name = like.string();
  const auto suite_end = name.find('/');
  const auto variant_start = suite_end == std::string::npos ? suite_end : name.find('/', suite_end + 1);
  TaskId id{named_task_file(like, name.substr(0, variant_start)),
            variant_start == std::string::npos ? "" : name.substr(variant_start + 1)};
  if (id.yaml_file.empty()) like.fail("like is ", like.found(), ", which is no task");
  return id;
}

}  // namespace

std::string TaskId::name() const {
  const auto absolute = std::filesystem::absolute(yaml_file);
  const auto stem = concat(absolute.parent_path().filename().string(), "/", absolute.stem().string());
  return variant.empty() ? stem : stem + "/" + variant;
}

std::vector<std::string> task_variants(const std::filesystem::path& yaml_file) {
  auto map = load_yaml(yaml_file).map();
  const auto each = map.optional("each");
  if (!each) return {""};
  std::vector<std::string> names;
  for (const auto& [name, value] : variants_of(*each).map().entries()) names.push_back(name);
  if (names.empty()) each->fail("each is empty, expected at least one variant");
  return names;
}

YamlMap load_task_yaml(const TaskId& id) {
  auto map = load_variant(id).map();
  map.optional("each");
  map.lay_over("tasks", [](const YamlValue& like) { return load_variant(base_of(like)); });
  return map;
}

}  // namespace kvc
