// What a check found, for programs: the KV card (docs/kv-card.md describes every field), a badge, and limits on losses.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "check/check_tables.h"

namespace kvc {

// command: the words of the command line.
nlohmann::ordered_json kv_card(const std::vector<ModelFindings>& models, const std::vector<std::string>& command);

// An SVG that says how many presets leave the models unchanged, or the verdict of the only one.
std::string badge_svg(const std::vector<ModelFindings>& models);

struct LossLimit {
  std::string measure;  // kl, flips or passkey
  double most = 0;      // nats, % of tokens, points
};
// "kl=0.05" each. Throws Error for another measure or a value that is no number from 0 on.
std::vector<LossLimit> read_loss_limits(const std::vector<std::string>& texts);

// A line for each preset and measure above its limit, and for each preset without a result.
std::vector<std::string> over_limits(const std::vector<ModelFindings>& models, const std::vector<LossLimit>& limits);

}  // namespace kvc
