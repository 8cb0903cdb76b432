#include "plugin_loader/plugin_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>

#include "plugin_loader/option_values.h"
#include "plugin_loader/plugin_trust.h"
#include "text/files.h"
#include "text/nearest.h"

namespace kvc {
namespace {

constexpr const char* kSymbol = "kvc_plugin";

// The descriptor of a library that stays in the process, whoever closes it.
const PluginDescriptor* open_for_ever(const std::filesystem::path& file) {
  namespace load_mode = boost::dll::load_mode;
  constexpr auto kStays = static_cast<load_mode::type>(RTLD_NODELETE);
  boost::dll::shared_library library;
  boost::dll::fs::error_code error;
  library.load(file, error, load_mode::rtld_now | load_mode::rtld_local | kStays);
  KVC_CHECK(!error, file.string(), ": not a shared library that can be opened: ", error.message());
  KVC_CHECK(library.has(kSymbol), file.string(), ": has no symbol ", kSymbol, "; does it have a KVC_PLUGIN line?");
  return library.get<const PluginDescriptor*>(kSymbol);
}

}  // namespace

std::string check_plugin_file(const std::filesystem::path& file, const std::string& begun_with) {
  KVC_CHECK(std::filesystem::is_regular_file(file), file.string(), ": no such plugin file");
  refuse_if_others_write(file);
  auto sha256 = sha256_file(file);
  KVC_CHECK(begun_with.empty() || sha256 == begun_with, file.string(), ": SHA-256 is ", sha256, ", the run began with ",
            begun_with, ": the file was replaced");
  return sha256;
}

PluginLibrary::PluginLibrary(const std::filesystem::path& file, const std::string& begun_with)
    : file_(std::filesystem::absolute(file)), sha256_(check_plugin_file(file_, begun_with)) {
  descriptor_ = open_for_ever(file_);
  KVC_CHECK(descriptor_->abi_version == kAbiVersion, file_.string(), ": ABI version ", descriptor_->abi_version,
            ", this program has ", kAbiVersion, "; build the plugin again");
  KVC_CHECK(std::string_view(descriptor_->build_id) == KVC_BUILD_ID, file_.string(), ": build id ",
            descriptor_->build_id, ", this program has ", KVC_BUILD_ID, "; build the plugin again");
  KVC_CHECK(descriptor_->name == file_.stem().string(), file_.string(), ": calls itself '", descriptor_->name,
            "', expected '", file_.stem().string(), "' like the file");
}

std::vector<OptionDescription> PluginLibrary::describe_options() const {
  OptionDescriber describer;
  descriptor_->visit_defaults(describer);
  return std::move(describer.descriptions);
}

std::unique_ptr<Compressor> PluginLibrary::make(const nlohmann::json& options, nlohmann::json* resolved) const {
  const std::string plugin = concat("plugin '", descriptor_->name, "'");
  const auto given = options.is_null() ? nlohmann::json::object() : options;
  KVC_CHECK(given.is_object(), plugin, ": options are ", given.dump(), ", expected name: value pairs");
  std::vector<std::string> known;
  for (const auto& option : describe_options()) known.push_back(option.name);
  for (const auto& [name, value] : given.items()) {
    KVC_CHECK(std::find(known.begin(), known.end(), name) != known.end(), plugin, ": ",
              unknown_name("option", name, known));
  }
  OptionAssigner assigner(plugin, given);
  auto compressor = descriptor_->create(assigner);
  if (resolved) *resolved = assigner.resolved;
  return compressor;
}

nlohmann::json PluginLibrary::with_files_from(const std::filesystem::path& folder,
                                              const nlohmann::json& options) const {
  auto placed = options;
  OptionFilePlacer placer(folder, placed);
  if (options.is_object()) descriptor_->visit_defaults(placer);
  return placed;
}

std::vector<std::filesystem::path> find_plugins(const std::vector<std::filesystem::path>& folders) {
  std::vector<std::filesystem::path> found;
  for (const auto& folder : folders) {
    KVC_CHECK(std::filesystem::is_directory(folder), "plugin folder ", folder.string(), " does not exist");
    const auto first = static_cast<std::ptrdiff_t>(found.size());
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".so") found.push_back(entry.path());
    }
    std::sort(found.begin() + first, found.end());
  }
  return found;
}

std::filesystem::path find_plugin(const std::string& name, const std::vector<std::filesystem::path>& folders) {
  std::vector<std::string> known;
  for (const auto& file : find_plugins(folders)) {
    if (file.stem() == name) return file;
    known.push_back(file.stem());
  }
  std::vector<std::string> names;
  for (const auto& folder : folders) names.push_back("'" + folder.string() + "'");
  throw Error(concat(unknown_name("compressor", name, known), "; plugins of ", join(names)));
}

}  // namespace kvc
