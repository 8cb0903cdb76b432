// What a user may not have meant: notes on standard error.
#pragma once

#include "experiment/grid.h"
#include "experiment/paths.h"

namespace kvc {

// More workers and threads than cores; a device that is not here, and why: the file may be for another machine.
void print_machine_notes(const Experiment& experiment);

// Tasks that give a chat model plain text to continue, which is what papers' few-shot tasks do.
void print_prompt_notes(const Experiment& experiment, const Grid& grid, const Paths& paths);

}  // namespace kvc
