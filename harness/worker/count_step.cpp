#include "worker/count_step.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <map>

#include "cuda/host/launch_log.h"
#include "devices/emulated_device.h"
#include "kvc/joint_prefill.h"
#include "model/ops.h"
#include "worker/bench_run.h"

namespace kvc {
namespace {

using cuda_emulated::LaunchLog;

struct LayerCount {
  std::vector<HeldBytes> held;
  LaunchLog launches;
  int64_t n_operator_numbers = 0;

  int64_t bytes() const {
    int64_t sum = 0;
    for (const auto& row : held) sum += row.bytes;
    return sum;
  }
  double multiply_adds() const {
    double sum = 0;
    for (const auto& launch : launches) sum += launch.multiply_adds + launch.products;
    return sum;
  }
};

void attend_once(const Compressor& compressor, const LayerCache& cache, const at::Tensor& q, double scale) {
  const auto* batched = dynamic_cast<const BatchedAttention*>(&compressor);
  if (!batched) {
    cache.attend(q, scale);
    return;
  }
  const LayerCache* caches[] = {&cache};
  const at::Tensor queries[] = {q};
  auto out = at::empty({1, q.size(0), q.size(2)}, at::TensorOptions(at::kFloat).device(q.device()));
  batched->attend_batch(caches, queries, scale, out);
}

LayerCount count_layer(const Compressor& compressor, const ModelShape& model, const NewTokens& tokens, int64_t layer) {
  const auto frequencies = rope_frequencies({}, model.head_dim);
  const auto info = layer_info(model, layer, 0, model.has_rope ? std::span(frequencies) : std::span<const float>(),
                               emulated_device());
  const auto cache = compressor.make_cache(info);
  append_prompt_alone(compressor, *cache, tokens);
  LayerCount count;
  const auto footprint = cache->footprint();
  for (const auto& row : footprint.rows()) {
    count.held.push_back({to_string(row.tensor), to_string(row.kind), row.bytes});
  }
  const auto q = tokens.q.narrow(1, tokens.q.size(1) - 1, 1).contiguous();
  const cuda_emulated::LogLaunches log(count.launches);
  const CountOperators operators(count.n_operator_numbers);
  attend_once(compressor, *cache, q, model.attention_scale);
  return count;
}

// By kernel, of `times` such layers.
void add_kernels(std::map<const void*, KernelWork>& all, const LayerCount& layer, int64_t times) {
  for (const auto& launch : layer.launches) {
    auto& work = all[launch.address];
    if (work.launches == 0) work.kernel = cuda_emulated::kernel_symbol(launch.address);
    work.launches += times;
    work.multiply_adds += static_cast<double>(times) * launch.multiply_adds;
    work.products += static_cast<double>(times) * launch.products;
  }
}

void add_held(std::vector<HeldBytes>& all, const LayerCount& layer, int64_t times) {
  for (const auto& row : layer.held) {
    const auto same = [&](const HeldBytes& other) { return other.tensor == row.tensor && other.kind == row.kind; };
    const auto found = std::ranges::find_if(all, same);
    auto& sum = found == all.end() ? all.emplace_back(HeldBytes{row.tensor, row.kind, 0}) : *found;
    sum.bytes += times * row.bytes;
  }
}

}  // namespace

StepCount count_step(const Compressor& compressor, const ModelShape& model, const BenchSubject& subject,
                     int64_t n_tokens) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(subject.seed));
  const auto tokens = drawn_tokens(model, subject, n_tokens, generator, emulated_device());
  StepCount step;
  step.n_layers = model.n_layers;
  std::map<const void*, KernelWork> kernels;
  double operator_numbers = 0;
  const auto add = [&](const LayerCount& layer, int64_t times) {
    add_held(step.held, layer, times);
    add_kernels(kernels, layer, times);
    operator_numbers += static_cast<double>(times * layer.n_operator_numbers);
  };
  const auto count = [&](int64_t layer) { return count_layer(compressor, model, tokens, layer); };
  const auto first = count(0);
  const auto last = model.n_layers == 1 ? first : count(model.n_layers - 1);
  if (first.bytes() == last.bytes() && first.multiply_adds() == last.multiply_adds()) {
    step.n_filled = std::min<int64_t>(2, model.n_layers);
    add(first, model.n_layers);
  } else {
    step.n_filled = model.n_layers;
    add(first, 1);
    for (int64_t layer = 1; layer + 1 < model.n_layers; ++layer) add(count(layer), 1);
    add(last, 1);
  }
  for (auto& [address, work] : kernels) step.kernels.push_back(work);
  const auto numbers = 2.0 * static_cast<double>(model.n_layers * model.n_kv_heads * model.head_dim * n_tokens);
  step.operator_share = operator_numbers / numbers;
  return step;
}

}  // namespace kvc
