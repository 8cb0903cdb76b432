#include <algorithm>
#include <sstream>

#include "conformance/checks.h"

namespace kvc::conformance {
namespace {

// "2, 4, 8" -> the values; nothing for ranges. A file: its words, and any file that is there (it is not read).
std::vector<nlohmann::json> listed_values(const PluginLibrary& plugin, const OptionDescription& option) {
  std::vector<nlohmann::json> values;
  if (option.allowed.find(" to ") != std::string::npos || option.allowed.find(" and more") != std::string::npos)
    return values;
  std::istringstream text(option.allowed);
  for (std::string word; std::getline(text >> std::ws, word, ',');) {
    if (option.type == "file" && word.ends_with("a file")) word = plugin.file();
    values.push_back(option.type == "integer" ? nlohmann::json(std::stoll(word)) : nlohmann::json(word));
  }
  return values;
}

bool accepted(const PluginLibrary& plugin, const nlohmann::json& options, const ModelShape& model) {
  try {
    plugin.make(options)->check_model(model);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<nlohmann::json> option_sweep(const PluginLibrary& plugin, const ModelShape& model) {
  // The smallest listed group serves the shapes that the default does not divide.
  nlohmann::json base = nlohmann::json::object();
  const auto described = plugin.describe_options();
  if (!accepted(plugin, base, model)) {
    for (const auto& option : described) {
      if (option.name == "group_size") base["group_size"] = 16;
    }
  }
  std::vector<nlohmann::json> sweep = {base};
  const auto with = [&](nlohmann::json options, const std::string& name, const nlohmann::json& value) {
    options[name] = value;
    sweep.push_back(options);
  };
  // A value that is refused alone may want a file beside it.
  const auto with_files = [&](const std::string& name, const nlohmann::json& value) {
    for (const auto& file : described) {
      if (file.type != "file" || file.name == name) continue;
      for (const auto& named : listed_values(plugin, file)) {
        auto options = base;
        options[file.name] = named;
        with(options, name, value);
      }
    }
  };
  for (const auto& option : described) {
    for (const auto& value : listed_values(plugin, option)) {
      if (value == option.default_value) continue;
      auto alone = base;
      alone[option.name] = value;
      accepted(plugin, alone, model) ? with(base, option.name, value) : with_files(option.name, value);
    }
    if (option.name == "recent") with(base, option.name, 0);
    if (option.name == "sparsity") with(base, option.name, 0);
    if (option.name == "rank") with(base, option.name, 0);
    if (option.name == "backbone") {  // backbones differ most at 2 bits
      for (const auto& value : listed_values(plugin, option))
        with({{"backbone", value}, {"bits", 2}, {"group_size", 16}, {"buffer", 16}}, "sparsity", 0.1);
    }
  }
  std::erase_if(sweep, [&](const auto& options) { return !accepted(plugin, options, model); });
  return sweep;
}

}  // namespace kvc::conformance
