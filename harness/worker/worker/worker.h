// The worker process: one model, the compressors of a sweep, and a loop over jobs (wire/messages.h).
#pragma once

namespace kvc {

// Runs until the parent closes the channel. Returns the process's exit code.
int run_worker();

}  // namespace kvc
