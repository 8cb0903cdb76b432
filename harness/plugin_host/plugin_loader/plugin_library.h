// A plugin's shared library, opened and believed only after it has shown that it was built against this program.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hosted/hosted_compressor.h"
#include "kvc/plugin.h"

namespace kvc {

// One option of a plugin, for `kvc plugins NAME`.
struct OptionDescription {
  std::string name;
  std::string type;  // integer, integers, real, choice, file
  nlohmann::json default_value;
  std::string allowed;  // "2, 4, 8", "0 to 1", "1 and more"
  std::string help;
};

// Throws Error unless the file is there, nobody else may write it, and its SHA-256 is the one that the run began with,
// if any. No code of it runs. -> its SHA-256
std::string check_plugin_file(const std::filesystem::path& file, const std::string& begun_with = "");

// A plugin: a shared library, or a compressor written in Python (a file that ends in .py).
class PluginLibrary {
 public:
  // Where its code runs. A Python file's always runs in a process of its own.
  enum class Runs : bool { here, in_own_process };

  // Opens the library and keeps it open for the life of the process: objects and code of a plugin may outlive anything.
  // Throws Error with one line that names the file and both values unless check_plugin_file holds, and then the file is
  // a shared library, it exports kvc_plugin, its ABI
  // version and build id are this program's, and its name is the file's stem (of a Python file, its name). Its code runs
  // from here on.
  // python: the interpreter of a Python file; "": KVC_PYTHON, or else python3.
  explicit PluginLibrary(const std::filesystem::path& file, const std::string& begun_with = "", Runs runs = Runs::here,
                         const std::string& python = "");

  const std::filesystem::path& file() const { return file_; }
  const PluginDescriptor& descriptor() const { return *descriptor_; }
  const std::string& sha256() const { return sha256_; }  // of the file
  // What else computes: of a Python file "Python 3.11.2, torch 2.11.0" and the files that it imported from its folder, of
  // a shared library those that it links (linked_libraries.h).
  std::string runtime() const;

  std::vector<OptionDescription> describe_options() const;

  // A compressor with these options (a JSON object, or null for the defaults). Throws Error naming option, value and
  // what is allowed. resolved, if given, becomes the canonical object of all options: every name, with the value in
  // force.
  std::unique_ptr<Compressor> make(const nlohmann::json& options, nlohmann::json* resolved = nullptr) const;

  // The same options with the files that they name taken relative to `folder`, absolute.
  nlohmann::json with_files_from(const std::filesystem::path& folder, const nlohmann::json& options) const;

 private:
  std::filesystem::path file_;
  std::string sha256_;
  const PluginDescriptor* descriptor_ = nullptr;  // of a library here, or described_
  // Of one in its own process.
  struct Described {
    HostedPlugin plugin;
    nlohmann::json said;
    PluginDescriptor descriptor;  // points into it; without functions
  };
  static std::shared_ptr<const Described> describe(const HostedPlugin& plugin);
  std::shared_ptr<const Described> described_;
};

// Whether its compressors are to run in a process of their own: Python always does; isolation: "process", "none", or "":
// process unless the plugin was built with kvc.
bool runs_in_own_process(const std::filesystem::path& file, const std::string& isolation);

// The *.so files of these folders, in the folders' order, each sorted by name. Throws Error where a folder is missing.
std::vector<std::filesystem::path> find_plugins(const std::vector<std::filesystem::path>& folders);

// The plugin of that name in the first folder that has one. A name that ends in .py is a file's: absolute, relative to
// `files_from`, to the process's folder or to kvc's own, or in one of the folders. Throws Error with the nearest and the known names.
std::filesystem::path find_plugin(const std::string& name, const std::vector<std::filesystem::path>& folders,
                                  const std::filesystem::path& files_from = {});

}  // namespace kvc
