#include "worker/calibrate.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "kvc/check.h"

namespace kvc {
namespace {

at::Tensor on_cpu(const at::Tensor& x) { return x.to(at::kCPU, at::kFloat).contiguous(); }

}  // namespace

std::vector<std::vector<int64_t>> calibration_pieces(const CalibrationPlan& plan, const Tokenizer& tokenizer,
                                                     int64_t max_positions) {
  const auto opening = tokenizer.encode("", true);
  const auto n_opening = static_cast<int64_t>(opening.size());
  KVC_CHECK(plan.length <= max_positions, "calibrate: pieces of ", plan.length,
            " tokens, the model has max_position_embeddings ", max_positions);
  KVC_CHECK(plan.length > n_opening + 1, "calibrate: pieces of ", plan.length, " tokens, expected more than ",
            n_opening + 1);
  std::vector<std::vector<int64_t>> pieces;
  for (const auto& [name, text] : plan.texts) {
    const auto ids = tokenizer.encode(text, false);
    KVC_CHECK(!ids.empty(), "calibrate: '", name, "' has no tokens");
    const auto step = static_cast<size_t>(plan.length - n_opening);
    for (size_t first = 0; first < ids.size(); first += step) {
      if (static_cast<int64_t>(pieces.size()) == plan.max_pieces) return pieces;
      auto piece = opening;
      const auto end = std::min(first + step, ids.size());
      piece.insert(piece.end(), ids.begin() + static_cast<std::ptrdiff_t>(first),
                   ids.begin() + static_cast<std::ptrdiff_t>(end));
      if (piece.size() >= 2) pieces.push_back(std::move(piece));
    }
  }
  return pieces;
}

std::vector<NamedTensors> calibrate(const Transformer& model, const std::vector<std::vector<int64_t>>& pieces,
                                    const std::vector<const Calibrated*>& methods, bool gradients,
                                    const std::function<void(size_t piece)>& on_piece) {
  std::vector<std::unique_ptr<Calibrator>> calibrators;
  for (const auto* method : methods) calibrators.push_back(method->make_calibrator(model.shape()));
  const auto observe = [&](int64_t layer, uint64_t piece, const CalibrationTokens& tokens) {
    auto info = model.layer_info(layer, piece);
    info.device = at::kCPU;
    for (auto& calibrator : calibrators) calibrator->observe(info, tokens);
  };
  for (size_t p = 0; p < pieces.size(); ++p) {
    if (!gradients) {
      model.prefill(pieces[p], [&](int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
        observe(layer, p, {on_cpu(k), on_cpu(v), {}, {}, on_cpu(q)});
      });
      on_piece(p);
      continue;
    }
    const auto text = model.gradients(pieces[p]);
    for (size_t i = 0; i < text.layers.size(); ++i) {
      const auto& [k, v, k_gradient, v_gradient, q] = text.layers[i];
      observe(static_cast<int64_t>(i), p, {k, v, k_gradient, v_gradient, q});
    }
    on_piece(p);
  }
  std::vector<NamedTensors> learned;
  for (auto& calibrator : calibrators) learned.push_back(calibrator->finish());
  return learned;
}

}  // namespace kvc
