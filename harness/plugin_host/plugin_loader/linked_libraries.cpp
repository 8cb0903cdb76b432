#include "plugin_loader/linked_libraries.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <map>
#include <vector>

#include "kvc/check.h"
#include "text/files.h"

namespace kvc {
namespace {

struct Linked {
  std::string file;
  std::vector<std::string> needed;  // names
};
using ByName = std::map<std::string, Linked>;

// Of a loaded library: its name (that of its file, where it has none), and what it links.
std::pair<std::string, Linked> linked_by(const link_map& library) {
  const char* texts = nullptr;
  for (const auto* entry = library.l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != DT_STRTAB) continue;
    const auto at = entry->d_un.d_ptr;  // of the kernel's own library relative to where it lies
    texts = reinterpret_cast<const char*>(at < library.l_addr ? at + library.l_addr : at);
  }
  std::string name = std::filesystem::path(library.l_name).filename();
  Linked linked{library.l_name, {}};
  for (const auto* entry = library.l_ld; texts && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SONAME) name = texts + entry->d_un.d_val;
    if (entry->d_tag == DT_NEEDED) linked.needed.emplace_back(texts + entry->d_un.d_val);
  }
  return {name, linked};
}

// With those that they link, and so on.
void add_closure(const std::vector<std::string>& names, const ByName& loaded, ByName& found) {
  for (const auto& name : names) {
    const auto library = loaded.find(name);
    if (library == loaded.end() || !found.insert(*library).second) continue;
    add_closure(library->second.needed, loaded, found);
  }
}

bool is_of_python_package(const std::string& file) {
  return file.find("/site-packages/") != file.npos || file.find("/dist-packages/") != file.npos;
}

}  // namespace

std::string linked_libraries(const void* inside) {
  Dl_info info{};
  void* found = nullptr;
  KVC_CHECK(::dladdr1(inside, &info, &found, RTLD_DL_LINKMAP) != 0 && found, "no loaded library is at ", inside);
  const auto* plugin = static_cast<const link_map*>(found);
  const auto* first = plugin;  // the program
  while (first->l_prev) first = first->l_prev;
  ByName loaded, of_program, of_plugin;
  for (const auto* library = first->l_next; library; library = library->l_next) loaded.insert(linked_by(*library));
  add_closure(linked_by(*first).second.needed, loaded, of_program);
  add_closure(linked_by(*plugin).second.needed, loaded, of_plugin);
  std::string text;
  for (const auto& [name, library] : of_plugin) {
    if (is_of_python_package(library.file) || (of_program.contains(name) && !name.starts_with("libkvc"))) continue;
    text += concat(text.empty() ? "" : ", ", name, " ", sha256_file(library.file));
  }
  return text;
}

}  // namespace kvc
