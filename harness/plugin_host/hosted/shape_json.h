// What a host is told of a model and of a layer, as JSON; tensors and RoPE's frequencies go as tensors.
#pragma once

#include <nlohmann/json.hpp>

#include "kvc/plugin.h"

namespace kvc {

void to_json(nlohmann::json& json, const ModelShape& model);
void from_json(const nlohmann::json& json, ModelShape& model);
void to_json(nlohmann::json& json, const LayerInfo& layer);
void from_json(const nlohmann::json& json, LayerInfo& layer);
// `devices` and `formula` point into `json` afterwards.
void to_json(nlohmann::json& json, const Capabilities& capabilities);
void from_json(const nlohmann::json& json, Capabilities& capabilities);

}  // namespace kvc
