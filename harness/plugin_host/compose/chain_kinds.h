// The two kinds of chain that make_chain makes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compose/part.h"

namespace kvc {

std::unique_ptr<Compressor> make_evicted(Part evictor, Part storage);
std::unique_ptr<Compressor> make_residual(std::vector<Part> stages, int64_t block);

// What the part says against a model, with the part's place before it.
void check_part(const std::string& place, const Part& part, const ModelShape& model);

}  // namespace kvc
