#include "kvc/compressor.h"

#include "kvc/calibration.h"
#include "kvc/options.h"
#include "kvc/probed_parts.h"

namespace kvc {

// Key functions: each class's vtable and type information live here, once, for host and plugins alike.
OptionVisitor::~OptionVisitor() = default;
Compressor::~Compressor() = default;
BatchedAttention::~BatchedAttention() = default;
Calibrator::~Calibrator() = default;
Calibrated::~Calibrated() = default;
ProbedParts::~ProbedParts() = default;

void Compressor::check_model(const ModelShape&) const {}

}  // namespace kvc
