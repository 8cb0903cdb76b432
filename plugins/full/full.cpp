// The uncompressed baseline: K and V as they came, at 16 bits (or at 32 for exact comparisons).
// Bytes per layer: 2 (K, V) * H_kv * D * T * 2 at 16 bits.
#include <ATen/ATen.h>
#include <kvc/plugin.h>

#include <vector>

namespace {

struct FullOptions {
  std::string dtype = "fp16";
  void visit(kvc::OptionVisitor& v) { v.choice("dtype", dtype, {"fp16", "bf16", "fp32"}, "type K and V are held in"); }
};

// Closed blocks of kBlockTokens tokens and one open block, so that a step copies at most one block.
constexpr int64_t kBlockTokens = 256;

class FullCache final : public kvc::LayerCache {
 public:
  FullCache(const kvc::LayerInfo& info, at::ScalarType dtype) : LayerCache(info), dtype_(dtype) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    k_.append(tokens.k.to(dtype_));
    v_.append(tokens.v.to(dtype_));
    length_ += tokens.k.size(1);
  }

  kvc::KeyValue dequantize() const override { return {k_.all(), v_.all()}; }
  int64_t length() const override { return length_; }
  int64_t n_encoded_tokens() const override { return 0; }

  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    k_.add_to(bytes, kvc::CacheTensor::k);
    v_.add_to(bytes, kvc::CacheTensor::v);
    return bytes;
  }

 private:
  struct Blocks {
    std::vector<at::Tensor> blocks;  // each [H_kv, <= kBlockTokens, D] dtype, all but the last full

    void append(at::Tensor x) {
      if (!blocks.empty() && blocks.back().size(1) < kBlockTokens) {
        x = at::cat({blocks.back(), x}, 1);
        blocks.pop_back();
      }
      for (int64_t t = 0; t < x.size(1); t += kBlockTokens) {
        const int64_t n_tokens = std::min(kBlockTokens, x.size(1) - t);
        blocks.push_back(x.narrow(1, t, n_tokens).clone(at::MemoryFormat::Contiguous));
      }
    }
    at::Tensor all() const { return at::cat(blocks, 1).to(at::kFloat); }
    void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const {
      for (const auto& block : blocks) bytes.add(tensor, kvc::ByteKind::recent, block);
    }
  };

  at::ScalarType dtype_;
  Blocks k_, v_;
  int64_t length_ = 0;
};

class Full final : public kvc::Compressor {
 public:
  explicit Full(const FullOptions& options)
      : dtype_(options.dtype == "fp16" ? at::kHalf : options.dtype == "bf16" ? at::kBFloat16 : at::kFloat) {}

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
