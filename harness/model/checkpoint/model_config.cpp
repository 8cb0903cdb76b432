#include "checkpoint/model_config.h"

#include <cmath>

#include "checkpoint/completed_config.h"
#include "checkpoint/config_keys.h"
#include "checkpoint/gguf_architecture.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/layer_config.h"
#include "checkpoint/rope_config.h"
#include "checkpoint/unsupported.h"
#include "kvc/check.h"
#include "text/json_reader.h"
#include "text/model_folder.h"
#include "text/nearest.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr double kLayerNormEps = 1e-5;  // no config.json says it
// The bytes of a matrix and of the KV of all layers and positions stay below 2^63.
constexpr int64_t kMaxSize = int64_t{1} << 24, kMaxLayers = 4096, kMaxHeads = 4096, kMaxHeadDim = 4096;

std::string one_of(const JsonObject& object, const std::string& name, const std::string& absent,
                   const std::vector<std::string>& allowed) {
  const auto value = object.text(name, absent);
  for (const auto& one : allowed) {
    if (value == one) return value;
  }
  throw Error(concat(object.where(), ": ", name, " is ", in_quotes(value), ", supported: ", join(allowed)));
}

std::string name_of(Activation activation) {
  switch (activation) {
    case Activation::silu:
      return "silu";
    case Activation::relu:
      return "relu";
    case Activation::gelu_tanh:
      return "gelu_pytorch_tanh";
  }
  throw Error("name_of: not an Activation");
}

const Architecture& find_architecture(const JsonObject& config) {
  std::vector<std::string> known;
  const auto& names = config.array("architectures");
  for (const auto& row : architectures()) {
    known.emplace_back(row.name);
    if (names.size() != 1 || names[0] != row.name) continue;
    if (!config.text("model_type", "").empty()) one_of(config, "model_type", "", {row.model_type});
    return row;
  }
  refuse_known_class(config);
  throw Error(concat(config.where(), ": architectures is ", brief(names), ", supported: ", join(known)));
}

void refuse_other_flags(const JsonObject& config, const Architecture& architecture) {
  for (const auto& [field, value] : architecture.only) {
    KVC_CHECK(config.boolean(field, value) == value, config.where(), ": ", field, " is ", value ? "false" : "true",
              ", supported: ", value ? "true" : "false");
  }
}

bool read_flag(const JsonObject& config, const ConfigFlag& flag) {
  return flag.field ? config.boolean(flag.field, flag.value) : flag.value;
}

// null, one id or a list of ids
std::vector<int64_t> read_ids(const JsonObject& config, const std::string& name, int64_t vocab_size) {
  std::vector<int64_t> ids;
  if (!config.has(name)) return ids;
  const auto& value = config.at(name);
  for (const auto& id : value.is_array() ? value : nlohmann::json::array({value})) {
    KVC_CHECK(id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() < vocab_size, config.where(), ": ",
              name, " is ", brief(value), ", expected one or more integers from 0 to ", vocab_size - 1);
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

void read_sizes(const JsonObject& config, ModelConfig& model) {
  model.hidden_size = config.integer("hidden_size", 1, kMaxSize);
  const char* width = model.architecture->embedding_size;
  model.embedding_size = width && config.has(width) ? config.integer(width, 1, kMaxSize) : model.hidden_size;
  model.intermediate_size = config.integer(model.architecture->intermediate_size, 1, kMaxSize);
  model.n_layers = config.integer("num_hidden_layers", 1, kMaxLayers);
  model.n_heads = config.integer("num_attention_heads", 1, kMaxHeads);
  model.n_kv_heads =
      config.has("num_key_value_heads") ? config.integer("num_key_value_heads", 1, model.n_heads) : model.n_heads;
  KVC_CHECK(model.n_heads % model.n_kv_heads == 0, config.where(), ": num_key_value_heads is ", model.n_kv_heads,
            ", expected a divisor of num_attention_heads ", model.n_heads);
  KVC_CHECK(config.has("head_dim") || model.hidden_size % model.n_heads == 0, config.where(), ": hidden_size is ",
            model.hidden_size, ", expected a multiple of num_attention_heads ", model.n_heads);
  model.head_dim =
      config.has("head_dim") ? config.integer("head_dim", 2, kMaxHeadDim) : model.hidden_size / model.n_heads;
  KVC_CHECK(model.head_dim % 2 == 0 && model.head_dim <= kMaxHeadDim, config.where(), ": head_dim is ", model.head_dim,
            ", expected an even number up to ", kMaxHeadDim);
  model.vocab_size = config.integer("vocab_size", 1, kMaxSize);
  model.max_position_embeddings = config.integer("max_position_embeddings", 1, kMaxSize);
}

// What attention, residual stream and logits are multiplied by, or bent with.
void read_scales(const JsonObject& config, ModelConfig& model) {
  const auto& architecture = *model.architecture;
  const auto factor = [&](const char* name, double absent) {
    return config.has(name) ? config.number(name, 1e-9, 1e9) : absent;
  };
  model.attention_scale = usual_attention_scale(model.head_dim);
  if (const char* field = architecture.attention_scale; field && config.has(field)) {
    model.attention_scale = std::pow(config.number(field, 1e-9, 1e9), architecture.attention_scale_power);
  }
  if (architecture.softcaps) {
    model.attention_softcap = factor("attn_logit_softcapping", 0);
    model.logits_softcap = factor("final_logit_softcapping", 0);
  }
  if (architecture.embedding_times_root) model.embedding_scale = std::sqrt(static_cast<double>(model.hidden_size));
  if (architecture.multipliers) {
    model.embedding_scale = factor("embedding_multiplier", 1);
    model.residual_scale = factor("residual_multiplier", 1);
    model.logits_divisor = factor("logits_scaling", 1);
  }
}

nlohmann::json read_if_there(const std::filesystem::path& path) {
  return lists(path.parent_path(), path.filename()) ? read_json(path) : nlohmann::json::object();
}

// Of the eos_token of tokenizer_config.json, if another file of the folder gives the id of that text.
std::vector<int64_t> tokenizers_end(const std::filesystem::path& dir, int64_t vocab_size) {
  const auto json = read_if_there(dir / "tokenizer_config.json");
  const JsonObject config(json, (dir / "tokenizer_config.json").string());
  if (!config.has("eos_token")) return {};
  const auto& named = config.at("eos_token");
  const auto text = named.is_object() ? config.object("eos_token").text("content") : config.text("eos_token");
  std::vector<std::pair<nlohmann::json, nlohmann::json>> known;  // text and id
  if (config.has("added_tokens_decoder")) {
    for (const auto& [id, token] : config.object("added_tokens_decoder").json().items()) {
      if (token.is_object() && !id.empty() && id.size() < 10 &&
          id.find_first_not_of("0123456789") == std::string::npos) {
        known.emplace_back(token.value("content", nlohmann::json()), std::stoll(id));
      }
    }
  }
  const auto added = read_if_there(dir / "added_tokens.json"), tokenizer = read_if_there(dir / "tokenizer.json");
  for (const auto& [token, id] : added.items()) known.emplace_back(token, id);
  if (tokenizer.is_object() && tokenizer.contains("added_tokens")) {
    for (const auto& token : tokenizer["added_tokens"]) {
      if (token.is_object())
        known.emplace_back(token.value("content", nlohmann::json()), token.value("id", nlohmann::json()));
    }
  }
  for (const auto& [token, id] : known) {
    if (token == text && id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() < vocab_size) {
      return {id.get<int64_t>()};
    }
  }
  return {};
}

}  // namespace

ModelShape ModelConfig::shape() const {
  ModelShape shape{n_layers, n_heads, n_kv_heads, head_dim};
  shape.attention_scale = attention_scale;
  shape.logit_softcap = attention_softcap;
  shape.has_sinks = architecture->sinks;
  shape.has_neighbours_in_gguf = swaps_rows_in_gguf(architecture->name);
  shape.has_rope = !architecture->learned_positions;
  shape.sliding_window = sliding_window;
  bool differ = false;
  for (const auto& layer : layers) shape.layers.push_back({layer.sliding_window, layer.has_rope});
  for (const auto& layer : shape.layers) differ |= layer != shape.layers.front();
  if (!differ) {
    shape.sliding_window = shape.layers.front().sliding_window, shape.has_rope = shape.layers.front().has_rope;
    shape.layers.clear();
  }
  if (shape.has_rope) shape.n_rotated_channels = n_rotated_channels(rope, head_dim);
  return shape;
}

ModelConfig parse_model_config(JsonObject given) {
  std::string wrapper;
  const auto json = completed_config(given, wrapper);
  JsonObject config(json, wrapper.empty() ? given.where() : given.where("text_config"));
  std::set<std::string> read;
  config.note_reads(read);
  const auto& architecture = find_architecture(config);

  ModelConfig model;
  model.architecture = &architecture;
  model.wrapper = wrapper;
  refuse_quantized(config, architecture);
  for (const char* field : architecture.required) config.at(field);
  refuse_other_flags(config, architecture);
  const auto activation = name_of(architecture.activation);
  one_of(config, architecture.activation_field, activation, {activation});
  read_sizes(config, model);
  model.norm_eps = architecture.layer_norm ? kLayerNormEps : config.number("rms_norm_eps", 0.0, 1.0);
  model.norm_offset = architecture.norm_weights_less_one ? 1 : 0;
  model.norms = read_flag(config, architecture.norm_before) ? architecture.norms : NormPlace::after_sum;
  model.qkv_bias = read_flag(config, architecture.qkv_bias);
  model.output_bias = read_flag(config, architecture.output_bias);
  model.mlp_bias = read_flag(config, architecture.mlp_bias);
  model.tied_embeddings = read_flag(config, architecture.tied_embeddings);
  read_scales(config, model);
  read_layers(config, model);
  if (!architecture.learned_positions) read_ropes(config, model);
  model.bos_token_ids = read_ids(config, "bos_token_id", model.vocab_size);
  KVC_CHECK(model.bos_token_ids.size() <= 1, config.where(), ": bos_token_id is ", brief(config.at("bos_token_id")),
            ", expected one integer");
  model.eos_token_ids = read_ids(config, "eos_token_id", model.vocab_size);
  read.insert(architecture.idle.begin(), architecture.idle.end());
  refuse_unread(config, read);
  return model;
}

ModelConfig load_model_config(const std::filesystem::path& path) {
  std::error_code unreadable;
  const bool is_file = std::filesystem::is_regular_file(path, unreadable);
  if (is_file && is_gguf(path)) return load_gguf_config(GgufFile(path));
  if (!is_file && !lists(path, "config.json")) {
    refuse_missing(path, "config.json; expected a folder with config.json, tokenizer.json, *.safetensors");
  }
  const auto file = is_file ? path : path / "config.json";
  const auto json = read_json(file);
  auto model = parse_model_config(JsonObject(json, file.string()));
  if (lists(file.parent_path(), "generation_config.json")) {
    const auto generation_path = file.parent_path() / "generation_config.json";
    const auto generation_json = read_json(generation_path);
    const JsonObject generation(generation_json, generation_path.string());
    if (generation.has("eos_token_id")) model.eos_token_ids = read_ids(generation, "eos_token_id", model.vocab_size);
  }
  if (model.eos_token_ids.empty() && !is_file) model.eos_token_ids = tokenizers_end(path, model.vocab_size);
  return model;
}

}  // namespace kvc
