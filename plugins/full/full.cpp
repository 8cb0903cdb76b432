// The uncompressed baseline: K and V as they came, at 16 bits (or at 32 for exact comparisons).
// Bytes per layer: 2 (K, V) * H_kv * D * T * 2 at 16 bits.
#include <kvc/plugin.h>
#include <kvc/quant/token_blocks.h>

namespace {

struct FullOptions {
  std::string dtype = "fp16";
  void visit(kvc::OptionVisitor& v) { v.choice("dtype", dtype, {"fp16", "bf16", "fp32"}, "type K and V are held in"); }
};

constexpr int64_t kBlockTokens = 256;  // a step copies at most one block

class FullCache final : public kvc::LayerCache {
 public:
  FullCache(const kvc::LayerInfo& info, at::ScalarType dtype)
      : LayerCache(info), k_(dtype, kBlockTokens), v_(dtype, kBlockTokens) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    k_.push_back(tokens.k);
    v_.push_back(tokens.v);
  }

  kvc::KeyValue dequantize() const override { return {k_.all(), v_.all()}; }
  int64_t length() const override { return k_.n_tokens(); }
  int64_t n_encoded_tokens() const override { return 0; }

  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    k_.add_to(bytes, kvc::CacheTensor::k);
    v_.add_to(bytes, kvc::CacheTensor::v);
    return bytes;
  }

 private:
  kvc::TokenBlocks k_, v_;
};

class Full final : public kvc::Compressor {
 public:
  explicit Full(const FullOptions& options)
      : dtype_(options.dtype == "fp16"   ? at::kHalf
               : options.dtype == "bf16" ? at::kBFloat16
                                         : at::kFloat) {}

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<FullCache>(info, dtype_);
  }
  double bits() const override { return 8.0 * static_cast<double>(at::elementSize(dtype_)); }
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return 4.0 * static_cast<double>(model.n_kv_heads * model.head_dim * (n_prompt_tokens + n_new_tokens));
  }

 private:
  at::ScalarType dtype_;
};

}  // namespace

KVC_PLUGIN(FullOptions, Full, "full", "K and V uncompressed, at 16 bits", "the baseline of every table", "none",
           {.lossy = false, .one_by_one_same = true, .prefix_local = true})
