#include "hosted/shape_json.h"

#include "text/json.h"

namespace kvc {
namespace {

// Each field once, for both ways: visit(name, field).
template <class Model, class Visit>
void visit_model(Model& model, const Visit& visit) {
  visit("n_layers", model.n_layers);
  visit("n_heads", model.n_heads);
  visit("n_kv_heads", model.n_kv_heads);
  visit("head_dim", model.head_dim);
  visit("sliding_window", model.sliding_window);
  visit("has_rope", model.has_rope);
  visit("attention_scale", model.attention_scale);
  visit("n_rotated_channels", model.n_rotated_channels);
  visit("logit_softcap", model.logit_softcap);
  visit("has_sinks", model.has_sinks);
  visit("has_neighbours_in_gguf", model.has_neighbours_in_gguf);
}

template <class Layer, class Visit>
void visit_layer(Layer& layer, const Visit& visit) {
  visit("layer", layer.layer);
  visit("n_layers", layer.n_layers);
  visit("n_heads", layer.n_heads);
  visit("n_kv_heads", layer.n_kv_heads);
  visit("head_dim", layer.head_dim);
  visit("sequence_key", layer.sequence_key);
  visit("sliding_window", layer.sliding_window);
  visit("holds", layer.holds);
  visit("attention_scale", layer.attention_scale);
  visit("logit_softcap", layer.logit_softcap);
  visit("first_position", layer.first_position);
  visit("has_neighbours_in_gguf", layer.has_neighbours_in_gguf);
}

template <class Some, class Visit>
void visit_flags(Some& capabilities, const Visit& visit) {
  visit("lossy", capabilities.lossy);
  visit("one_by_one_same", capabilities.one_by_one_same);
  visit("prefix_local", capabilities.prefix_local);
  visit("estimates", capabilities.estimates);
  visit("simulated", capabilities.simulated);
  visit("evicts", capabilities.evicts);
  visit("splits", capabilities.splits);
  visit("chunked_prompt", capabilities.chunked_prompt);
  visit("turns_keys", capabilities.turns_keys);
}

auto writer(nlohmann::json& json) {
  return [&json](const char* name, const auto& value) { json[name] = value; };
}
auto reader(const nlohmann::json& json) {
  return [&json](const char* name, auto& value) { json.at(name).get_to(value); };
}

}  // namespace

void to_json(nlohmann::json& json, const ModelShape& model) {
  visit_model(model, writer(json));
  json["layers"] = nlohmann::json::array();
  for (const auto& layer : model.layers) json["layers"].push_back({layer.sliding_window, layer.has_rope});
}

void from_json(const nlohmann::json& json, ModelShape& model) {
  visit_model(model, reader(json));
  model.layers.clear();
  for (const auto& layer : json.at("layers")) model.layers.push_back({layer.at(0), layer.at(1)});
}

void to_json(nlohmann::json& json, const LayerInfo& layer) { visit_layer(layer, writer(json)); }
void from_json(const nlohmann::json& json, LayerInfo& layer) { visit_layer(layer, reader(json)); }

void to_json(nlohmann::json& json, const Capabilities& capabilities) {
  json = {{"devices", capabilities.devices}, {"formula", capabilities.formula}};
  visit_flags(capabilities, writer(json));
}

void from_json(const nlohmann::json& json, Capabilities& capabilities) {
  capabilities.devices = json.at("devices").get_ref<const std::string&>().c_str();
  capabilities.formula = json.at("formula").get_ref<const std::string&>().c_str();
  visit_flags(capabilities, reader(json));
}

}  // namespace kvc
