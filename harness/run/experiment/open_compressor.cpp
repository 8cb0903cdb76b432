#include "experiment/open_compressor.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "experiment/fill_label.h"
#include "experiment/read_compressors.h"
#include "kvc/plugin.h"
#include "plugin_loader/build_compressor.h"
#include "plugin_loader/plugin_library.h"
#include "plugin_loader/plugin_trust.h"
#include "text/files.h"
#include "text/nearest.h"
#include "wire/forked_child.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// "bits 2, group_size 64": the options that were given
std::string options_label(const json& options) {
  std::vector<std::string> words;
  for (const auto& [name, value] : options.items()) {
    words.push_back(name + " " + (value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return words.empty() ? "defaults" : join(words);
}

// "snapkv capacity 64 + kivi bits 2", "kivi bits 4; layers 0-1: kivi bits 8": what was given of each part
std::string composition_label(const CompressorChoice& choice) {
  if (choice.parts.empty()) return options_label(choice.options);
  std::string text;
  for (size_t i = 0; i < choice.parts.size(); ++i) {
    const auto& part = choice.parts[i];
    if (i > 0) text += choice.scopes.empty() ? " + " : concat("; ", to_string(choice.scopes[i - 1]), ": ");
    const auto inner = composition_label(part);
    text += !part.parts.empty()    ? concat("(", inner, ")")
            : part.options.empty() ? part.plugin
                                   : part.plugin + " " + inner;
  }
  return choice.block ? concat(text, ", block ", *choice.block) : text;
}

template <class Act>
auto at_place(const CompressorChoice& choice, Act act) {
  try {
    return act();
  } catch (const Error& e) {
    throw Error(choice.where + ": error: " + e.what());
  }
}

// With the plugins' files and their hashes: they are there, may be opened, and none of their code has run.
CompressorChoice with_files(CompressorChoice choice, const CompressorPlace& place, const AllowedPlugins& allowed) {
  for (auto& part : choice.parts) part = with_files(std::move(part), place, allowed);
  if (choice.kind != CompressorChoice::Kind::plugin) return choice;
  at_place(choice, [&] {
    const auto file = find_plugin(choice.plugin, place.plugins, place.folder);
    choice.file = file.string();
    choice.plugin = file.extension() == ".py" ? file.filename().string() : choice.plugin;
    choice.in_own_process = runs_in_own_process(file, place.isolation.isolation);
    choice.python = place.isolation.python;
    refuse_if_others_write(choice.file);
    choice.sha256 = sha256_file(choice.file);
    allowed.check(choice.file, choice.sha256);
    return 0;
  });
  return choice;
}

// The plugins of a compressor, in the order in which they are its stages.
std::vector<const CompressorChoice*> plugins_of(const CompressorChoice& choice) {
  if (choice.kind == CompressorChoice::Kind::plugin) return {&choice};
  std::vector<const CompressorChoice*> plugins;
  for (const auto& part : choice.parts) {
    const auto inner = plugins_of(part);
    plugins.insert(plugins.end(), inner.begin(), inner.end());
  }
  return plugins;
}

// In the child from here to open_one(): the plugins' code runs.
void place_option_files(CompressorChoice& choice, const fs::path& folder) {
  for (auto& part : choice.parts) place_option_files(part, folder);
  if (choice.kind != CompressorChoice::Kind::plugin) return;
  choice.options = at_place(choice, [&] { return library_of(choice).with_files_from(folder, choice.options); });
}

void check_devices(const CompressorChoice& choice, const Part& part, const std::vector<std::string>& devices) {
  for (const auto& device : devices) {
    KVC_CHECK(device == "cpu" || part.capabilities.devices == std::string_view(), choice.where, ": error: ", part.name,
              " on device ", device, ", allowed: cpu, since ", part.capabilities.devices);
  }
}

// "": it can.
std::string why_refused(const Compressor& compressor, const ModelShape& model) {
  try {
    compressor.check_model(model);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

json open_one(CompressorChoice choice, const CompressorPlace& place, Refused kept) {
  place_option_files(choice, place.folder);
  const auto built = build_compressor(choice, place.shape, place.model_identity);
  const auto& compressor = *built.part.compressor;
  check_devices(choice, built.part, place.devices);
  KVC_CHECK(!place.prompt_in_chunks || built.part.capabilities.chunked_prompt, choice.where,
            ": error: ", built.part.name,
            " needs the whole prompt at once, and `prefill` has chunks: expected another compressor");
  const auto refused = why_refused(compressor, place.shape);
  KVC_CHECK(refused.empty() || kept == Refused::kKept, choice.where, ": error: ", refused);
  const double bits = compressor.bits();
  KVC_CHECK(bits > 0 && bits <= 32, choice.where, ": error: bits() of ", built.part.name, " is ", bits,
            ", expected above 0, at most 32");
  json opened = {{"plugin", built.part.name},
                 {"resolved", built.resolved},
                 {"bits", bits},
                 {"refused", refused},
                 {"formula", built.part.capabilities.formula},
                 {"lossy", built.part.capabilities.lossy},
                 {"simulated", built.part.capabilities.simulated},
                 {"evicts", built.part.capabilities.evicts}};
  for (const auto* plugin : plugins_of(choice)) opened["options"].push_back(plugin->options);
  for (size_t i = 0; i < built.stages.size(); ++i) {
    const auto& stage = built.stages[i];
    opened["stages"].push_back(json::array({stage.place, stage.options_json, built.runtimes[i]}));
  }
  return opened;
}

// Of each plugin, its options and what computes with it.
void put_said(const json& said, size_t& next, CompressorChoice& choice) {
  for (auto& part : choice.parts) put_said(said, next, part);
  if (choice.kind != CompressorChoice::Kind::plugin) return;
  choice.options = said.at("options").at(next);
  choice.runtime = said.at("stages").at(next).at(2);
  ++next;
}

// Of what computes: a plugin's file, and what it links or runs in.
std::string hash_of(const CompressorChoice& plugin) {
  return plugin.runtime.empty() ? plugin.sha256 : sha256_hex(concat(plugin.sha256, "\n", plugin.runtime));
}

// Each once, in order.
std::string joined_hashes(const std::vector<std::string>& of_plugins) {
  std::vector<std::string> hashes;
  for (const auto& hash : of_plugins) {
    if (std::find(hashes.begin(), hashes.end(), hash) == hashes.end()) hashes.push_back(hash);
  }
  return join(hashes, "+");
}

// Files and hashes as this process found them, the rest as the child says.
OpenedCompressor opened_of(const CompressorChoice& found, const json& said) {
  OpenedCompressor opened{found, {}, {}, said.at("refused")};
  size_t next = 0;
  put_said(said, next, opened.choice);
  const auto plugins = plugins_of(opened.choice);
  auto& record = opened.record;
  record.plugin = said.at("plugin");
  std::vector<std::string> hashes;
  for (const auto* plugin : plugins) hashes.push_back(hash_of(*plugin));
  record.plugin_sha256 = joined_hashes(hashes);
  record.options_json = said.at("resolved").dump();
  record.options_label = composition_label(found);
  record.bits = said.at("bits");
  record.formula = said.at("formula");
  record.lossy = said.at("lossy");
  record.simulated = said.at("simulated");
  record.evicts = said.at("evicts");
  for (size_t i = 0; !found.parts.empty() && i < plugins.size(); ++i) {
    const auto& stage = said.at("stages").at(i);
    record.stages.push_back({plugins[i]->plugin, hashes[i], stage.at(0), stage.at(1)});
  }
  record.label = opened.choice.label = filled_label(found, record);
  opened.key = {{"plugin", record.plugin}, {"plugin_sha256", record.plugin_sha256}, {"options", said.at("resolved")}};
  return opened;
}

// Of an option that only some rows of a plugin name, although all have the same value by default, no label speaks.
void leave_out_defaults(const std::vector<CompressorChoice>& found, std::vector<OpenedCompressor>& opened) {
  std::map<std::string, std::vector<size_t>> rows_of;  // by plugin; compositions are left as they are
  for (size_t i = 0; i < opened.size(); ++i) {
    if (found[i].parts.empty()) rows_of[opened[i].record.plugin].push_back(i);
  }
  for (const auto& [plugin, rows] : rows_of) {
    for (const size_t i : rows) {
      auto told = found[i].options;
      for (const auto& [name, value] : found[i].options.items()) {
        const auto value_in = [&](size_t row) { return opened[row].key["options"].value(name, json()); };
        const bool all_name_it =
            std::ranges::all_of(rows, [&](size_t row) { return found[row].options.contains(name); });
        const bool all_have_it = std::ranges::all_of(rows, [&](size_t row) { return value_in(row) == value_in(i); });
        if (all_have_it && !all_name_it) told.erase(name);
      }
      opened[i].record.options_label = options_label(told);
    }
  }
}

// Their cells would be the same cells.
void check_different(const std::vector<OpenedCompressor>& compressors) {
  std::set<std::string> taken;
  for (const auto& one : compressors) {
    const auto& record = one.record;
    KVC_CHECK(taken.insert(one.key.dump()).second, one.choice.where, ": error: compressor '", record.plugin,
              record.options_label.empty() ? "" : " ", record.options_label, "' is there twice, expected each once");
  }
}

}  // namespace

std::string name_in_errors(const CompressorChoice& choice) {
  std::vector<std::string> names;
  for (const auto* plugin : plugins_of(choice)) names.push_back(concat("'", plugin->plugin, "'"));
  return concat(choice.where, ": error: plugin ", join(names, " or "));
}

CompressorPlace compressor_place(const Experiment& experiment, const Paths& paths, const ModelShape& shape,
                                 const std::string& identity) {
  return {experiment.folder,
          plugin_folders(experiment.plugin_path, paths),
          experiment.allow_plugins,
          shape,
          identity,
          experiment.devices,
          experiment.prefill.chunk > 0,
          experiment.isolation};
}

std::vector<OpenedCompressor> open_compressors(const std::vector<CompressorChoice>& choices,
                                               const CompressorPlace& place, Refused refused) {
  const AllowedPlugins allowed(place.allow_plugins);
  std::vector<CompressorChoice> found;
  std::vector<std::string> names;
  for (const auto& choice : choices) {
    found.push_back(with_files(choice, place, allowed));
    names.push_back(name_in_errors(choice));
  }
  const auto said = in_child(names, [&](size_t i) { return open_one(found[i], place, refused); });
  std::vector<OpenedCompressor> opened;
  for (size_t i = 0; i < said.size(); ++i) {
    try {
      opened.push_back(opened_of(found[i], said[i]));
    } catch (const json::exception& e) {
      throw Error(concat(names[i], ": its description is invalid: ", e.what()));
    }
  }
  leave_out_defaults(found, opened);
  std::vector<CompressorChoice> labelled;
  for (const auto& one : opened) labelled.push_back(one.choice);
  check_labels(labelled);  // two may have become alike
  check_different(opened);
  return opened;
}

}  // namespace kvc
