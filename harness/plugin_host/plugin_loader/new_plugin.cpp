#include "plugin_loader/new_plugin.h"

#include "kvc/check.h"
#include "text/files.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestName = 64;

void check_name(const std::string& name, const fs::path& built_in) {
  const bool is_snake_case = !name.empty() && name.size() <= kLongestName && name.front() >= 'a' &&
                             name.front() <= 'z' &&
                             name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
  KVC_CHECK(is_snake_case, "plugin name '", name,
            "', allowed: a lower-case letter, then lower-case letters, digits and ", "underscores, at most ",
            kLongestName);
  KVC_CHECK(!fs::exists(built_in / (name + ".so")), "plugin name '", name, "' is a built-in plugin's");
}

std::string with_name(std::string_view text, const std::string& name) {
  constexpr std::string_view kPlaceholder = "@NAME@";
  std::string out;
  for (size_t at; (at = text.find(kPlaceholder)) != std::string_view::npos;) {
    out += std::string(text.substr(0, at)) + name;
    text.remove_prefix(at + kPlaceholder.size());
  }
  return out + std::string(text);
}

}  // namespace

fs::path write_new_plugin(const std::string& name, const fs::path& into, const fs::path& built_in,
                          PluginLanguage language) {
  check_name(name, built_in);
  const auto folder = (into / name).lexically_normal();
  KVC_CHECK(!fs::exists(folder), folder.string(), ": exists already; nothing is overwritten");
  std::error_code error;
  fs::create_directories(folder, error);
  KVC_CHECK(!error, folder.string(), ": cannot be made: ", error.message());
  try {
    if (language == PluginLanguage::python) {
      write_file(folder / (name + ".py"), with_name(template_python(), name));
      write_file(folder / ("test_" + name + ".py"), with_name(template_python_test(), name));
    } else {
      write_file(folder / "CMakeLists.txt", with_name(template_cmake(), name));
      write_file(folder / (name + ".cpp"), with_name(template_cpp(), name));
    }
  } catch (const Error&) {
    fs::remove_all(folder, error);
    throw;
  }
  return folder;
}

}  // namespace kvc
