#include "run/provenance.h"

#include <ATen/Version.h>
#include <sys/utsname.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "kvc/build_id.h"

namespace kvc {
namespace {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace

nlohmann::json provenance() {
  utsname system{};
  ::uname(&system);
  const char* git = std::getenv("KVC_GIT");
  return {{"host", system.nodename},
          {"system", std::string(system.sysname) + " " + system.release},
          {"cpu", cpu_model()},
          {"n_cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"memory_bytes", ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE)},
          {"cpu_capability", at::get_cpu_capability()},
          {"build_id", KVC_BUILD_ID},
          {"torch", TORCH_VERSION},
          {"git", git ? git : "unknown"}};
}

}  // namespace kvc
