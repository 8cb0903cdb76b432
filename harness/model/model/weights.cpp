#include "model/weights.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <sys/mman.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include "checkpoint/adapted_tensors.h"
#include "checkpoint/tensor_source.h"
#include "kvc/check.h"
#include "model/quantized_linear.h"
#include "model/random_weights.h"
#include "model/smooth_quant.h"

namespace kvc {
namespace {

using Parts = std::vector<std::pair<std::string, int64_t>>;  // name without .weight or .bias, rows

// A step reads every weight once, in order: with pages of 2 MiB that is a seventh faster. No more than advice.
void ask_for_huge_pages(const at::Tensor& x) {
  constexpr uintptr_t kPage = 1 << 21;
  if (!x.is_cpu() || x.nbytes() < 2 * kPage) return;
  const auto begin = (reinterpret_cast<uintptr_t>(x.data_ptr()) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<uintptr_t>(x.data_ptr()) + x.nbytes()) / kPage * kPage;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

// Reads each tensor once and remembers its name, so that what nobody asked for shows up; or draws it.
class WeightReader {
 public:
  WeightReader(std::unique_ptr<TensorSource> source, const std::string& name, const LoadOptions& options)
      : name_(name), source_(std::move(source)), options_(options), device_(options.devices.front()) {}
  WeightReader(uint64_t seed, const LoadOptions& options)
      : generator_(at::detail::createCPUGenerator(seed)), options_(options), device_(options.devices.front()) {}

  void set_device(at::Device device) { device_ = device; }  // of what is read from here on

  at::Tensor matrix(const std::string& name, int64_t rows, int64_t columns) {
    return stacked({{name, rows}}, ".weight", columns);
  }
  // The rows of several layers below each other
  Linear linear(const Parts& parts, int64_t columns, bool has_bias) {
    Linear linear;
    if (has_bias) linear.bias = stacked(parts, ".bias", std::nullopt);
    linear.blocks = blocks(parts, columns);
    if (linear.blocks.empty()) {
      linear.weight = stacked(parts, ".weight", columns);
    } else {
      linear.n_columns = columns;
    }
    return linear;
  }
  Norm norm(const std::string& name, const ModelConfig& config) {
    const auto& architecture = *config.architecture;
    const auto weight = norm_weight(name, config.hidden_size, config);
    const bool has_bias = architecture.layer_norm;
    return {weight, has_bias ? floats(name + ".bias", config.hidden_size) : at::Tensor(), architecture.wide_norms};
  }
  at::Tensor norm_weight(const std::string& name, int64_t size, const ModelConfig& config) {
    const auto stored = floats(name + ".weight", size);
    return config.norm_offset == 0 ? stored : stored + config.norm_offset;
  }
  at::Tensor floats(const std::string& name, int64_t size) { return read(name, {size}).to(device_, at::kFloat); }

  void refuse_unread(bool tied_embeddings) const {
    if (!source_) return;
    for (const auto& name : source_->names()) {
      const bool known = read_.contains(name) || name.ends_with(".rotary_emb.inv_freq") ||  // computed from config.json
                         (tied_embeddings && name == "lm_head.weight");
      KVC_CHECK(known, name_, ": tensor '", name, "' has no place in this architecture");
    }
  }

 private:
  at::Tensor read(const std::string& name, const std::vector<int64_t>& shape) {
    if (!source_) return drawn(name, shape);
    read_.insert(name);
    return source_->tensor(name, shape);
  }

  // Where all parts are held in blocks and lie on the CPU, these; else nothing.
  std::vector<BlockRows> blocks(const Parts& parts, int64_t columns) {
    std::vector<BlockRows> all;
    if (!source_ || !device_.is_cpu()) return {};
    for (const auto& [name, rows] : parts) {
      auto part = source_->blocks(name + ".weight", {rows, columns});
      if (!part) return {};
      part->bytes = part->bytes.contiguous();
      all.push_back(std::move(*part));
    }
    for (const auto& [name, rows] : parts) read_.insert(name + ".weight");
    return all;
  }

  at::Tensor drawn(const std::string& name, const std::vector<int64_t>& shape) {
    const auto floats = at::TensorOptions(at::kFloat);
    if (shape.size() == 1) return name.ends_with(".bias") ? at::zeros(shape, floats) : at::ones(shape, floats);
    return at::randn(shape, generator_, floats).mul_(1 / std::sqrt(static_cast<double>(shape[1])));
  }

  // Matrices [rows_i, columns], or vectors [rows_i], one below the other, in the model's type
  at::Tensor stacked(const Parts& parts, const char* suffix, std::optional<int64_t> columns) {
    const auto shape_of = [&](int64_t rows) {
      return columns ? std::vector<int64_t>{rows, *columns} : std::vector<int64_t>{rows};
    };
    int64_t n_rows = 0;
    for (const auto& [name, rows] : parts) n_rows += rows;
    auto all = at::empty(shape_of(n_rows), at::TensorOptions(options_.dtype).device(device_));
    ask_for_huge_pages(all);
    int64_t row = 0;
    for (const auto& [name, rows] : parts) {
      all.narrow(0, row, rows).copy_(read(name + suffix, shape_of(rows)));
      row += rows;
    }
    return all;
  }

  std::string name_;
  std::unique_ptr<TensorSource> source_;  // none: the tensors are drawn
  at::Generator generator_;
  LoadOptions options_;
  at::Device device_;
  std::set<std::string> read_;
};

// One part for each name, or all rows in one where there is one name.
Parts parts_of(const std::string& prefix, const std::vector<const char*>& names, const std::vector<int64_t>& rows) {
  if (names.size() == 1) return {{prefix + names[0], std::accumulate(rows.begin(), rows.end(), int64_t{0})}};
  Parts parts;
  for (size_t i = 0; i < names.size(); ++i) parts.emplace_back(prefix + names[i], rows.at(i));
  return parts;
}

// As the options say: smoothed first, then codes. Blocks that this changes are floats before.
void quantize_layer_(DecoderLayer& layer, const ModelConfig& config, const LoadOptions& options, size_t index) {
  const auto& quantization = options.quantization;
  if (const auto& smoothing = quantization.smoothing) {
    KVC_CHECK(config.is_normed_before(), "smooth_quant: this model has its norms after attention and MLP");
    KVC_CHECK(layer.experts.up.empty(), "smooth_quant: this model has experts, of which not all read every token");
    for (auto* linear : {&layer.qkv, &layer.up}) *linear = expanded(*linear, options.dtype);
    smooth_(layer.attention_norm, layer.qkv, smoothing->maxima.qkv.at(index), smoothing->alpha);
    smooth_(layer.mlp_norm, layer.up, smoothing->maxima.up.at(index), smoothing->alpha);
  }
  layer.for_each_linear([&](Linear& linear) {
    linear.input_bits = quantization.activation_bits;
    if (quantization.weight_bits == 0) return;
    linear = quantized(expanded(linear, options.dtype), quantization.weight_bits, quantization.group_size);
  });
}

Experts load_experts(WeightReader& reader, const ModelConfig& config, const std::string& prefix) {
  const auto& names = config.architecture->tensors;
  const bool has_bias = config.architecture->experts.biases;
  const int64_t hidden = config.hidden_size, width = config.experts.intermediate_size;
  Experts experts;
  experts.router = reader.linear({{prefix + names.router, config.experts.n_experts}}, hidden, has_bias);
  for (int64_t e = 0; e < config.experts.n_experts; ++e) {
    const auto expert = concat(prefix, names.experts, ".", e, ".");
    experts.up.push_back(reader.linear(parts_of(expert, names.expert_up, {width, width}), hidden, has_bias));
    experts.down.push_back(reader.linear({{expert + names.expert_down, hidden}}, width, has_bias));
  }
  return experts;
}

DecoderLayer load_layer(WeightReader& reader, const ModelConfig& config, int64_t layer) {
  const auto& architecture = *config.architecture;
  const auto& names = architecture.tensors;
  const auto prefix = concat(names.stem, "layers.", layer, ".");
  const int64_t hidden = config.hidden_size, intermediate = config.intermediate_size;
  const int64_t q_rows = config.n_heads * config.head_dim, kv_rows = config.n_kv_heads * config.head_dim;
  const bool before = config.norms != NormPlace::of_output;  // or behind the sum, of the same names
  DecoderLayer weights;
  if (before) weights.attention_norm = reader.norm(prefix + names.attention_norm, config);
  weights.qkv = reader.linear(parts_of(prefix, names.qkv, {q_rows, kv_rows, kv_rows}), hidden, config.qkv_bias);
  if (architecture.head_norms != HeadNorms::none) {
    const bool merged = architecture.head_norms == HeadNorms::merged;
    weights.q_norm = reader.norm_weight(prefix + "self_attn.q_norm", merged ? q_rows : config.head_dim, config);
    weights.k_norm = reader.norm_weight(prefix + "self_attn.k_norm", merged ? kv_rows : config.head_dim, config);
  }
  if (architecture.sinks) weights.sinks = reader.floats(prefix + names.sinks, config.n_heads);
  weights.output = reader.linear({{prefix + names.output, hidden}}, q_rows, config.output_bias);
  if (before) weights.mlp_norm = reader.norm(prefix + names.mlp_norm, config);
  if (config.is_output_normed()) {
    weights.attention_output_norm = reader.norm(prefix + names.attention_output_norm, config);
    weights.mlp_output_norm = reader.norm(prefix + names.mlp_output_norm, config);
  }
  if (config.layers.at(static_cast<size_t>(layer)).has_experts) {
    weights.experts = load_experts(reader, config, prefix);
    return weights;
  }
  const auto up_rows = architecture.gated_mlp ? std::vector{intermediate, intermediate} : std::vector{intermediate};
  weights.up = reader.linear(parts_of(prefix, names.up, up_rows), hidden, config.mlp_bias);
  weights.down = reader.linear({{prefix + names.down, hidden}}, intermediate, config.mlp_bias);
  return weights;
}

// The tied matrix on the last device: itself, or a copy there.
Linear on_device(const Linear& embedding, const LoadOptions& options) {
  const auto device = options.devices.back();
  if (device_of(embedding) == device) return embedding;
  return {expanded(embedding, options.dtype).weight.to(device), {}, {}};
}

void check_options(const ModelConfig& config, const LoadOptions& options) {
  KVC_CHECK(options.dtype == at::kFloat || options.dtype == at::kHalf || options.dtype == at::kBFloat16, "model: type ",
            at::toString(options.dtype), ", supported: Float, Half, BFloat16");
  const auto n_devices = static_cast<int64_t>(options.devices.size());
  KVC_CHECK(n_devices >= 1 && n_devices <= config.n_layers, "model: ", n_devices, " devices for ", config.n_layers,
            " layers");
}

Weights read_weights(WeightReader reader, const ModelConfig& config, const LoadOptions& options) {
  const auto n_devices = static_cast<int64_t>(options.devices.size());
  const auto& architecture = *config.architecture;
  const auto& stem = architecture.tensors.stem;
  const int64_t hidden = config.hidden_size, width = config.embedding_size;
  Weights weights;
  weights.type = options.dtype;
  weights.embedding = reader.linear({{stem + "embed_tokens", config.vocab_size}}, width, false);
  if (architecture.learned_positions) {
    const int64_t n_positions = kUnusedPositions + config.max_position_embeddings;
    weights.positions = reader.matrix(stem + "embed_positions", n_positions, hidden);
  }
  if (width != hidden) weights.project_in = reader.linear({{stem + "project_in", hidden}}, width, false);
  for (int64_t layer = 0; layer < config.n_layers; ++layer) {
    reader.set_device(options.devices[static_cast<size_t>(layer * n_devices / config.n_layers)]);
    weights.layers.push_back(load_layer(reader, config, layer));
    quantize_layer_(weights.layers.back(), config, options, static_cast<size_t>(layer));
  }
  if (width != hidden) weights.project_out = reader.linear({{stem + "project_out", width}}, hidden, false);
  if (config.norms != NormPlace::after_sum) {
    weights.final_norm = reader.norm(stem + architecture.tensors.final_norm, config);
  }
  weights.logits = config.tied_embeddings ? on_device(weights.embedding, options)
                                          : reader.linear({{"lm_head", config.vocab_size}}, width, false);
  reader.refuse_unread(config.tied_embeddings);
  return weights;
}

}  // namespace

Weights load_weights(const std::filesystem::path& model, const ModelConfig& config, const LoadOptions& options) {
  return load_weights(open_tensors(model), model.string(), config, options);
}

Weights load_weights(std::unique_ptr<TensorSource> source, const std::string& name, const ModelConfig& config,
                     const LoadOptions& options) {
  check_options(config, options);
  return read_weights(WeightReader(adapted_tensors(std::move(source), config), name, options), config, options);
}

Weights draw_weights(const ModelConfig& config, const LoadOptions& options, uint64_t seed) {
  check_options(config, options);
  return read_weights(WeightReader(seed, options), config, options);
}

int64_t Weights::bytes() const {
  std::vector<at::Tensor> all{positions, final_norm.bias, final_norm.weight};
  const auto add = [&](const Linear& linear) {
    all.insert(all.end(), {linear.weight, linear.bias, linear.scale});
    for (const auto& run : linear.blocks) all.push_back(run.bytes);
  };
  for (const auto* linear : {&embedding, &project_in, &project_out, &logits}) add(*linear);
  for (auto layer : layers) {
    for (const auto* norm :
         {&layer.attention_norm, &layer.attention_output_norm, &layer.mlp_norm, &layer.mlp_output_norm}) {
      all.insert(all.end(), {norm->weight, norm->bias});
    }
    layer.for_each_linear(add);
    add(layer.experts.router);
    all.insert(all.end(), {layer.q_norm, layer.k_norm, layer.sinks});
  }
  std::set<const void*> counted;  // tied matrices are one
  size_t n_bytes = 0;
  for (const auto& tensor : all) {
    if (tensor.defined() && counted.insert(tensor.const_data_ptr()).second) n_bytes += tensor.nbytes();
  }
  return static_cast<int64_t>(n_bytes);
}

}  // namespace kvc
