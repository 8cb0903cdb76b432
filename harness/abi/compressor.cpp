#include "kvc/compressor.h"

#include "kvc/options.h"

namespace kvc {

// Key functions: each class's vtable and type information live here, once, for host and plugins alike.
OptionVisitor::~OptionVisitor() = default;
Compressor::~Compressor() = default;
BatchedAttention::~BatchedAttention() = default;

void Compressor::check_model(const ModelShape&) const {}

}  // namespace kvc
