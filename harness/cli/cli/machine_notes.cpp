#include "cli/machine_notes.h"

#include <unistd.h>

#include <cstdio>

#include "kvc/check.h"
#include "sandbox/device.h"
#include "text/message.h"

namespace kvc {

void print_machine_notes(const Experiment& experiment) {
  const int64_t n_cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  if (experiment.workers * experiment.threads > n_cores) {
    std::fprintf(
        stderr,
        "kvc: note: workers is %ld and threads %ld; this machine has %ld cores, more processes and threads than "
        "these make a run slower\n",
        experiment.workers, experiment.threads, n_cores);
  }
  for (const auto& device : experiment.devices) {
    try {
      device_named(device);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "kvc: note: %s; the run needs it\n", one_line(said_by(e)).c_str());
    }
  }
}

}  // namespace kvc
