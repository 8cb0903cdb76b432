// Runs texts through a model and hands every layer's K, V and queries to the methods that learn from them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "plugin_loader/calibration.h"
#include "tokenizer/tokenizer.h"

namespace kvc {

struct CalibrationText {
  std::string name;  // for messages
  std::string text;
};

struct CalibrationPlan {
  std::vector<CalibrationText> texts;
  int64_t max_pieces = 16;  // of all texts, in their order
  int64_t length = 2048;    // tokens of a piece at most; a text's last may be shorter
  bool gradients = false;   // of each piece's loss, too
};

// Each text cut into pieces of plan.length tokens, every one begun with what the tokenizer begins a text with.
// Throws Error where a text has no tokens, or the length is more than the model's context.
std::vector<std::vector<int64_t>> calibration_pieces(const CalibrationPlan& plan, const Tokenizer& tokenizer,
                                                     int64_t max_positions);

// One pass over the pieces for the methods together -> their tensors, in the same order. on_piece is called after
// each.
std::vector<NamedTensors> calibrate(const Transformer& model, const std::vector<std::vector<int64_t>>& pieces,
                                    const std::vector<const Calibrated*>& methods, bool gradients,
                                    const std::function<void(size_t piece)>& on_piece);

}  // namespace kvc
