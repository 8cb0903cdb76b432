// What of an experiment this machine has not: a note on standard error each, since the file may be for another machine.
#pragma once

#include "experiment/experiment.h"

namespace kvc {

// More workers and threads than cores; a device that is not here, and why.
void print_machine_notes(const Experiment& experiment);

}  // namespace kvc
