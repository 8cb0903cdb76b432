#include "experiment/open_compressor.h"

#include <algorithm>

#include "compressors/build_compressor.h"
#include "compressors/plugin_library.h"
#include "kvc/plugin.h"
#include "text/nearest.h"

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

// With the plugins' files, found by their names.
CompressorChoice with_files(CompressorChoice choice, const fs::path& folder, const std::vector<fs::path>& folders) {
  for (auto& part : choice.parts) part = with_files(std::move(part), folder, folders);
  if (choice.kind != CompressorChoice::Kind::plugin) return choice;
  try {
    choice.file = find_plugin(choice.plugin, folders).string();
    choice.options = PluginLibrary(choice.file).with_files_from(folder, choice.options);
  } catch (const Error& e) {
    throw Error(choice.where + ": error: " + e.what());
  }
  return choice;
}

// The hashes of the plugins' files, each once, in order.
std::string plugin_hashes(const std::vector<StageRow>& stages) {
  std::vector<std::string> hashes;
  for (const auto& stage : stages) {
    if (std::find(hashes.begin(), hashes.end(), stage.plugin_sha256) == hashes.end()) {
      hashes.push_back(stage.plugin_sha256);
    }
  }
  return join(hashes, "+");
}

}  // namespace

OpenedCompressor open_compressor(const CompressorChoice& choice, const fs::path& folder,
                                 const std::vector<fs::path>& folders, const ModelShape& shape,
                                 const std::string& model, std::vector<CompressorChoice>& compressors) {
  compressors.push_back(with_files(choice, folder, folders));
  auto built = build_compressor(compressors.back(), shape, model);
  const auto& compressor = *built.part.compressor;
  try {
    compressor.check_model(shape);
  } catch (const Error& e) {
    throw Error(choice.where + ": error: " + e.what());
  }
  OpenedCompressor opened;
  opened.record.plugin = built.part.name;
  opened.record.plugin_sha256 = plugin_hashes(built.stages);
  opened.record.options_json = built.resolved.dump();
  opened.record.options_label = composition_label(choice);
  opened.record.label = choice.label;
  opened.record.bits = compressor.bits();
  opened.record.formula = built.part.capabilities.formula;
  KVC_CHECK(opened.record.bits > 0 && opened.record.bits <= 32, choice.where, ": error: bits() of ", built.part.name,
            " is ", opened.record.bits, ", expected above 0, at most 32");
  opened.record.lossy = built.part.capabilities.lossy;
  opened.record.simulated = built.part.capabilities.simulated;
  if (!choice.parts.empty()) opened.record.stages = built.stages;
  opened.key = {
      {"plugin", built.part.name}, {"plugin_sha256", opened.record.plugin_sha256}, {"options", built.resolved}};
  return opened;
}

}  // namespace kvc
