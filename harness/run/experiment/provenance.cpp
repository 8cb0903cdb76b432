#include "experiment/provenance.h"

#include <ATen/Version.h>
#include <sys/utsname.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kvc/build_id.h"
#include "wire/forked_child.h"

namespace kvc {
namespace {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

// As the driver lists them; {} where there is none.
std::vector<std::string> gpu_models() {
  std::vector<std::string> models;
  std::error_code none;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    std::ifstream info(gpu.path() / "information");
    for (std::string line; std::getline(info, line);) {
      if (line.starts_with("Model:")) models.push_back(line.substr(line.find_first_not_of(" \t", 6)));
    }
  }
  return models;
}

// LibTorch ends the process where it cannot read what the system says of the processor.
std::string cpu_capability() {
  return in_child({"LibTorch"}, [](size_t) { return nlohmann::json(at::get_cpu_capability()); }).front();
}

}  // namespace

nlohmann::json provenance(const ConfigFile& config) {
  auto made_with = provenance();
  made_with["config"] = {{"name", config.name}, {"sha256", config.sha256}, {"set", config.overrides}};
  if (!config.like.is_null()) made_with["config"]["like"] = config.like;
  return made_with;
}

nlohmann::json provenance() {
  utsname system{};
  ::uname(&system);
  const char* git = std::getenv("KVC_GIT");
  return {{"host", system.nodename},
          {"system", std::string(system.sysname) + " " + system.release},
          {"cpu", cpu_model()},
          {"n_cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"memory_bytes", ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE)},
          {"gpus", gpu_models()},
          {"cpu_capability", cpu_capability()},
          {"build_id", KVC_BUILD_ID},
          {"torch", TORCH_VERSION},
          {"git", git ? git : "unknown"}};
}

}  // namespace kvc
