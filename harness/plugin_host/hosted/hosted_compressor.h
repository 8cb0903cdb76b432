// A compressor that runs in a process of its own, for a harness that sees a Compressor and its LayerCaches as ever.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "hosted/host_process.h"
#include "kvc/calibration.h"
#include "kvc/joint_prefill.h"

namespace kvc {

// What hosts are started with.
struct HostedPlugin {
  std::string file;    // a shared library or a Python file
  std::string sha256;  // of it when the run began; "": whatever it is
  std::string python;  // the interpreter, of a Python file
};

// What the file says of itself: {"name", "summary", "source", "deviations", "capabilities", "options": [...], "runtime"}.
// Throws Error.
nlohmann::json describe_hosted(const HostedPlugin& plugin);

// A compressor with these options (an object). Its process is started here, and again by make_cache() after it has died.
// resolved: as of PluginLibrary::make. Throws Error.
std::unique_ptr<Compressor> make_hosted(const HostedPlugin& plugin, const nlohmann::json& options,
                                        nlohmann::json* resolved);

// Bytes and the like of the process in which this compressor runs, once its free memory is given back; null where it
// runs in none of its own.
class CountedByKernel {
 public:
  virtual ~CountedByKernel() = default;
  virtual KernelCount count() const = 0;
};

}  // namespace kvc
