// What kvquant learns from texts: each layer's key ranges by channel, and codebooks of keys and values at 2, 3, 4 bits.
#pragma once

#include <kvc/calibration.h>

#include <memory>
#include <vector>

#include "matrix.h"

namespace kvquant {

inline constexpr int64_t kAllBits[] = {2, 3, 4};

// One layer's.
struct LayerTables {
  Range keys;                 // [M]
  Levels k_levels, v_levels;  // empty where codes are integers

  LayerTables on(at::Device device) const;
};

// Keys are held rotated back. The ranges are quantiles of all tokens but each piece's first; the codebooks are k-means
// of what lies between them, weighted by squared gradients where there are any. The tensors it gives, over L layers:
//   k.lower, k.upper, k.smallest, k.largest [L, M]   the quantiles, and the bounds of what lies between them
//   <k or v>.levels.<bits> [L, 2^bits]   centroids;   <k or v>.moments.<bits> [L, 4]   of z and of its levels (Q-Norm)
std::unique_ptr<kvc::Calibrator> make_calibrator(const kvc::ModelShape& model, double sparsity, int64_t first_tokens);

// The tables of each layer for this format. Throws Error where a tensor is absent, of another shape, or not finite.
std::vector<LayerTables> tables_from(const kvc::NamedTensors& tensors, const kvc::ModelShape& model,
                                     const Format& format, bool q_norm);

}  // namespace kvquant
