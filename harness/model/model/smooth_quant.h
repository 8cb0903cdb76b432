// SmoothQuant: the outlying channels of what a layer's matrices read are scaled down, and their columns up by as much.
// The norm before the matrix takes the division, so that nothing is computed besides.
#pragma once

#include <vector>

#include "checkpoint/quantization.h"
#include "model/weights.h"

namespace kvc {

class Transformer;

// Of all positions of the prompts. Throws Error where the model has norms behind its halves: none could take the
// division.
InputMaxima measure_input_maxima(const Transformer& model, const std::vector<std::vector<int64_t>>& prompts);

// norm /= s, columns of w *= s with s_j = max |x_j|^alpha / max |w_j|^(1 - alpha), no less than 1e-5. w: of floats
void smooth_(Norm& norm, Linear& w, const at::Tensor& input_max, double alpha);

}  // namespace kvc
