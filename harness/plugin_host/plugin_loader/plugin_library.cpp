#include "plugin_loader/plugin_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <cstdlib>

#include "hosted/kvc_library.h"
#include "hosted/shape_json.h"
#include "plugin_loader/linked_libraries.h"
#include "plugin_loader/option_values.h"
#include "plugin_loader/plugin_trust.h"
#include "text/files.h"
#include "text/nearest.h"
#include "text/program_paths.h"

namespace kvc {
namespace {

constexpr const char* kSymbol = "kvc_plugin";

// What plugins link and this program does not: once it is open, a plugin finds it wherever its own file lies.
void open_what_plugins_link() {
  KVC_CHECK(::dlopen(kvc_library("libkvc_quant.so").c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE), ::dlerror());
}

// The descriptor of a library that stays in the process, whoever closes it.
const PluginDescriptor* open_for_ever(const std::filesystem::path& file) {
  namespace load_mode = boost::dll::load_mode;
  constexpr auto kStays = static_cast<load_mode::type>(RTLD_NODELETE);
  boost::dll::shared_library library;
  boost::dll::fs::error_code error;
  open_what_plugins_link();
  library.load(file, error, load_mode::rtld_now | load_mode::rtld_local | kStays);
  if (error) {
    const char* why = ::dlerror();  // names a library or a function that is missing
    throw Error(concat(file.string(), ": not a shared library that can be opened: ", why ? why : error.message()));
  }
  KVC_CHECK(library.has(kSymbol), file.string(), ": has no symbol ", kSymbol, "; does it have a KVC_PLUGIN line?");
  return library.get<const PluginDescriptor*>(kSymbol);
}

std::string interpreter(const std::string& named) {
  if (!named.empty()) return named;
  const char* set = std::getenv("KVC_PYTHON");
  return set && *set ? set : "python3";
}

// "uniform, learned, a file" -> the words
std::vector<std::string> words_of(const std::string& allowed) {
  std::vector<std::string> words;
  for (size_t from = 0; from < allowed.size();) {
    const auto to = std::min(allowed.find(", ", from), allowed.size());
    words.push_back(allowed.substr(from, to - from));
    from = to + 2;
  }
  return words;
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

PluginLibrary::PluginLibrary(const std::filesystem::path& file, const std::string& begun_with, Runs runs,
                             const std::string& python)
    : file_(std::filesystem::absolute(file)), sha256_(check_plugin_file(file_, begun_with)) {
  const bool is_python = file_.extension() == ".py";
  if (is_python || runs == Runs::in_own_process) {
    described_ = describe({file_.string(), sha256_, is_python ? interpreter(python) : ""});
    descriptor_ = &described_->descriptor;
  } else {
    descriptor_ = open_for_ever(file_);
    KVC_CHECK(descriptor_->abi_version == kAbiVersion, file_.string(), ": ABI version ", descriptor_->abi_version,
              ", this program has ", kAbiVersion, "; build the plugin again");
    KVC_CHECK(std::string_view(descriptor_->build_id) == KVC_BUILD_ID, file_.string(), ": build id ",
              descriptor_->build_id, ", this program has ", KVC_BUILD_ID, "; build the plugin again");
  }
  const auto expected = is_python ? file_.filename() : file_.stem();
  KVC_CHECK(descriptor_->name == expected.string(), file_.string(), ": calls itself '", descriptor_->name,
            "', expected '", expected.string(), "' like the file");
}

std::shared_ptr<const PluginLibrary::Described> PluginLibrary::describe(const HostedPlugin& plugin) {
  auto described = std::make_shared<Described>(Described{plugin, describe_hosted(plugin), {}});
  const auto& said = described->said;
  const auto text = [&](const char* key) { return said.at(key).get_ref<const std::string&>().c_str(); };
  try {
    described->descriptor = {kAbiVersion,        KVC_BUILD_ID, text("name"), text("summary"), text("source"),
                             text("deviations"), {},           nullptr,      nullptr};
    from_json(said.at("capabilities"), described->descriptor.capabilities);
    for (const auto& option : said.at("options")) {
      for (const char* key : {"name", "type", "allowed", "help"}) option.at(key).get_ref<const std::string&>();
    }
  } catch (const nlohmann::json::exception& e) {
    throw Error(concat(plugin.file, ": its description is not valid: ", e.what()));
  }
  static std::vector<std::shared_ptr<const Described>> kept;  // as libraries: texts of a plugin may outlive anything
  kept.push_back(described);
  return described;
}

std::string PluginLibrary::runtime() const {
  return described_ ? described_->said.value("runtime", "") : linked_libraries(descriptor_);
}

std::vector<OptionDescription> PluginLibrary::describe_options() const {
  if (described_) {
    std::vector<OptionDescription> options;
    for (const auto& each : described_->said.at("options")) {
      options.push_back({each.at("name"), each.at("type"), each.value("default", nlohmann::json()), each.at("allowed"),
                         each.at("help")});
    }
    return options;
  }
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
  if (described_) return make_hosted(described_->plugin, given, resolved);
  OptionAssigner assigner(plugin, given);
  auto compressor = descriptor_->create(assigner);
  if (resolved) *resolved = assigner.resolved;
  return compressor;
}

nlohmann::json PluginLibrary::with_files_from(const std::filesystem::path& folder,
                                              const nlohmann::json& options) const {
  auto placed = options;
  OptionFilePlacer placer(folder, placed);
  if (!options.is_object()) return placed;
  if (!described_) {
    descriptor_->visit_defaults(placer);
    return placed;
  }
  for (const auto& option : describe_options()) {
    if (option.type == "file") placer.place(option.name, words_of(option.allowed));
  }
  return placed;
}

namespace {

std::filesystem::path find_python_file(const std::string& name, const std::vector<std::filesystem::path>& folders,
                                       const std::filesystem::path& files_from) {
  std::vector<std::filesystem::path> places{files_from, "", find_paths().root};
  places.insert(places.end(), folders.begin(), folders.end());
  for (const auto& place : places) {
    if (std::filesystem::is_regular_file(place / name))
      return std::filesystem::absolute(place / name).lexically_normal();
  }
  throw Error(concat("compressor '", name, "': no such file in '", std::filesystem::absolute(files_from).string(),
                     "' or '", std::filesystem::current_path().string(), "'"));
}

}  // namespace

bool runs_in_own_process(const std::filesystem::path& file, const std::string& isolation) {
  if (file.extension() == ".py" || isolation == "process") return true;
  std::error_code error;
  return isolation.empty() &&
         !(file.extension() == ".so" &&
           std::filesystem::equivalent(std::filesystem::absolute(file).parent_path(), find_paths().plugins, error));
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

std::filesystem::path find_plugin(const std::string& name, const std::vector<std::filesystem::path>& folders,
                                  const std::filesystem::path& files_from) {
  if (name.ends_with(".py")) return find_python_file(name, folders, files_from);
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
