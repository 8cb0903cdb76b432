#include "model/model_config.h"

#include "kvc/check.h"
#include "model/json_reader.h"
#include "text/nearest.h"

namespace kvc {
namespace {

// A decoder family is a row: what its config.json may say beyond what all of them share.
struct ArchitectureRow {
  const char* name;
  std::vector<std::string> activations;  // hidden_act
  std::vector<std::string> forbidden;    // flags that change the computation and are not built
};
const std::vector<ArchitectureRow>& architectures() {
  static const std::vector<ArchitectureRow> rows = {{"LlamaForCausalLM", {"silu"}, {"attention_bias", "mlp_bias"}}};
  return rows;
}
const std::vector<std::string> kRopeTypes = {"default"};

constexpr int64_t kMaxSize = int64_t{1} << 24;  // of any one size, so that products of two stay far from overflow

std::string one_of(const JsonObject& object, const std::string& name, const std::string& absent,
                   const std::vector<std::string>& allowed) {
  const auto value = object.text(name, absent);
  for (const auto& one : allowed) {
    if (value == one) return value;
  }
  throw Error(concat(object.where(), ": ", name, " is '", value, "', supported: ", join(allowed)));
}

const ArchitectureRow& find_architecture(const JsonObject& config) {
  std::vector<std::string> known;
  const auto& names = config.array("architectures");
  for (const auto& row : architectures()) {
    if (names.size() == 1 && names[0] == row.name) return row;
    known.emplace_back(row.name);
  }
  throw Error(concat(config.where(), ": architectures is ", brief(names), ", supported: ", join(known)));
}

// The rotation: rope_parameters {rope_type, rope_theta} since transformers 5, rope_theta and rope_scaling before.
double read_rope_theta(const JsonObject& config) {
  constexpr double kMinTheta = 1.0, kMaxTheta = 1e12;
  const bool is_new = config.has("rope_parameters");
  for (const char* field : {"rope_parameters", "rope_scaling"}) {
    if (!config.has(field)) continue;
    const auto rope = config.object(field);
    one_of(rope, rope.has("rope_type") ? "rope_type" : "type", "default", kRopeTypes);
    if (rope.has("partial_rotary_factor")) rope.number("partial_rotary_factor", 1.0, 1.0);
  }
  if (is_new && config.object("rope_parameters").has("rope_theta")) {
    return config.object("rope_parameters").number("rope_theta", kMinTheta, kMaxTheta);
  }
  return config.has("rope_theta") ? config.number("rope_theta", kMinTheta, kMaxTheta) : 10000.0;
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
  model.intermediate_size = config.integer("intermediate_size", 1, kMaxSize);
  model.n_layers = config.integer("num_hidden_layers", 1, 10000);
  model.n_heads = config.integer("num_attention_heads", 1, 65536);
  model.n_kv_heads =
      config.has("num_key_value_heads") ? config.integer("num_key_value_heads", 1, model.n_heads) : model.n_heads;
  KVC_CHECK(model.n_heads % model.n_kv_heads == 0, config.where(), ": num_key_value_heads is ", model.n_kv_heads,
            ", expected a divisor of num_attention_heads ", model.n_heads);
  KVC_CHECK(config.has("head_dim") || model.hidden_size % model.n_heads == 0, config.where(), ": hidden_size is ",
            model.hidden_size, ", expected a multiple of num_attention_heads ", model.n_heads);
  model.head_dim = config.has("head_dim") ? config.integer("head_dim", 2, 4096) : model.hidden_size / model.n_heads;
  KVC_CHECK(model.head_dim % 2 == 0, config.where(), ": head_dim is ", model.head_dim, ", expected an even number");
  model.vocab_size = config.integer("vocab_size", 1, kMaxSize);
  model.max_position_embeddings = config.integer("max_position_embeddings", 1, kMaxSize);
}

}  // namespace

ModelConfig load_model_config(const std::filesystem::path& dir) {
  const auto path = dir / "config.json";
  const auto json = read_json(path);
  const JsonObject config(json, path.string());
  const auto& architecture = find_architecture(config);

  ModelConfig model;
  model.architecture = architecture.name;
  KVC_CHECK(!config.has("quantization_config"), config.where(), ": quantization_config is ",
            brief(config.at("quantization_config")), ", supported: weights in floating point");
  for (const auto& flag : architecture.forbidden) {
    KVC_CHECK(!config.boolean(flag, false), config.where(), ": ", flag, " is true, supported: false");
  }
  one_of(config, "hidden_act", architecture.activations[0], architecture.activations);
  read_sizes(config, model);
  model.rms_norm_eps = config.number("rms_norm_eps", 0.0, 1.0);
  model.rope_theta = read_rope_theta(config);
  model.tied_embeddings = config.boolean("tie_word_embeddings", false);
  model.bos_token_ids = read_ids(config, "bos_token_id", model.vocab_size);
  model.eos_token_ids = read_ids(config, "eos_token_id", model.vocab_size);

  if (const auto generation_path = dir / "generation_config.json"; std::filesystem::exists(generation_path)) {
    const auto generation_json = read_json(generation_path);
    const JsonObject generation(generation_json, generation_path.string());
    if (generation.has("eos_token_id")) model.eos_token_ids = read_ids(generation, "eos_token_id", model.vocab_size);
  }
  return model;
}

}  // namespace kvc
