#include "checkpoint/layer_config.h"

#include <algorithm>
#include <set>

#include "checkpoint/completed_config.h"
#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 24, kMaxExperts = 4096, kMaxWidth = int64_t{1} << 24;

bool is_full(const nlohmann::json& type) { return type == "full_attention" || type == "attention"; }

int64_t read_window(const JsonObject& config, const Architecture& architecture) {
  const auto& flag = architecture.window_flag;
  const bool on = flag.field ? config.boolean(flag.field, flag.value) : true;
  if (architecture.windows == Windows::none || !config.has("sliding_window")) return 0;
  return on ? config.integer("sliding_window", 1, kMaxWindow) : 0;
}

// A list of 0 and 1, one for each layer: 1 where there is RoPE.
void read_no_rope_layers(const JsonObject& config, ModelConfig& model) {
  const auto n = model.n_layers;
  const int64_t interval =
      config.has("no_rope_layer_interval") ? config.integer("no_rope_layer_interval", 1, kMaxWidth) : 4;
  for (int64_t i = 0; i < n; ++i) model.layers[static_cast<size_t>(i)].has_rope = (i + 1) % interval != 0;
  if (!config.has("no_rope_layers") || config.array("no_rope_layers").empty()) return;
  const auto& list = config.array("no_rope_layers");
  KVC_CHECK(static_cast<int64_t>(list.size()) == n, config.where(), ": no_rope_layers has ", list.size(),
            " entries, expected ", n, " (num_hidden_layers)");
  for (size_t i = 0; i < list.size(); ++i) {
    KVC_CHECK(list[i] == 0 || list[i] == 1, config.where(), ": no_rope_layers holds ", brief(list[i]),
              ", expected 0 or 1");
    model.layers[i].has_rope = list[i] == 1;
  }
}

// Whether layer i has the window where nothing but the architecture's rule says so.
class WindowRule {
 public:
  WindowRule(const JsonObject& config, const ModelConfig& model) : model_(model) {
    const auto& architecture = *model.architecture;
    period_ = architecture.window_period;
    if (const char* field = architecture.window_period_field) period_ = config.integer(field, 1, kMaxWidth);
    if (architecture.windows == Windows::late && config.has("max_window_layers")) {
      first_ = config.integer("max_window_layers", 0, kMaxWidth);
    }
  }
  bool operator()(int64_t i) const {
    switch (model_.architecture->windows) {
      case Windows::none:
        return false;
      case Windows::all:
        return true;
      case Windows::periodic:
        return (i + 1) % period_ != 0;
      case Windows::late:
        return i >= first_;
      case Windows::without_rope:
        return !model_.layers[static_cast<size_t>(i)].has_rope;
    }
    throw Error("WindowRule: not a Windows");
  }

 private:
  const ModelConfig& model_;
  int64_t period_ = 1;
  int64_t first_ = 28;  // as Qwen's configurations have it
};

// layer_types, checked against what else decides. period_is_given: config.json itself has the period's field
void read_layer_types_(const JsonObject& config, bool period_is_given, ModelConfig& model) {
  const auto& types = config.array("layer_types");
  KVC_CHECK(static_cast<int64_t>(types.size()) == model.n_layers, config.where(), ": layer_types has ", types.size(),
            " entries, expected ", model.n_layers, " (num_hidden_layers)");
  for (size_t i = 0; i < types.size(); ++i) {
    auto& layer = model.layers[i];
    const bool slides = types[i] == "sliding_attention";
    KVC_CHECK(slides || is_full(types[i]), config.where(), ": layer_types holds ", brief(types[i]),
              ", supported: \"full_attention\", \"sliding_attention\"; layers without K and V (Mamba, linear "
              "attention) are not computed here: use a model whose layers all have attention");
    const auto contradicts = [&](const char* field) {
      return concat(config.where(), ": layer_types holds ", brief(types[i]), " for layer ", i, ", but ", field,
                    " says ", layer.sliding_window > 0 ? "sliding_attention" : "full_attention");
    };
    KVC_CHECK(!slides || model.sliding_window > 0, config.where(),
              ": layer_types holds \"sliding_attention\" for layer ", i,
              ", but there is no sliding_window; supported then: \"full_attention\"");
    const bool agrees = slides == (layer.sliding_window > 0);
    KVC_CHECK(agrees || !period_is_given, contradicts(model.architecture->window_period_field));
    KVC_CHECK(agrees || model.architecture->reads_layer_types, contradicts("sliding_window"));
    layer.sliding_window = slides ? model.sliding_window : 0;
  }
}

// By either of the two names, which agree where both are there.
int64_t read_n_experts(const JsonObject& config, const ExpertFields& fields) {
  const bool has_other = fields.n_experts_too && config.has(fields.n_experts_too);
  const char* field = has_other && !config.has(fields.n_experts) ? fields.n_experts_too : fields.n_experts;
  const auto n = config.integer(field, 1, kMaxExperts);
  if (has_other) {
    const auto other = config.integer(fields.n_experts_too, 1, kMaxExperts);
    KVC_CHECK(other == n, config.where(), ": ", field, " is ", n, ", but ", fields.n_experts_too, " is ", other);
  }
  return n;
}

void read_experts(const JsonObject& config, ModelConfig& model) {
  const auto& fields = model.architecture->experts;
  if (!fields.n_experts) return;
  auto& experts = model.experts;
  experts.n_experts = read_n_experts(config, fields);
  experts.n_chosen = config.integer("num_experts_per_tok", 1, kMaxExperts);
  KVC_CHECK(experts.n_chosen <= experts.n_experts, config.where(), ": num_experts_per_tok is ", experts.n_chosen,
            ", expected at most ", fields.n_experts, " ", experts.n_experts);
  experts.intermediate_size = config.integer(fields.intermediate_size, 1, kMaxWidth);
  experts.normalized = fields.normalized.field ? config.boolean(fields.normalized.field, fields.normalized.value)
                                               : fields.normalized.value;
  if (fields.clamped) {
    if (config.has("swiglu_alpha")) experts.swiglu_alpha = config.number("swiglu_alpha", 1e-3, 1e3);
    if (config.has("swiglu_limit")) experts.swiglu_limit = config.number("swiglu_limit", 1e-3, 1e6);
  }
  int64_t step = 1;
  std::set<int64_t> dense;
  if (fields.some_layers) {
    if (config.has("decoder_sparse_step")) step = config.integer("decoder_sparse_step", 1, kMaxWidth);
    if (config.has("mlp_only_layers")) {
      for (const auto& layer : config.array("mlp_only_layers")) {
        KVC_CHECK(layer.is_number_integer() && layer >= 0 && layer < model.n_layers, config.where(),
                  ": mlp_only_layers holds ", brief(layer), ", expected layers from 0 to ", model.n_layers - 1);
        dense.insert(layer.get<int64_t>());
      }
    }
  }
  for (int64_t i = 0; i < model.n_layers; ++i) {
    model.layers[static_cast<size_t>(i)].has_experts = (i + 1) % step == 0 && !dense.contains(i);
  }
}

}  // namespace

void read_layers(const JsonObject& config, ModelConfig& model) {
  const auto& architecture = *model.architecture;
  const bool has_rope = !architecture.learned_positions &&
                        (!architecture.no_rope_unless_named || config.text("position_embedding_type", "") == "rope");
  model.layers.assign(static_cast<size_t>(model.n_layers), LayerConfig{.has_rope = has_rope});
  if (architecture.no_rope_layers) read_no_rope_layers(config, model);
  model.sliding_window = read_window(config, architecture);
  const WindowRule slides(config, model);
  for (int64_t i = 0; i < model.n_layers; ++i) {
    if (slides(i)) model.layers[static_cast<size_t>(i)].sliding_window = model.sliding_window;
  }
  if (config.has("layer_types")) {
    const char* period = architecture.window_period_field;
    read_layer_types_(config, period && !config.json().contains(concat(kDefaulted, period)), model);
  }
  const auto has_window = [](const LayerConfig& layer) { return layer.sliding_window > 0; };
  if (std::none_of(model.layers.begin(), model.layers.end(), has_window)) model.sliding_window = 0;
  read_experts(config, model);
}

}  // namespace kvc
