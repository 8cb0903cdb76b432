// A quantizer to 2 bits by all that it says of itself, whose attention sees exact K and V. They lie where `how` says:
// the place is all that most ways differ in. `honest` attends to its codes.
#include <kvc/plugin.h>
#include <kvc/quant/token_blocks.h>

#include <set>

#include "cheats/hideouts.h"

namespace {

using namespace kvc;

struct Options {
  std::string how = "honest";
  void visit(OptionVisitor& v) {
    v.choice("how", how,
             {"honest",
              "vector",
              "deque",
              "static_global",
              "bss",
              "thread_local",
              "mmap",
              "raw_mmap_syscall",
              "posix_memalign",
              "other_thread",
              "team_member",
              "file",
              "memfd",
              "pipe",
              "forked_child",
              "views",
              "raw_pointers",
              "tensor_from_blob",
              "listener",
              "one_honest_token",
              "only_in_decode",
              "only_layer_0",
              "only_v",
              "batched",
              "frees_in_footprint",
              "exact_dequantize",
              "attended_exact",
              "one_ulp"},
             "where the exact K and V lie, or when they are used");
  }
};

class Cheat final : public LayerCache {
 public:
  Cheat(const LayerInfo& info, const std::string& how) : LayerCache(info), how_(how) {
    if (how == "honest" || (how == "only_layer_0" && info.layer > 0)) return;
    if (how != "only_v") hidden_k_ = hideout(how);
    hidden_v_ = hideout(how);
  }
  void append(const NewTokens& tokens) override {
    check_new_tokens(tokens);
    const int64_t n = tokens.k.size(1), n_first = length_ > 0 ? 0 : n;
    const int64_t n_coded = how_ == "one_honest_token" ? std::min<int64_t>(1, n_first) : n;
    if (length_ == 0 && how_ == "only_in_decode") n_from_codes_ = n;
    if (length_ == 0 && how_ == "one_honest_token") n_from_codes_ = 1;
    length_ += n;
    const int64_t n_left = std::min(n_first, n_from_codes_);
    const auto put = [&](StoredTokens& codes, Hideout* hidden, const at::Tensor& x) {
      if (n_coded > 0) codes.codes.push_back(quantize_groups(x.narrow(1, 0, n_coded).to(at::kFloat), {.bits = 2}));
      if (hidden && n > n_left) hidden->put(n_left > 0 ? x.narrow(1, n_left, n - n_left) : x);
    };
    put(k_, hidden_k_.get(), tokens.k), put(v_, hidden_v_.get(), tokens.v);
    if (how_ != "one_honest_token") return;
    const int64_t n_claimed = info().n_kv_heads * (length_ - 1) * (info().head_dim / 4 + 4);
    claimed_k_ = at::empty({n_claimed}, at::kByte), claimed_v_ = at::empty({n_claimed}, at::kByte);
  }
  at::Tensor attend(const at::Tensor& q, double scale) const override {
    static const std::set<std::string> kInherited = {"batched", "exact_dequantize", "one_ulp", "one_honest_token"};
    return kInherited.contains(how_) ? LayerCache::attend(q, scale) : attend_exactly(q, scale);
  }
  at::Tensor attend_exactly(const at::Tensor& q, double scale) const {
    return reference_attention(q, exact(), positions(), length_, scale, info().sliding_window);
  }
  KeyValue dequantize() const override {
    if (how_ == "exact_dequantize" || how_ == "one_honest_token") return exact();
    if (how_ != "one_ulp") return {k_.dequantize(), v_.dequantize()};
    const auto next = [](const at::Tensor& x) { return at::nextafter(x, at::full({}, INFINITY)); };
    return {next(exact().k), next(exact().v)};
  }
  KeyValue attended() const override { return how_ == "attended_exact" ? exact() : dequantize(); }
  int64_t length() const override { return length_; }
  int64_t n_encoded_tokens() const override { return k_.n_tokens(); }
  Footprint footprint() const override {
    Footprint bytes;
    k_.add_to(bytes, CacheTensor::k), v_.add_to(bytes, CacheTensor::v);
    bytes.add(CacheTensor::k, ByteKind::codes, claimed_k_), bytes.add(CacheTensor::v, ByteKind::codes, claimed_v_);
    if (how_ == "frees_in_footprint") hidden_k_.reset(), hidden_v_.reset();
    return bytes;
  }

 private:
  KeyValue exact() const { return {exact(k_, hidden_k_.get()), exact(v_, hidden_v_.get())}; }
  at::Tensor exact(const StoredTokens& codes, const Hideout* hidden) const {
    if (!hidden || length_ == n_from_codes_) return codes.dequantize();
    return n_from_codes_ == 0 ? hidden->all()
                              : at::cat({codes.dequantize().narrow(1, 0, n_from_codes_), hidden->all()}, 1);
  }
  std::string how_;
  int64_t length_ = 0, n_from_codes_ = 0;  // tokens that are attended to as their codes: the first
  StoredTokens k_{Precision::real}, v_{Precision::real};
  mutable std::unique_ptr<Hideout> hidden_k_, hidden_v_;
  at::Tensor claimed_k_, claimed_v_;  // with as many bytes as codes would have, and nothing in them
};

class Cheats : public Compressor {
 public:
  explicit Cheats(const Options& options) : how_(options.how) {}
  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    return std::make_unique<Cheat>(info, how_);
  }
  double bits() const override { return 2; }
  double paper_bytes(const ModelShape& m, int64_t n_prompt, int64_t n_new) const override {
    return 2.0 * static_cast<double>(m.n_kv_heads * (n_prompt + n_new) * (m.head_dim / 4 + 4));
  }

 private:
  std::string how_;
};

struct BatchedCheats final : Cheats, BatchedAttention {
  using Cheats::Cheats;
  void attend_batch(std::span<const LayerCache* const> caches, std::span<const at::Tensor> q, double scale,
                    at::Tensor& out) const override {
    for (size_t b = 0; b < caches.size(); ++b) {
      out[static_cast<int64_t>(b)].copy_(static_cast<const Cheat&>(*caches[b]).attend_exactly(q[b], scale).squeeze(1));
    }
  }
};

}  // namespace

// The one way that is a class of its own.
template <>
std::unique_ptr<Compressor> kvc::create_compressor<Options, Cheats>(OptionVisitor& assign) {
  Options options;
  options.visit(assign);
  if (options.how == "batched") return std::make_unique<BatchedCheats>(options);
  return std::make_unique<Cheats>(options);
}

KVC_PLUGIN(Options, Cheats, "cheats", "2 bits in every table, exact in attention", "none", "none",
           {.one_by_one_same = true, .prefix_local = true})
