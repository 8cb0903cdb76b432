// The plugin that an author starts from.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace kvc {

enum class PluginLanguage { cpp, python };

// Writes <into>/<name>/CMakeLists.txt and <name>.cpp, or <name>.py and test_<name>.py, and returns that folder. Throws
// Error where the name is no snake_case name, or that of a plugin in `built_in`, and where the folder exists.
std::filesystem::path write_new_plugin(const std::string& name, const std::filesystem::path& into,
                                       const std::filesystem::path& built_in,
                                       PluginLanguage language = PluginLanguage::cpp);

// harness/plugin_host/plugin_loader/template/*, NAME standing for the plugin's name.
std::string_view template_cmake();
std::string_view template_cpp();
std::string_view template_python();
std::string_view template_python_test();

}  // namespace kvc
