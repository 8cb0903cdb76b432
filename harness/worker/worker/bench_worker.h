// The child process of a bench: one compressor on one body, and a loop over points (wire/bench_messages.h).
#pragma once

#include <nlohmann/json.hpp>

#include "wire/worker_process.h"

namespace kvc {

// Runs until the parent closes the channel. Returns the process's exit code.
int run_bench_worker(const nlohmann::json& set_up, WorkerChannel& channel);

}  // namespace kvc
