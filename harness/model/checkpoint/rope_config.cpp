#include "checkpoint/rope_config.h"

#include <algorithm>

#include "checkpoint/config_keys.h"
#include "kvc/check.h"
#include "text/nearest.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr double kMinTheta = 1.0, kMaxTheta = 1e12, kMaxFactor = 1e6;
constexpr int64_t kMaxContext = int64_t{1} << 24;
constexpr const char* kContext = "original_max_position_embeddings";
constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";

RopeType type_named(const JsonObject& object, const std::string& field, bool renamed) {
  const auto name = object.text(field, "default");
  if (renamed && (name == "su" || name == "yarn")) return RopeType::longrope;
  const std::vector<std::pair<std::string, RopeType>> known = {{"default", RopeType::plain},
                                                               {"linear", RopeType::linear},
                                                               {"llama3", RopeType::llama3},
                                                               {"yarn", RopeType::yarn},
                                                               {"longrope", RopeType::longrope}};
  std::vector<std::string> names;
  for (const auto& [one, type] : known) {
    if (name == one) return type;
    names.push_back(one);
  }
  KVC_CHECK(name != "dynamic", object.where(), ": ", field,
            " is 'dynamic': frequencies that change with the length are not computed here, because cached keys would "
            "have to be rotated again; use yarn, or remove it for texts within max_position_embeddings");
  throw Error(concat(object.where(), ": ", field, " is ", in_quotes(name), ", supported: ", join(names)));
}

// "rope_type", or "type" as it was called before; files of the time between have both.
RopeType read_type(const JsonObject& object, bool renamed) {
  if (!object.has("rope_type")) return type_named(object, "type", renamed);
  const auto type = type_named(object, "rope_type", renamed);
  KVC_CHECK(!object.has("type") || type_named(object, "type", renamed) == type, object.where(), ": type is ",
            in_quotes(object.text("type", "")), ", but rope_type is ", in_quotes(object.text("rope_type", "")));
  return type;
}

double number_or(const JsonObject& object, const char* name, double min, double max, double absent) {
  return object.has(name) ? object.number(name, min, max) : absent;
}

void read_llama3_(const JsonObject& object, RopeConfig& rope) {
  rope.low_freq_factor = object.number("low_freq_factor", 1e-6, 1e6);
  rope.high_freq_factor = object.number("high_freq_factor", 1e-6, 1e6);
  KVC_CHECK(static_cast<float>(rope.low_freq_factor) < static_cast<float>(rope.high_freq_factor), object.where(),
            ": high_freq_factor is ", rope.high_freq_factor, ", expected more than low_freq_factor ",
            rope.low_freq_factor);
}

void read_yarn_(const JsonObject& object, RopeConfig& rope) {
  KVC_CHECK(rope.theta > 1, object.where(), ": rope_theta is ", rope.theta, ", yarn expects more than 1");
  rope.beta_fast = number_or(object, "beta_fast", 1e-6, 1e6, rope.beta_fast);
  rope.beta_slow = number_or(object, "beta_slow", 1e-6, 1e6, rope.beta_slow);
  KVC_CHECK(rope.beta_slow <= rope.beta_fast, object.where(), ": beta_fast is ", rope.beta_fast,
            ", expected at least beta_slow ", rope.beta_slow);
  rope.truncate = object.boolean("truncate", true);
  const double mscale = number_or(object, "mscale", 0, 1e6, 0), all = number_or(object, "mscale_all_dim", 0, 1e6, 0);
  rope.attention_factor =
      number_or(object, "attention_factor", 1e-6, 1e6, yarn_attention_factor(rope.factor, mscale, all));
}

std::vector<float> read_divisors(const JsonObject& object, const char* name, int64_t n) {
  const auto& list = object.array(name);
  KVC_CHECK(static_cast<int64_t>(list.size()) == n, object.where(), ": ", name, " has ", list.size(),
            " numbers, expected one for each of the ", n, " pairs of rotated channels");
  std::vector<float> divisors;
  for (const auto& value : list) {
    KVC_CHECK(value.is_number() && value.get<double>() >= 1e-6 && value.get<double>() <= 1e9, object.where(), ": ",
              name, " holds ", brief(value), ", expected numbers from 1e-6 to 1e9");
    divisors.push_back(value.get<float>());
  }
  return divisors;
}

void read_longrope_(const JsonObject& object, const ModelConfig& model, RopeConfig& rope) {
  const int64_t n = n_rotated_channels(rope, model.head_dim) / 2;
  rope.divisors = read_divisors(object, "long_factor", n);
  rope.short_divisors = read_divisors(object, "short_factor", n);
  rope.attention_factor = number_or(object, "attention_factor", 1e-6, 1e6,
                                    longrope_attention_factor(rope.factor, rope.original_max_position_embeddings));
  // The set for the longest text that is planned: keys that are cached are not rotated again.
  if (model.max_position_embeddings <= rope.original_max_position_embeddings) rope.divisors = rope.short_divisors;
}

// One rotation's settings. rope: with theta and share as the fields beside the object say
RopeConfig read_rotation(const JsonObject& config, JsonObject object, const ModelConfig& model, RopeConfig rope) {
  std::set<std::string> read{"max_position_embeddings"};  // Ministral 3's, the same as config.json's
  object.note_reads(read);
  rope.type = read_type(object, model.architecture->renamed_rope_types);
  rope.theta = number_or(object, "rope_theta", kMinTheta, kMaxTheta, rope.theta);
  rope.partial_rotary_factor = number_or(object, "partial_rotary_factor", 1e-6, 1.0, rope.partial_rotary_factor);
  if (rope.type == RopeType::llama3 || rope.type == RopeType::yarn || rope.type == RopeType::longrope) {
    const bool named = config.has(kContext) || object.has(kContext) || rope.type == RopeType::llama3;
    rope.original_max_position_embeddings =
        named ? (config.has(kContext) ? config : object).integer(kContext, 1, kMaxContext)
              : model.max_position_embeddings;
    rope.factor =
        static_cast<double>(model.max_position_embeddings) / static_cast<double>(rope.original_max_position_embeddings);
  }
  const bool told = rope.type == RopeType::yarn && (config.has(kContext) || object.has(kContext));  // by its context
  const bool needed = rope.type == RopeType::linear || rope.type == RopeType::llama3 || rope.type == RopeType::yarn;
  if ((needed && !told) || object.has("factor")) {
    rope.factor = object.number("factor", 1.0, kMaxFactor);
  }
  if (rope.type == RopeType::llama3) read_llama3_(object, rope);
  if (rope.type == RopeType::yarn) read_yarn_(object, rope);
  if (rope.type == RopeType::longrope) read_longrope_(object, model, rope);
  if (model.architecture->query_growth) object.has("llama_4_scaling_beta");
  refuse_unread(object, read);
  return rope;
}

bool is_by_layer_type(const JsonObject& object) {
  const auto& items = object.json();
  return std::any_of(items.begin(), items.end(), [](const auto& value) { return value.is_object(); });
}

// {"full_attention": {...}, "sliding_attention": {...}}
void read_by_layer_type_(const JsonObject& config, const JsonObject& object, ModelConfig& model) {
  for (const auto& [name, value] : object.json().items()) {
    const bool known = model.architecture->plain_local_rope && (name == kFull || name == kSliding);
    KVC_CHECK(
        known, object.where(), ": ", in_quotes(name), " is ", brief(value), ", supported: ",
        model.architecture->plain_local_rope ? "full_attention and sliding_attention" : "one rotation for all layers");
  }
  if (object.has(kFull)) model.rope = read_rotation(config, object.object(kFull), model, model.rope);
  if (object.has(kSliding)) model.local_rope = read_rotation(config, object.object(kSliding), model, model.local_rope);
}

void read_query_growth(const JsonObject& object, ModelConfig& model) {
  if (!model.architecture->query_growth || !object.has("llama_4_scaling_beta")) return;
  model.query_growth = object.number("llama_4_scaling_beta", 0, 1e3);
  model.query_growth_length = object.integer(kContext, 1, kMaxContext);
}

}  // namespace

void read_ropes(const JsonObject& config, ModelConfig& model) {
  KVC_CHECK(!config.has("rope_parameters") || !config.has("rope_scaling"), config.where(),
            ": both rope_scaling and rope_parameters, expected one of them");
  const char* local = model.architecture->local_rope_theta;
  model.rope.theta = number_or(config, "rope_theta", kMinTheta, kMaxTheta, model.rope.theta);
  model.rope.partial_rotary_factor = number_or(config, "partial_rotary_factor", 1e-6, 1.0, 1.0);
  model.local_rope = model.rope;
  if (local) model.local_rope.theta = number_or(config, local, kMinTheta, kMaxTheta, model.rope.theta);
  for (const char* field : {"rope_parameters", "rope_scaling"}) {
    if (!config.has(field)) continue;
    const auto object = config.object(field);
    if (is_by_layer_type(object)) {
      read_by_layer_type_(config, object, model);
      continue;
    }
    KVC_CHECK(!model.architecture->plain_local_rope || std::string(field) == "rope_scaling" || object.json().empty(),
              object.where(), " is ", brief(object.json()), ", expected an object each for full_attention and ",
              "sliding_attention");
    model.rope = read_rotation(config, object, model, model.rope);
    if (!model.architecture->plain_local_rope) model.local_rope = model.rope;
    read_query_growth(object, model);
  }
  if (n_rotated_channels(model.rope, model.head_dim) != n_rotated_channels(model.local_rope, model.head_dim)) {
    throw Error(concat(config.where(), ": partial_rotary_factor is ", model.rope.partial_rotary_factor, " and ",
                       model.local_rope.partial_rotary_factor, ", supported: one for all layers"));
  }
}

}  // namespace kvc
