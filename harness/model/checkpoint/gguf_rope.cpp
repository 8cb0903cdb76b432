#include "checkpoint/gguf_rope.h"

#include <cmath>

#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using nlohmann::json;

constexpr const char *kDivisors = "rope_freqs.weight", *kLong = "rope_factors_long.weight",
                     *kShort = "rope_factors_short.weight", *kTrainedContext = "rope.scaling.original_context_length";

std::vector<float> pair_factors(const GgufFile& file, const std::string& name, int64_t n_pairs) {
  const auto& tensor = file.tensor(name);
  KVC_CHECK(tensor.type == GgufTensor().type && tensor.shape == std::vector<int64_t>{n_pairs}, file.path(), ": ", name,
            " is ", type_name(tensor), " of ", tensor.shape.back(), " values, expected F32 of ", n_pairs);
  std::vector<float> factors(static_cast<size_t>(n_pairs));
  file.read(tensor, 0, tensor.n_bytes, factors.data());
  for (const float factor : factors) {
    KVC_CHECK(std::isfinite(factor) && factor > 0, file.path(), ": ", name, " holds ", factor,
              ", expected numbers above 0");
  }
  return factors;
}

json longrope(const GgufMetadata& metadata, int64_t n_rotated, std::set<std::string>& read) {
  const auto& file = metadata.file();
  for (const char* name : {kLong, kShort}) {
    KVC_CHECK(file.tensors().contains(name), file.path(), ": no tensor '", name, "', which longrope needs");
  }
  json scaling{{"rope_type", "longrope"},
               {"long_factor", pair_factors(file, kLong, n_rotated / 2)},
               {"short_factor", pair_factors(file, kShort, n_rotated / 2)},
               {"original_max_position_embeddings", metadata.integer(kTrainedContext)}};
  read.insert("rope.scaling.attn_factor");
  if (const double factor = metadata.number("rope.scaling.attn_factor", 0); factor != 0) {
    scaling["attention_factor"] = factor;
  }
  return scaling;
}

// As the converter writes it: config.json's fields under other names.
json yarn(const GgufMetadata& metadata, double factor, std::set<std::string>& read) {
  json scaling{{"rope_type", "yarn"}, {"factor", factor}};
  if (metadata.has(kTrainedContext)) scaling["original_max_position_embeddings"] = metadata.integer(kTrainedContext);
  const auto take = [&](const std::string& key, const char* field) {
    read.insert("rope.scaling." + key);
    if (const double value = metadata.number("rope.scaling." + key, 0); value != 0) scaling[field] = value;
  };
  take("yarn_beta_fast", "beta_fast");
  take("yarn_beta_slow", "beta_slow");
  take("yarn_attn_factor", "attention_factor");
  take("yarn_log_multiplier", "mscale_all_dim");
  if (scaling.contains("mscale_all_dim")) scaling["mscale"] = 1.0;
  const double mix = metadata.number("rope.scaling.yarn_ext_factor", 1);
  KVC_CHECK(mix == 1, metadata.where("rope.scaling.yarn_ext_factor"), " is ", mix, ", supported: 1");
  read.insert("rope.scaling.yarn_ext_factor");
  return scaling;
}

}  // namespace

bool is_rope_tensor(const std::string& name) { return name == kDivisors || name == kLong || name == kShort; }

// As llama.cpp reads it: without a type it is linear, and a factor of 0 is none.
json gguf_rope_scaling(const GgufMetadata& metadata, int64_t n_rotated, std::set<std::string>& read) {
  const auto& file = metadata.file();
  auto type = metadata.has("rope.scaling.type") ? metadata.text("rope.scaling.type") : "linear";
  if (type == "longrope" || file.tensors().contains(kLong)) return longrope(metadata, n_rotated, read);
  double factor = 0;
  for (const char* key : {"rope.scaling.factor", "rope.scale_linear"}) {  // the second before there were types
    if (factor == 0) factor = metadata.number(key, 0);
  }
  if (type == "none" || (type == "linear" && factor == 0)) return nullptr;
  if (type == "yarn") return yarn(metadata, factor, read);
  KVC_CHECK(type == "linear", metadata.where("rope.scaling.type"), " is ", in_quotes(type),
            ", supported: none, linear, yarn, longrope");
  return {{"rope_type", type}, {"factor", factor}};
}

void read_rope_divisors(const GgufFile& file, ModelConfig& model) {
  if (!file.tensors().contains(kDivisors)) return;
  KVC_CHECK(model.rope.divisors.empty(), file.path(), ": both ", kDivisors, " and ", kLong, ", expected one of them");
  model.rope.divisors = pair_factors(file, kDivisors, n_rotated_channels(model.rope, model.head_dim) / 2);
  if (!model.architecture->plain_local_rope) model.local_rope.divisors = model.rope.divisors;
}

}  // namespace kvc
