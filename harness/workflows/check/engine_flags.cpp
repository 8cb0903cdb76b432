#include "check/engine_flags.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "kvc/check.h"
#include "text/files.h"
#include "text/nearest.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

constexpr char kNoCompressor[] = "cannot";
constexpr char kWindowedLayers[] = "sliding_window";  // in a rule, and to engines: the layers that have one
constexpr char kQuoted[] = "!";                       // the tag of a scalar in quotes

// A flag, or an environment variable given as NAME=VALUE.
struct Flag {
  std::vector<std::string> names;
  std::string option;   // of the engine's compressor, to which the value goes; "": each value is a compressor
  std::string sets;     // prefill_chunk or uncompressed_layers instead; "": neither
  std::string initial;  // the value where the flag is not given; "": none
  std::vector<std::pair<std::string, YAML::Node>> values;  // the engine's, and the compressor or option value for each
  std::optional<int64_t> n_ignored;                        // arguments that follow a flag without effect here
};

struct Engine {
  std::string name, summary;
  YAML::Node compressor;
  int64_t chunk = 0;
  std::string through;
  std::vector<Flag> flags;
};

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

std::vector<std::string> names_of(const std::vector<std::pair<std::string, YAML::Node>>& values) {
  std::vector<std::string> names;
  for (const auto& [name, node] : values) names.push_back(name);
  return names;
}

Flag read_flag(const YamlValue& item) {
  auto map = item.map();
  Flag flag;
  flag.names = map.required("names").strings();
  flag.option = map.optional_string("option", "");
  flag.initial = map.optional_string("default", "");
  if (const auto sets = map.optional("sets")) flag.sets = sets->choice({"prefill_chunk", "uncompressed_layers"});
  if (const auto ignored = map.optional("ignored")) flag.n_ignored = ignored->integer(0, 1);
  if (const auto values = map.optional("values")) {
    if (values->is_sequence()) {
      for (const auto& value : values->strings()) flag.values.emplace_back(value, YAML::Node(value));
    } else {
      auto by_name = values->map();
      for (const auto& [name, value] : by_name.entries()) flag.values.emplace_back(name, value.node());
    }
  }
  map.reject_unknown();
  return flag;
}

Engine read_engine(const fs::path& file) {
  auto map = load_yaml(file).map();
  map.required_integer("version", 1, 1);
  Engine engine;
  engine.name = map.required_string("engine");
  engine.summary = map.required_string("summary");
  engine.compressor = map.required("compressor").node();
  auto prefill = map.required("prefill").map();
  engine.chunk = prefill.required_integer("chunk", 1, 1 << 24);
  engine.through = prefill.required_choice("through", {"earlier", "all"});
  prefill.reject_unknown();
  for (const auto& item : map.required("flags").sequence()) engine.flags.push_back(read_flag(item));
  map.reject_unknown();
  return engine;
}

std::vector<Engine> read_engines(const fs::path& root) {
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(root / "configs" / "engines")) {
    if (file.path().extension() == ".yaml") files.push_back(file.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Engine> engines;
  for (const auto& file : files) engines.push_back(read_engine(file));
  return engines;
}

// What a command line of the engine comes to.
struct Setting {
  YAML::Node compressor;
  int64_t chunk;
  std::string through;
};

class CommandLine {
 public:
  CommandLine(const Engine& engine, std::string text, const std::string& words)
      : engine_(engine), text_(std::move(text)) {
    compressor_ = YAML::Clone(engine.compressor);
    chunk_ = engine.chunk;
    std::istringstream stream(words);
    for (std::string word; stream >> word;) words_.push_back(word);
  }

  Setting read() {
    std::map<const Flag*, std::string> given;
    for (size_t i = 0; i < words_.size();) i = read_word(i, given);
    for (const auto& flag : engine_.flags) {
      if (!flag.initial.empty()) given.try_emplace(&flag, flag.initial);
    }
    for (const auto& flag : engine_.flags) {  // compressors first: options are theirs
      if (given.contains(&flag) && flag.option.empty()) apply(flag, given.at(&flag));
    }
    for (const auto& flag : engine_.flags) {
      if (given.contains(&flag) && !flag.option.empty()) apply(flag, given.at(&flag));
    }
    return {with_uncompressed_layers(), chunk_, engine_.through};
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw Error(concat("--as '", text_, "': ", parts...));
  }

  // -> the index of the next word
  size_t read_word(size_t i, std::map<const Flag*, std::string>& given) {
    const auto equals = words_[i].find('=');
    const auto name = words_[i].substr(0, equals);
    std::vector<std::string> known;
    for (const auto& flag : engine_.flags) {
      known.insert(known.end(), flag.names.begin(), flag.names.end());
      if (std::find(flag.names.begin(), flag.names.end(), name) == flag.names.end()) continue;
      if (equals != std::string::npos) {
        if (!flag.n_ignored) given[&flag] = words_[i].substr(equals + 1);
        return i + 1;
      }
      const auto n_arguments = static_cast<size_t>(flag.n_ignored.value_or(1));
      if (i + n_arguments >= words_.size()) fail(name, " has no value");
      if (!flag.n_ignored) given[&flag] = words_[i + 1];
      i += 1 + n_arguments;
      for (; flag.sets == "uncompressed_layers" && i < words_.size() && words_[i][0] != '-'; ++i) {
        given[&flag] += "," + words_[i];  // a list, to some engines one word each
      }
      return i;
    }
    fail(unknown_name(concat("flag of ", engine_.name), name, known));
  }

  void apply(const Flag& flag, const std::string& value) {
    if (flag.sets == "prefill_chunk") {
      if (!is_number(value) || value.size() >= 8 || std::stoll(value) < 1)
        fail(flag.names.front(), " is '", value, "', expected a number of tokens");
      chunk_ = std::stoll(value);
      return;
    }
    if (flag.sets == "uncompressed_layers") {
      layers_ = read_layers(flag.names.front(), value);
      return;
    }
    const auto found =
        std::find_if(flag.values.begin(), flag.values.end(), [&](const auto& known) { return known.first == value; });
    if (found == flag.values.end()) {
      fail(unknown_name(concat("value of ", flag.names.front()), value, names_of(flag.values)));
    }
    const auto& meaning = found->second;
    if (meaning.IsMap() && meaning[kNoCompressor]) {
      fail(flag.names.front(), " ", value, " is not represented: ", meaning[kNoCompressor].Scalar());
    }
    if (flag.option.empty()) {
      compressor_ = YAML::Clone(meaning);
    } else {
      set_option(flag.option, meaning);
    }
  }

  std::vector<std::string> read_layers(const std::string& flag, const std::string& value) const {
    std::vector<std::string> layers;
    std::istringstream stream(value);
    for (std::string layer; std::getline(stream, layer, ',');) {
      if (!is_number(layer) && layer != kWindowedLayers) {
        fail(flag, " is '", value, "', expected numbers of layers such as 0,1,5, or ", kWindowedLayers);
      }
      layers.push_back(layer);
    }
    return layers;
  }

  void set_option(const std::string& option, const YAML::Node& value) {
    if (compressor_.IsScalar()) {
      const auto name = compressor_.Scalar();
      compressor_ = YAML::Node(YAML::NodeType::Map);
      compressor_[name] = YAML::Node(YAML::NodeType::Map);
    }
    compressor_.begin()->second[option] = value;
  }

  // A map of one entry, the compressor with its options; with other entries for layers left uncompressed.
  YAML::Node with_uncompressed_layers() const {
    auto entry = compressor_;
    if (entry.IsScalar()) {
      entry = YAML::Node(YAML::NodeType::Map);
      entry[compressor_.Scalar()] = YAML::Node();
    }
    if (layers_.empty()) return entry;
    YAML::Node rule(YAML::NodeType::Map), rules(YAML::NodeType::Map), whole(YAML::NodeType::Map);
    for (const auto& layer : layers_) rule["layers"].push_back(layer);
    rule["use"] = "full";
    rules["default"] = entry.begin()->second.IsNull() ? YAML::Node(entry.begin()->first.Scalar()) : entry;
    rules["where"].push_back(rule);
    whole["rules"] = rules;
    return whole;
  }

  const Engine& engine_;
  std::string text_;
  std::vector<std::string> words_, layers_;  // layers: as rules name them
  YAML::Node compressor_;
  int64_t chunk_ = 0;
};

// Flow style; what was quoted is quoted.
std::string in_one_line(const YAML::Node& node) {
  if (node.IsNull()) return "~";
  if (node.IsScalar()) return node.Tag() == kQuoted ? nlohmann::json(node.Scalar()).dump() : node.Scalar();
  std::vector<std::string> items;
  for (const auto& item : node) {
    items.push_back(node.IsMap() ? concat(item.first.Scalar(), ": ", in_one_line(item.second)) : in_one_line(item));
  }
  return node.IsMap() ? concat("{", join(items), "}") : concat("[", join(items), "]");
}

YAML::Node quoted(const std::string& text) {
  YAML::Node node(text);
  node.SetTag(kQuoted);
  return node;
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(' '), last = text.find_last_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

}  // namespace

std::string compressors_setting(const std::vector<std::string>& compressors) {
  return concat("compressors=[{full: ~, label: \"full precision\"}, ", join(compressors), "]");
}

std::string compressor_of_type(const std::string& type, const fs::path& root) {
  std::map<std::string, std::string> found;  // by engine
  for (const auto& engine : read_engines(root)) {
    std::string flags;
    for (const auto& flag : engine.flags) {
      const auto values = names_of(flag.values);
      if (std::find(values.begin(), values.end(), type) != values.end()) flags += concat(flag.names[0], " ", type, " ");
    }
    if (flags.empty()) continue;
    auto compressor = CommandLine(engine, concat(engine.name, ": ", flags), flags).read().compressor;
    compressor["label"] = quoted(type);
    found[engine.name] = in_one_line(compressor);
  }
  std::vector<std::string> engines;
  for (const auto& [engine, compressor] : found) engines.push_back(engine);
  KVC_CHECK(found.size() < 2, "'", type, "' is a cache type of ", join(engines, " and "),
            ": expected --as 'ENGINE: FLAGS'");
  return found.empty() ? "" : found.begin()->second;
}

std::vector<std::string> engine_settings(const std::vector<std::string>& as, const fs::path& root) {
  if (as.empty()) return {};
  const auto engines = read_engines(root);
  std::vector<std::string> names;
  for (const auto& engine : engines) names.push_back(engine.name);
  std::vector<std::string> compressors;
  std::optional<Setting> first;
  for (const auto& text : as) {
    const auto colon = text.find(':');
    const auto name = trimmed(text.substr(0, colon));
    const auto engine = std::find_if(engines.begin(), engines.end(), [&](const auto& e) { return e.name == name; });
    KVC_CHECK(engine != engines.end(), "--as '", text, "': ", unknown_name("engine", name, names));
    auto setting = CommandLine(*engine, text, colon == std::string::npos ? "" : text.substr(colon + 1)).read();
    setting.compressor["label"] = quoted(text);
    compressors.push_back(in_one_line(setting.compressor));
    if (!first) first = setting;
    KVC_CHECK(first->chunk == setting.chunk && first->through == setting.through, "--as '", text,
              "': it prefills in chunks of ", setting.chunk, " through ", setting.through, ", and '", as.front(),
              "' in chunks of ", first->chunk, " through ", first->through, ": expected the same, or separate checks");
  }
  return {compressors_setting(compressors),
          concat("prefill={chunk: ", first->chunk, ", through: ", first->through, "}")};
}

Table engine_table(const fs::path& root) {
  Table table;
  table.columns = {TableColumn{"engine"}, TableColumn{"flag"}, TableColumn{"value"}, TableColumn{"here"}};
  for (const auto& engine : read_engines(root)) {
    table.notes.push_back(concat(engine.name, " (", engine.summary, "): prompts in chunks of ", engine.chunk,
                                 " tokens, through ", engine.through));
    for (const auto& flag : engine.flags) {
      const auto names = join(flag.names);
      const auto row = [&](const std::string& value, const std::string& here) {
        table.rows.push_back({engine.name, names, value, here});
      };
      if (flag.n_ignored) row("any", "no effect on stored values");
      if (!flag.sets.empty())
        row(flag.sets == "prefill_chunk" ? "number" : concat("numbers, ", kWindowedLayers),
            flag.sets == "prefill_chunk" ? "tokens per chunk of a prompt" : "layers left uncompressed");
      for (const auto& [value, meaning] : flag.values) {
        const bool is_missing = meaning.IsMap() && meaning[kNoCompressor];
        row(value == flag.initial ? value + " (default)" : value,
            is_missing            ? concat("not represented: ", meaning[kNoCompressor].Scalar())
            : flag.option.empty() ? in_one_line(meaning)
                                  : concat(engine.compressor.Scalar(), " ", flag.option, " ", meaning.Scalar()));
      }
    }
  }
  return table;
}

}  // namespace kvc
