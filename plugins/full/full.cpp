// The uncompressed baseline: K and V as they came, at 16 bits (or at 32 for exact comparisons).
// Bytes per layer: 2 (K, V) * H_kv * D * T * 2 at 16 bits.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/attend_exact.h>
#include <kvc/quant/tensor_pair_cache.h>

namespace {

struct FullOptions {
  std::string dtype = "fp16";
  void visit(kvc::OptionVisitor& v) { v.choice("dtype", dtype, {"fp16", "bf16", "fp32"}, "storage type of K and V"); }
};

constexpr int64_t kBlockTokens = 64;  // a step copies at most one block

// K or V of one layer.
struct FullTensor : kvc::TokenBlocks {
  explicit FullTensor(at::ScalarType dtype) : TokenBlocks(dtype, kBlockTokens) {}
  int64_t n_encoded() const { return 0; }
  at::Tensor dequantize() const { return all(); }
  void score(kvc::CompressedAttention& attention) const { attention.score(*this, 0); }
  void accumulate_v(kvc::CompressedAttention& attention) const { attention.accumulate_v(*this, 0); }
};

class FullCache final : public kvc::TensorPairCache<FullTensor> {
 public:
  FullCache(const kvc::LayerInfo& info, at::ScalarType dtype)
      : TensorPairCache(info, FullTensor(dtype), FullTensor(dtype)) {}

  at::Tensor attend(const at::Tensor& q, double scale) const override {
    if (q.size(1) != 1 || !q.is_cpu()) return PartsCache::attend(q, scale);
    auto out = at::empty({1, info().n_heads, info().head_dim}, q.options().dtype(at::kFloat));
    const auto held = exact();
    attend_exact({&held, 1}, {&q, 1}, scale, info(), out);
    return out.view({info().n_heads, 1, info().head_dim});
  }
  kvc::ExactTokens exact() const { return {&k_, &v_}; }
  using LayerCache::info;
};

class Full final : public kvc::PartsCompressor {
 public:
  explicit Full(const FullOptions& options)
      : dtype_(options.dtype == "fp16"   ? at::kHalf
               : options.dtype == "bf16" ? at::kBFloat16
                                         : at::kFloat) {}

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<FullCache>(info, dtype_);
  }
  bool attends_together(at::Device) const override { return true; }
  void attend_batch(std::span<const kvc::LayerCache* const> caches, std::span<const at::Tensor> q, double scale,
                    at::Tensor& out) const override {
    if (!out.is_cpu()) return PartsCompressor::attend_batch(caches, q, scale, out);
    std::vector<kvc::ExactTokens> held;
    for (const auto* cache : caches) held.push_back(static_cast<const FullCache*>(cache)->exact());
    const auto& info = static_cast<const FullCache*>(caches.front())->info();
    attend_exact(held, q, scale, info, out);
  }
  double bits() const override { return 8.0 * static_cast<double>(at::elementSize(dtype_)); }
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  at::ScalarType dtype_;
};

}  // namespace

KVC_PLUGIN(FullOptions, Full, "full", "K and V uncompressed, at 16 bits", "the baseline of every table", "none",
           {.lossy = false,
            .one_by_one_same = true,
            .prefix_local = true,
            .splits = true,
            .chunked_prompt = true,
            .formula = "16 bits"})
