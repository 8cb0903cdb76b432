#include "cuda/host/launch_log.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <regex>

namespace kvc::cuda_emulated {
namespace {

constinit thread_local LaunchLog* current = nullptr;

template <class T>
std::vector<T> read_array(std::ifstream& file, std::uint64_t at, std::uint64_t bytes) {
  std::vector<T> all(bytes / sizeof(T));
  file.seekg(static_cast<std::streamoff>(at));
  file.read(reinterpret_cast<char*>(all.data()), static_cast<std::streamsize>(all.size() * sizeof(T)));
  return file ? all : std::vector<T>();
}

// The function's at an address of a file that was loaded at `base`: by its whole table of symbols, since kernels are
// hidden from the linker.
std::string mangled_name(const char* path, std::uint64_t address, std::uint64_t base) {
  std::ifstream file(path, std::ios::binary);
  const auto header = read_array<Elf64_Ehdr>(file, 0, sizeof(Elf64_Ehdr));
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0) return "";
  const std::uint64_t at = header[0].e_type == ET_EXEC ? address : address - base;
  const auto sections = read_array<Elf64_Shdr>(file, header[0].e_shoff, header[0].e_shnum * sizeof(Elf64_Shdr));
  for (const auto& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    for (const auto& symbol : read_array<Elf64_Sym>(file, section.sh_offset, section.sh_size)) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_value != at) continue;
      const auto& names = sections[section.sh_link];
      const auto name = read_array<char>(file, names.sh_offset + symbol.st_name, names.sh_size - symbol.st_name);
      return std::string(name.data(), ::strnlen(name.data(), name.size()));
    }
  }
  return "";
}

// Where the parameters begin of a function's name with its template's arguments.
std::size_t end_of_name(const std::string& text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>') --depth;
    if (text[i] == '(' && depth == 0) return i;
  }
  return text.size();
}

}  // namespace

LogLaunches::LogLaunches(LaunchLog& log) { current = &log; }
LogLaunches::~LogLaunches() { current = nullptr; }

std::string kernel_symbol(const void* address) {
  Dl_info info{};
  if (!::dladdr(address, &info) || !info.dli_fname) return "";
  const auto mangled = mangled_name(info.dli_fname, reinterpret_cast<std::uintptr_t>(address),
                                    reinterpret_cast<std::uintptr_t>(info.dli_fbase));
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  if (status != 0) return "";
  std::string name = text.get();  // "void kvc::cuda_emulated::score_rows<4>(kvc::...)"
  if (name.starts_with("void ")) name = name.substr(5);
  name = name.substr(0, end_of_name(name));
  for (const auto& [ours, theirs] : {std::pair("\\w+::", ""), std::pair("Narrow<HalfFormat>", "__half"),
                                     std::pair("Narrow<BfloatFormat>", "__nv_bfloat16")}) {
    name = std::regex_replace(name, std::regex(ours), theirs);
  }
  return name;
}

}  // namespace kvc::cuda_emulated

kvc::cuda_emulated::LaunchLog* kvc_cuda_launch_log() { return kvc::cuda_emulated::current; }
