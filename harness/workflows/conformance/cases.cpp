#include "conformance/cases.h"

namespace kvc::conformance {
namespace {

// Why the plugin refuses, or "".
std::string refusal(const PluginLibrary& plugin, const nlohmann::json& options, const ModelShape& model) {
  try {
    plugin.make(options)->check_model(model);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace

std::string Case::label() const {
  std::string text;
  for (const auto& [name, value] : options.items()) {
    text += concat(name, " ", value.is_string() ? value.get<std::string>() : value.dump(), ", ");
  }
  return (text.empty() ? "defaults, " : text) + to_string(model);
}

const std::vector<ModelShape>& model_shapes() {
  static const std::vector<ModelShape> shapes = {
      {.n_layers = 4, .n_heads = 4, .n_kv_heads = 2, .head_dim = 64},
      {.n_layers = 2, .n_heads = 2, .n_kv_heads = 2, .head_dim = 32},
      {.n_layers = 2, .n_heads = 4, .n_kv_heads = 1, .head_dim = 64},
      {.n_layers = 2, .n_heads = 8, .n_kv_heads = 1, .head_dim = 16},
      {.n_layers = 2, .n_heads = 9, .n_kv_heads = 3, .head_dim = 64},
      {.n_layers = 2, .n_heads = 4, .n_kv_heads = 2, .head_dim = 128},
      {.n_layers = 2, .n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .sliding_window = 45},
      {.n_layers = 2,
       .n_heads = 8,
       .n_kv_heads = 2,
       .head_dim = 64,
       .n_rotated_channels = 48,
       .has_sinks = true,
       .layers = {{.sliding_window = 0}, {.sliding_window = 45}}},
      {.n_layers = 2,
       .n_heads = 4,
       .n_kv_heads = 2,
       .head_dim = 64,
       .logit_softcap = 1.5,
       .layers = {{.has_rope = true}, {.has_rope = false}}},
  };
  return shapes;
}

std::vector<Case> cases_of(const PluginLibrary& plugin, const std::optional<nlohmann::json>& given) {
  std::vector<Case> cases;
  if (given) plugin.make(*given);
  for (const auto& model : model_shapes()) {
    auto sweep = given ? std::vector<nlohmann::json>{*given} : option_sweep(plugin, model);
    if (sweep.empty()) sweep.push_back(nlohmann::json::object());
    if (&model != &model_shapes().front()) sweep.resize(1);
    for (const auto& options : sweep) cases.push_back({options, model, refusal(plugin, options, model)});
  }
  return cases;
}

}  // namespace kvc::conformance
