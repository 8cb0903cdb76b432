// What a bench runs on: a model with random prompts, or one attention layer.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>

#include "kvc/check.h"
#include "model/ops.h"
#include "model/prefill_attention.h"
#include "plugin_loader/normal_tokens.h"
#include "sandbox/device.h"
#include "sandbox/device_clock.h"
#include "worker/bench_run.h"
#include "worker/load_model.h"

namespace kvc {
namespace {

// Normal numbers of the subject's type; of a layer the first outlier_channels of each KV head's keys are outlier_factor
// as large.
NewTokens drawn_tokens(const ModelShape& model, const BenchSubject& subject, int64_t n_tokens, at::Generator& generator,
                       at::Device device) {
  const auto drawn = normal_tokens(model, n_tokens, generator);
  if (subject.is_layer()) drawn.k.narrow(2, 0, subject.outlier_channels).mul_(subject.outlier_factor);
  const auto placed = [&](const at::Tensor& x) { return x.to(device, parse_dtype(subject.dtype)); };
  return {placed(drawn.q), placed(drawn.k), placed(drawn.v), 0};
}

class LayerBody final : public BenchBody {
 public:
  LayerBody(const BenchSubject& subject, MemoryMeter& meter)
      : subject_(subject), meter_(meter), device_(device_named(subject.device)) {
    frequencies_ = rope_frequencies({}, subject.head_dim);
  }

  ModelShape shape() const override {
    return {.n_heads = subject_.n_heads, .n_kv_heads = subject_.n_kv_heads, .head_dim = subject_.head_dim};
  }
  LayerInfo layer_info(int64_t layer, uint64_t sequence_key) const override {
    return kvc::layer_info(shape(), layer, sequence_key, frequencies_, device_);
  }
  int64_t max_tokens() const override { return std::numeric_limits<int64_t>::max(); }
  int64_t input_bytes() const override { return meter_.live_bytes(kBenchInputs); }

  void prepare(const BenchPoint& point) override {
    prompt_ = steps_ = {};
    const MemoryMeter::Scope scope(meter_, kBenchInputs);
    auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(subject_.seed));
    n_prompt_ = point.n_prompt_tokens;
    const int64_t n_rows = (n_prompt_ + kRowBucket - 1) / kRowBucket * kRowBucket;
    prompt_ = drawn_tokens(shape(), subject_, n_rows, generator, device_);
    steps_ = drawn_tokens(shape(), subject_, point.n_new_tokens, generator, device_);
  }

  void prefill(const Transformer::OnLayer& on_layer) override {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    if (subject_.prefill) {
      const PrefillAttention attention(prompt_.k, prompt_.v, layer_info(0, 0));
      if (attention.has_all()) attention.attend_all(prompt_.q, 0);
      for (int64_t row = 0; row < prompt_.q.size(1) && !attention.has_all(); row += kRowBucket) {
        attention.attend(prompt_.q, row, row);
      }
    }
    const auto tokens = [&](const at::Tensor& x) { return x.narrow(1, 0, n_prompt_).contiguous(); };
    on_layer(0, tokens(prompt_.q), tokens(prompt_.k), tokens(prompt_.v));
    synchronize(device_);
  }

  void decode_step(int64_t step, int64_t batch, const Transformer::AttendStep& attend) override {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    const auto token = [&](const at::Tensor& x) { return x.narrow(1, step, 1).contiguous(); };
    const std::vector<NewTokens> news(static_cast<size_t>(batch),
                                      {token(steps_.q), token(steps_.k), token(steps_.v), n_prompt_ + step});
    auto attended =
        at::empty({batch, subject_.n_heads, subject_.head_dim}, at::TensorOptions(at::kFloat).device(device_));
    attend(0, news, shape().attention_scale, attended);
    synchronize(device_);
  }

 private:
  BenchSubject subject_;
  MemoryMeter& meter_;
  at::Device device_;
  std::vector<float> frequencies_;
  int64_t n_prompt_ = 0;
  NewTokens prompt_, steps_;  // of all sequences: their caches are their own
};

// Random ids; the ids of decoding are drawn too, so that a run takes the same steps with every compressor.
class ModelBody final : public BenchBody {
 public:
  explicit ModelBody(const BenchSubject& subject)
      : seed_(subject.seed),
        model_(subject.model.empty() ? drawn(subject)
                                     : load_model(subject.model, subject.dtype, subject.weights, {subject.device})) {}

  ModelShape shape() const override { return model_.shape(); }
  LayerInfo layer_info(int64_t layer, uint64_t sequence_key) const override {
    return model_.layer_info(layer, sequence_key);
  }
  int64_t weights_bytes() const override { return model_.weights_bytes(); }
  int64_t max_tokens() const override { return model_.config().max_position_embeddings; }

  void prepare(const BenchPoint& point) override {
    const int64_t n_tokens = point.n_prompt_tokens + point.n_new_tokens;
    auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed_));
    const auto ids = at::randint(model_.config().vocab_size, {n_tokens}, generator, at::TensorOptions(at::kLong));
    ids_.assign(ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + n_tokens);
    n_prompt_ = point.n_prompt_tokens;
  }
  void prefill(const Transformer::OnLayer& on_layer) override {
    model_.prefill(std::span(ids_).first(static_cast<size_t>(n_prompt_)), on_layer);
  }
  void decode_step(int64_t step, int64_t batch, const Transformer::AttendStep& attend) override {
    const int64_t position = n_prompt_ + step;
    const std::vector<StepToken> tokens(static_cast<size_t>(batch), {ids_[static_cast<size_t>(position)], position});
    model_.decode_step(tokens, attend);
  }

 private:
  static Transformer drawn(const BenchSubject& subject) {
    LoadOptions options{.dtype = parse_dtype(subject.dtype), .devices = {device_named(subject.device)}};
    if (subject.weights == "int8") options.quantization.weight_bits = 8;
    return Transformer::draw(subject.config, options, static_cast<uint64_t>(subject.seed));
  }

  int64_t seed_, n_prompt_ = 0;
  Transformer model_;
  std::vector<int64_t> ids_;
};

}  // namespace

std::unique_ptr<BenchBody> make_bench_body(const BenchSubject& subject, MemoryMeter& meter) {
  if (subject.is_layer()) return std::make_unique<LayerBody>(subject, meter);
  return std::make_unique<ModelBody>(subject);
}

}  // namespace kvc
