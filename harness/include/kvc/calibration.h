// What a method learns of a model from texts before any run: thresholds, codebooks, which channels are outliers.
// `kvc calibrate` feeds it and writes the file; a run names the file in an option of kind `file` and loads it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kvc/compressor.h"

namespace kvc {

// CPU tensors by name, as they stand in a calibration file.
using NamedTensors = std::map<std::string, at::Tensor>;

// K and V of one layer over one piece of text, as the model computes them exactly, and the queries; fp32 on the CPU.
struct CalibrationTokens {
  at::Tensor k, v;                    // [H_kv, T, D], of positions 0 ... T-1; keys after RoPE
  at::Tensor k_gradient, v_gradient;  // of the piece's summed negative log-likelihood; undefined unless asked for
  at::Tensor q = {};                  // [H_q, T, D], after RoPE
};

// One calibration under way.
class KVC_EXPORT Calibrator {
 public:
  virtual ~Calibrator();
  // Every layer of one piece after the other, then the next piece. The tensors are the caller's.
  virtual void observe(const LayerInfo& info, const CalibrationTokens& tokens) = 0;
  // Once, after the last piece. Throws Error where the texts were too few.
  virtual NamedTensors finish() = 0;
};

// Optional, found by dynamic_cast on the Compressor.
class KVC_EXPORT Calibrated {
 public:
  virtual ~Calibrated();

  // The file that these options name; empty where they need none. The host loads it before the first make_cache.
  virtual std::string calibration_file() const = 0;
  // Options that a calibration is made for: a run's must have the values that stand in the file.
  virtual std::vector<std::string> calibrated_options() const = 0;
  // The compressor outlives it.
  virtual std::unique_ptr<Calibrator> make_calibrator(const ModelShape& model) const = 0;
  // Throws Error where a tensor is absent, not known, of another shape than this model's, or not finite.
  virtual void load(const ModelShape& model, const NamedTensors& tensors) = 0;
};

}  // namespace kvc
