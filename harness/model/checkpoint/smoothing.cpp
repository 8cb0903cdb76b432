#include "checkpoint/smoothing.h"

#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "text/files.h"
#include "text/json.h"

namespace kvc {
namespace {

using nlohmann::json;

constexpr const char* kKind = "kvc input maxima";

json numbers(const at::Tensor& x) {
  json list = json::array();
  for (int64_t i = 0; i < x.size(0); ++i) list.push_back(x[i].item<float>());
  return list;
}

std::vector<at::Tensor> tensors(const json& lists, const std::string& where) {
  std::vector<at::Tensor> all;
  for (const auto& list : lists) {
    const auto values = list.get<std::vector<float>>();
    for (const float value : values) {
      KVC_CHECK(std::isfinite(value) && value >= 0, where, ": a maximum is ", value, ", expected 0 or more");
    }
    all.push_back(at::tensor(values));
  }
  return all;
}

void check_shapes(const std::vector<at::Tensor>& maxima, const ModelConfig& config, const std::string& where) {
  KVC_CHECK(static_cast<int64_t>(maxima.size()) == config.n_layers, where, ": maxima of ", maxima.size(),
            " layers, the model has ", config.n_layers);
  for (const auto& x : maxima) {
    KVC_CHECK(x.size(0) == config.hidden_size, where, ": maxima of ", x.size(0), " channels, the model has ",
              config.hidden_size);
  }
}

void check_groups(int64_t group_size, const ModelConfig& config) {
  for (const int64_t columns : {config.hidden_size, config.n_heads * config.head_dim, config.intermediate_size,
                                config.experts.intermediate_size}) {
    KVC_CHECK(group_size == 0 || columns % group_size == 0, "weights: group_size ", group_size, " does not divide the ",
              columns, " columns of a matrix of this model");
  }
}

}  // namespace

void write_smoothing(const std::filesystem::path& path, const SmoothingFile& file) {
  json layers = json::array();
  for (size_t i = 0; i < file.maxima.qkv.size(); ++i) {
    layers.push_back({{"qkv", numbers(file.maxima.qkv[i])}, {"up", numbers(file.maxima.up[i])}});
  }
  write_file(path, json{{"kind", kKind},
                        {"format", 1},
                        {"model", file.model},
                        {"texts", file.texts},
                        {"n_tokens", file.n_tokens},
                        {"layers", layers}}
                           .dump() +
                       '\n');
}

SmoothingFile read_smoothing(const std::filesystem::path& path) {
  const auto where = path.string();
  try {
    const auto text = read_file(path);
    check_json_depth(text, where);
    const auto value = json::parse(text);
    KVC_CHECK(value.is_object() && value.value("kind", "") == kKind && value.value("format", 0) == 1, where,
              ": it is no smoothing file of this version; `kvc smooth` makes one");
    SmoothingFile file{value.at("model"), value.at("texts"), value.at("n_tokens"), {}};
    json qkv = json::array(), up = json::array();
    for (const auto& layer : value.at("layers")) qkv.push_back(layer.at("qkv")), up.push_back(layer.at("up"));
    file.maxima = {tensors(qkv, where), tensors(up, where)};
    return file;
  } catch (const json::exception& e) {
    throw Error(concat(where, ": it is no smoothing file: ", e.what()));
  }
}

std::string smoothing_identity(const json& hashes) {
  json those = json::object();
  for (const auto& [name, hash] : hashes.items()) {
    if (name.ends_with(".safetensors") || name.ends_with(".gguf") || name == "config.json") those[name] = hash;
  }
  return sha256_hex(those.dump());
}

json check_quantization(const QuantizationChoice& choice, const ModelConfig& config, const json& hashes) {
  json record = json::object();
  if (choice.weight_bits > 0) {
    check_groups(choice.group_size, config);
    json group = "row";
    if (choice.group_size > 0) group = choice.group_size;
    record["weights"] = {
        {"bits", choice.weight_bits}, {"group_size", group}, {"held_bits", held_bits(choice.weight_bits)}};
  }
  if (choice.activation_bits > 0) record["activations"] = {{"bits", choice.activation_bits}, {"simulated", true}};
  if (choice.smoothing_file.empty()) return record;
  const auto& path = choice.smoothing_file;
  KVC_CHECK(config.is_normed_before(),
            "smooth_quant: this model has its norms after attention and MLP, so nothing can be smoothed");
  KVC_CHECK(config.experts.n_experts == 0, "smooth_quant: this model has experts, of which not all read every token");
  KVC_CHECK(std::filesystem::exists(path), "smooth_quant: calibration '", path,
            "': no such file; `kvc smooth MODEL --texts FILE... --output ", path, "` makes it");
  const auto file = read_smoothing(path);
  KVC_CHECK(file.model == smoothing_identity(hashes), "smooth_quant: ", path, " is of another model (", file.model,
            "), this one is ", smoothing_identity(hashes));
  check_shapes(file.maxima.qkv, config, path);
  check_shapes(file.maxima.up, config, path);
  record["smooth_quant"] = {{"alpha", choice.alpha}, {"calibration_sha256", sha256_file(path)}};
  return record;
}

Quantization load_quantization(const QuantizationChoice& choice) {
  Quantization result{choice.weight_bits, choice.group_size, choice.activation_bits, std::nullopt};
  if (!choice.smoothing_file.empty()) result.smoothing = {choice.alpha, read_smoothing(choice.smoothing_file).maxima};
  return result;
}

}  // namespace kvc
