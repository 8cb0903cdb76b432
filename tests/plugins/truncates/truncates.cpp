// Holds each number's highest bytes of its float: one integer a layer, and another one besides. A method whose bytes
// are known by heart: T tokens take 2 * H_kv * T * D * bytes.
#include <kvc/plugin.h>

#include <vector>

namespace {

struct TruncatesOptions {
  std::vector<int64_t> kept = {3};
  std::vector<int64_t> ignored = {0};
  void visit(kvc::OptionVisitor& v) {
    v.integers_of("kept", kept, {3, 1, 2}, "bytes of each float, for all layers or one for each");
    v.integers_of("ignored", ignored, {0, 1}, "nothing");
  }
};

class TruncatesCache final : public kvc::LayerCache {
 public:
  TruncatesCache(const kvc::LayerInfo& info, int64_t n_bytes) : LayerCache(info), n_bytes_(n_bytes) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    add(k_, tokens.k);
    add(v_, tokens.v);
  }
  kvc::KeyValue dequantize() const override { return {whole(k_), whole(v_)}; }
  int64_t length() const override { return k_.defined() ? k_.size(1) : 0; }
  int64_t n_encoded_tokens() const override { return length(); }
  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    bytes.add(kvc::CacheTensor::k, kvc::ByteKind::codes, k_);
    bytes.add(kvc::CacheTensor::v, kvc::ByteKind::codes, v_);
    return bytes;
  }

 private:
  void add(at::Tensor& held, const at::Tensor& x) const {  // [H, t, D]
    const auto bytes = x.to(at::kFloat).contiguous().view(at::kByte).view({x.size(0), x.size(1), x.size(2), 4});
    const auto high = bytes.slice(3, 4 - n_bytes_);  // little-endian
    held = held.defined() ? at::cat({held, high}, 1) : high.contiguous();
  }
  at::Tensor whole(const at::Tensor& held) const {
    const auto low = at::zeros({held.size(0), held.size(1), held.size(2), 4 - n_bytes_}, held.options());
    return at::cat({low, held}, 3).view(at::kFloat).squeeze(3);
  }
  int64_t n_bytes_;
  at::Tensor k_, v_;  // [H, T, D, n_bytes] uint8
};

class Truncates final : public kvc::Compressor {
 public:
  explicit Truncates(const TruncatesOptions& options) : kept_(options.kept) {}
  void check_model(const kvc::ModelShape& model) const override {
    KVC_CHECK(kept_.size() == 1 || static_cast<int64_t>(kept_.size()) == model.n_layers, "truncates: ", kept_.size(),
              " values for ", model.n_layers, " layers");
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<TruncatesCache>(info, kept_[kept_.size() == 1 ? 0 : static_cast<size_t>(info.layer)]);
  }
  double bits() const override { return 8.0 * static_cast<double>(kept_[0]); }
  double paper_bytes(const kvc::ModelShape&, int64_t, int64_t) const override { return 0; }

 private:
  std::vector<int64_t> kept_;
};

}  // namespace

KVC_PLUGIN(TruncatesOptions, Truncates, "truncates", "the highest bytes of each float", "none", "none", {})
