// Calibration of a method for a model, on sample texts: thresholds, code books, outlier channels.
// `kvc calibrate` writes the file; a run names it in an option of kind `file`.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kvc/compressor.h"

namespace kvc {

// CPU tensors by name, as in a calibration file.
using NamedTensors = std::map<std::string, at::Tensor>;

// Uncompressed K, V and queries of one layer over one piece of text; fp32 on the CPU.
struct CalibrationTokens {
  at::Tensor k, v;                    // [H_kv, T, D], of positions 0 ... T-1; keys after RoPE
  at::Tensor k_gradient, v_gradient;  // of the piece's summed negative log-likelihood; undefined unless requested
  at::Tensor q = {};                  // [H_q, T, D], after RoPE
};

// One calibration in progress.
class KVC_EXPORT Calibrator {
 public:
  virtual ~Calibrator();
  // Called for every layer of a piece, then for the next piece. The tensors belong to the caller.
  virtual void observe(const LayerInfo& info, const CalibrationTokens& tokens) = 0;
  // Called once, after the last piece. Throws Error if there was too little text.
  virtual NamedTensors finish() = 0;
};

// Optional interface, found by dynamic_cast on the Compressor.
class KVC_EXPORT Calibrated {
 public:
  virtual ~Calibrated();

  // The calibration file that these options name; empty if they need none. The host loads it before the first
  // make_cache.
  virtual std::string calibration_file() const = 0;
  // Options that a calibration depends on: a run must have the same values as the file.
  virtual std::vector<std::string> calibrated_options() const = 0;
  // The compressor outlives it.
  virtual std::unique_ptr<Calibrator> make_calibrator(const ModelShape& model) const = 0;
  // Throws Error if a tensor is missing, unknown, not finite, or does not fit this model's shape.
  virtual void load(const ModelShape& model, const NamedTensors& tensors) = 0;
};

}  // namespace kvc
