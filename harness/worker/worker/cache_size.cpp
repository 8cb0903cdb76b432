#include "worker/cache_size.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "compose/part.h"
#include "contract/stopwatch.h"
#include "hosted/kernel_watch.h"
#include "kvc/joint_prefill.h"
#include "plugin_loader/normal_tokens.h"
#include "sandbox/audit.h"
#include "sandbox/private_tokens.h"
#include "sandbox/sandboxed_call.h"

namespace kvc {
namespace {

constexpr int64_t kAuditedBytes = 256 << 20;  // of exact K and V of a layer

// What one layer holds.
struct LayerSize {
  std::map<std::pair<CacheTensor, ByteKind>, int64_t> rows;
  int64_t n_encoded_numbers = 0, recent_bytes = 0;
  bool is_composed = false;
  bool operator==(const LayerSize&) const = default;
};

class SizeMeasure {
 public:
  SizeMeasure(const Compressor& compressor, const Transformer& model, const LikelyTokens& likely, MemoryMeter& meter,
              const SizeSettings& settings)
      : compressor_(compressor), model_(model), likely_(likely), meter_(meter), settings_(settings) {}

  void fill(CacheSize& size) {
    start_ = processor_seconds();
    if (growth_ == 0) see_quarter(size.n_tokens);
    longest_ *= std::pow(static_cast<double>(size.n_tokens) / static_cast<double>(n_tokens_), growth_);
    n_tokens_ = size.n_tokens;
    tokens_ = likely_.tokens(n_tokens_, settings_.sequence_key);
    std::vector<LayerSize> layers(static_cast<size_t>(model_.shape().n_layers));
    const auto groups = this->groups();
    const auto& audited = groups[random_() % groups.size()];
    audited_ = static_cast<int64_t>(random_() % 2 ? audited.front() : audited.back());
    for (const auto& group : groups) {
      const auto first = filled(group.front()), last = group.size() == 1 ? first : filled(group.back());
      for (const size_t layer : group) {
        layers[layer] = first == last || layer == group.front() ? first : layer == group.back() ? last : filled(layer);
      }
    }
    if (growth_ == 0) growth_ = std::clamp(std::log(longest_ / quarter_) / std::log(4.0), 1.0, 2.0);
    before_ = std::move(layers);
    add_up(size);
  }

 private:
  // A shorter prompt, to see how a layer's time grows: a method may look from each token at all others.
  void see_quarter(int64_t n_tokens) {
    n_tokens_ = std::max<int64_t>(1, n_tokens / 4);
    tokens_ = likely_.tokens(n_tokens_, settings_.sequence_key);
    filled(0);
    quarter_ = longest_;
  }

  // Layers that held the same at the length before.
  std::vector<std::vector<size_t>> groups() const {
    std::vector<std::vector<size_t>> groups;
    for (size_t layer = 0; layer < static_cast<size_t>(model_.shape().n_layers); ++layer) {
      const auto like = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
        return !before_.empty() && !before_[layer].is_composed && before_[group.front()] == before_[layer];
      });
      if (like == groups.end()) {
        groups.push_back({layer});
      } else {
        like->push_back(layer);
      }
    }
    return groups;
  }

  LayerSize filled(size_t layer) {
    KVC_CHECK(processor_seconds() - start_ + longest_ <= settings_.most_seconds, "the layers' caches of ", n_tokens_,
              " tokens take more than ", settings_.most_seconds, " s of the processor");
    const double start = processor_seconds();
    const MemoryMeter::Scope own_copies(meter_, MemoryMeter::kUnseen);
    auto info = model_.layer_info(static_cast<int64_t>(layer), settings_.sequence_key);
    const auto on_device = [&](const at::Tensor& x) { return x.to(info.device); };
    const auto seen = seen_prompt({on_device(tokens_.q), on_device(tokens_.k), on_device(tokens_.v), 0}, info);
    const auto& tokens = copies_.copy_in(seen);
    const int account = meter_.take_account();
    meter_.share(account, &compressor_);
    std::vector<std::unique_ptr<LayerCache>> caches(1);
    kernel_watch_.before(4 * seen.k.numel());
    auto error = sandboxed_call(meter_, account, CallMode::plain, [&] {
      caches[0] = compressor_.make_cache(info);
      append_prompt_alone(compressor_, *caches[0], tokens);
      copies_.reclaim();
    });
    kernel_watch_.after();
    const auto held = meter_.held_bytes(account);  // before the plugin is asked
    LayerSize size;
    int64_t reported = 0;
    if (error.empty()) error = inspected(*caches[0], seen, account, held, reported, size);
    const double filled_at = processor_seconds();
    if (error.empty() && info.layer == audited_) error = audited(*caches[0], seen, account, info);
    start_ += processor_seconds() - filled_at;  // which is not the compressor's time
    const auto left = destroy_caches(meter_, account, caches, held, reported);
    KVC_CHECK(error.empty() && left.empty(), error.empty() ? left : error);
    longest_ = std::max(longest_, filled_at - start);
    return size;
  }

  // As after the prompt of a sample.
  std::string audited(const LayerCache& cache, const NewTokens& given, int account, const LayerInfo& info) {
    if (8 * given.k.numel() > kAuditedBytes) return "";
    return sandboxed_call(meter_, account, CallMode::inspecting, [&] {
      const auto last = given.q.narrow(1, given.q.size(1) - 1, 1).to(at::kFloat);
      const auto attention = cache.attend(last, info.attention_scale);
      const auto answer = ask(cache, last);
      const MemoryMeter::Scope own_work(meter_, MemoryMeter::kUnseen);
      const auto prompt = std::make_shared<const AuditedPrompt>(info, given.k, given.v);
      LayerAudit(prompt, settings_.may_evict(compressor_)).check(answer, last, attention);
    });
  }

  std::string inspected(const LayerCache& cache, const NewTokens& given, int account, const MemoryMeter::Held& held,
                        int64_t& reported, LayerSize& size) const {
    Footprint bytes;
    auto error = sandboxed_call(meter_, account, CallMode::inspecting, [&] {
      bytes = cache.footprint();
      check_counts(cache, given.k.size(1), 2 * given.k.numel());
      reported = bytes.total_bytes();
      size.n_encoded_numbers = cache.n_encoded_numbers();
      size.is_composed = dynamic_cast<const ComposedCache*>(&cache) != nullptr;
      check_bytes(bytes, held);
    });
    for (const auto& row : bytes.rows()) size.rows[{row.tensor, row.kind}] += row.bytes;
    size.recent_bytes = recent_bytes(bytes, 2 * given.k.numel(), size.n_encoded_numbers);
    return error;
  }

  void add_up(CacheSize& size) const {
    const auto& shape = model_.shape();
    const int64_t n_numbers = 2 * shape.n_kv_heads * shape.head_dim * n_tokens_;
    int64_t bytes = 0, recent = 0, n_encoded = 0;
    for (const auto& layer : before_) {
      for (const auto& [of, n] : layer.rows) bytes += of.second == ByteKind::reserved ? 0 : n;
      recent += layer.recent_bytes;
      n_encoded += layer.n_encoded_numbers;
    }
    size.kv_bytes = bytes, size.recent_bytes = recent, size.n_encoded_numbers = n_encoded;
    size.kv_bytes_fp16 = 2 * n_numbers * shape.n_layers;
    size.kv_bytes_engine = engine_bytes(shape, n_tokens_);
  }

  const Compressor& compressor_;
  const Transformer& model_;
  const LikelyTokens& likely_;
  MemoryMeter& meter_;
  const SizeSettings& settings_;
  KernelWatch kernel_watch_;
  std::random_device random_;
  int64_t audited_ = -1;  // the layer
  double start_ = 0;
  NewTokens tokens_;
  PrivateTokens copies_;
  int64_t n_tokens_ = 1;
  double longest_ = 0;  // seconds of a layer; foreseen where none of the length is filled yet
  double quarter_ = 0;  // the same of a quarter of the shortest length
  double growth_ = 0;   // exponent of the time in the length
  std::vector<LayerSize> before_;
};

}  // namespace

std::vector<CacheSize> measure_sizes(const std::function<std::unique_ptr<Compressor>()>& build,
                                     const Transformer& model, const LikelyTokens& likely, std::vector<int64_t> lengths,
                                     MemoryMeter& meter, const SizeSettings& settings) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  std::sort(lengths.begin(), lengths.end());
  std::vector<CacheSize> sizes(lengths.size());
  const int shared = meter.take_account();  // of what the compressor holds itself
  std::unique_ptr<Compressor> compressor;
  std::optional<SizeMeasure> measure;
  for (size_t i = 0; i < lengths.size(); ++i) {
    sizes[i].n_tokens = lengths[i];
    if (i > 0 && !sizes[i - 1].error.empty()) {
      sizes[i].error = sizes[i - 1].error;
      continue;
    }
    try {
      if (!compressor) {
        const MemoryMeter::Scope scope(meter, shared);
        compressor = build();
        compressor->check_model(model.shape());
        meter.set_shared_account(compressor.get(), shared);
      }
      if (!measure) measure.emplace(*compressor, model, likely, meter, settings);
      measure->fill(sizes[i]);
      const auto held = meter.held_bytes(shared);
      sizes[i].shared_bytes = held.tensors + held.beside_tensors;
    } catch (...) {
      sizes[i].error = thrown();
    }
  }
  {
    const MemoryMeter::Scope scope(meter, shared);
    compressor.reset();
  }
  meter.return_account(shared);
  return sizes;
}

}  // namespace kvc
