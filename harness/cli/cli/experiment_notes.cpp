#include "cli/experiment_notes.h"

#include <unistd.h>

#include <cstdio>

#include "kvc/check.h"
#include "prompt/model_chat.h"
#include "sandbox/device.h"
#include "text/message.h"
#include "text/nearest.h"

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

void print_prompt_notes(const Experiment& experiment, const Grid& grid, const Paths& paths) {
  std::vector<std::string> plain;
  for (const auto& task : grid.tasks) {
    const auto& spec = task.spec;
    if (!spec.is_chat_turn && !spec.choices && !spec.likelihood) plain.push_back(spec.name);
  }
  if (plain.empty() || experiment.chat.form != "auto") return;
  try {
    if (!choose_chat_template({}, grid.worker.model_path, paths.root)) return;
  } catch (const Error&) {
    return;  // of a template that cannot be read, tasks that need it say so
  }
  std::fprintf(stderr, "kvc: note: the model has a chat template, and these tasks give it plain text to continue: %s\n",
               some_of(plain, 3).c_str());
}

}  // namespace kvc
