// What the points of a bench would take on a GPU at least: nothing is timed, nothing stored.
#pragma once

#include <vector>

#include "render/table.h"
#include "roofline/roofline.h"
#include "run/run_bench.h"

namespace kvc {

// One row a cell: real caches are filled at its length with drawn tokens and attended to once on the emulated device,
// one sequence of one layer where all layers hold as much, and times are told for the batch and all layers. The
// experiment's device is "cuda-emulated", as its cells were expanded for. by_kind: with columns of bytes by tensor and
// kind. Throws Error where a plugin does.
Table predict_bench(const BenchExperiment& experiment, const std::vector<BenchCell>& cells, const Gpu& gpu,
                    bool by_kind);

}  // namespace kvc
