// A quantizer to 2 bits by all that it says of itself, whose attention sees exact K and V. They lie where `how` says:
// the place is all that most ways differ in. `honest` attends to its codes. The last ways are those of one that evicts
// (evicting_cheats), of one that looks for the layer that is audited, and of one that looks for the prompt of a size.
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
              "one_ulp",
              "drops_a_token",
              "drops_a_token_of_a_head",
              "drops_a_token_later",
              "drops_half",
              "unless_attended_at_once",
              "unless_asked_at_once",
              "unless_asked_later",
              "small_under_key_1",
              "small_at_4096",
              "small_of_normal_numbers",
              "all_recent"},
             "where the exact K and V lie, or when they are used");
  }
};

class Cheat final : public LayerCache {
 public:
  Cheat(const LayerInfo& info, const std::string& how) : LayerCache(info), how_(how) {
    if (how == "honest" || (how == "only_layer_0" && info.layer > 0)) return;
    if (how.starts_with("small_") || how == "all_recent") return;
    if (how != "only_v") hidden_k_ = hideout(how);
    hidden_v_ = hideout(how);
  }
  void append(const NewTokens& tokens) override {
    check_new_tokens(tokens);
    ++n_appends_;
    if (how_.starts_with("small_")) return append_small(tokens);
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
  // Honest codes of 2 bits where it takes the prompt for that of a size, else honest tokens in 16 bits.
  void append_small(const NewTokens& tokens) {
    const auto n = tokens.k.size(1);
    if (length_ == 0) {
      const auto k = tokens.k.to(at::kFloat);
      is_small_ = how_ == "small_under_key_1" ? info().sequence_key == 1
                  : how_ == "small_at_4096"
                      ? n == 4096 || n == 32768
                      : std::abs(k.mean().item<float>()) < 0.1 && std::abs(k.std().item<float>() - 1) < 0.1;
    }
    length_ += n;
    for (auto [codes, wide, x] : {std::tuple(&k_, &wide_k_, &tokens.k), std::tuple(&v_, &wide_v_, &tokens.v)}) {
      if (is_small_) codes->codes.push_back(quantize_groups(x->to(at::kFloat), {.bits = 2}));
      if (!is_small_) wide->push_back(*x);
    }
  }
  at::Tensor positions() const override {
    const bool drops = how_.starts_with("drops_") && (how_ != "drops_a_token_later" || n_appends_ > 1);
    auto all = LayerCache::positions().contiguous();
    if (!drops) return all;
    if (how_ == "drops_a_token_of_a_head") return all[0][0] = -1, all;
    return all.narrow(1, n_dropped(), length_ - n_dropped());
  }
  int64_t n_dropped() const { return how_ == "drops_half" ? length_ / 2 : 1; }
  at::Tensor attend(const at::Tensor& q, double scale) const override {
    if (how_.starts_with("drops_") || how_.starts_with("small_") || how_ == "all_recent") {
      return LayerCache::attend(q, scale);
    }
    if (how_.starts_with("unless_")) {
      attended_at_once_ |= n_appends_ == 1;
      const bool is_seen = how_ == "unless_attended_at_once" ? attended_at_once_
                           : how_ == "unless_asked_at_once"  ? asked_at_once_
                                                             : n_appends_ < 20 || asked_later_;
      return is_seen ? LayerCache::attend(q, scale) : attend_exactly(q, scale);
    }
    static const std::set<std::string> kInherited = {"batched", "exact_dequantize", "one_ulp", "one_honest_token"};
    return kInherited.contains(how_) ? LayerCache::attend(q, scale) : attend_exactly(q, scale);
  }
  at::Tensor attend_exactly(const at::Tensor& q, double scale) const {
    return reference_attention(q, exact(), LayerCache::positions(), length_, scale, info());
  }
  KeyValue dequantize() const override {
    if (how_ == "exact_dequantize" || how_ == "one_honest_token") return exact();
    if (how_.starts_with("small_") && !is_small_) return {wide_k_.all(), wide_v_.all()};
    if (how_.starts_with("drops_")) {
      const auto all = exact();
      const int64_t n_kept = positions().size(1), first = length_ - n_kept;
      return {all.k.narrow(1, first, n_kept), all.v.narrow(1, first, n_kept)};
    }
    if (how_ != "one_ulp") return {k_.dequantize(), v_.dequantize()};
    const auto next = [](const at::Tensor& x) { return at::nextafter(x, at::full({}, INFINITY)); };
    return {next(exact().k), next(exact().v)};
  }
  KeyValue attended() const override {
    (n_appends_ == 1 ? asked_at_once_ : asked_later_) = true;
    return how_ == "attended_exact" ? exact() : dequantize();
  }
  int64_t length() const override { return length_; }
  int64_t n_encoded_tokens() const override { return how_.starts_with("small_") ? length_ : k_.n_tokens(); }
  Footprint footprint() const override {
    Footprint bytes;
    if (how_ == "all_recent") {
      for (const auto& [tensor, held] : {std::pair(CacheTensor::k, &k_), std::pair(CacheTensor::v, &v_)}) {
        for (const auto& block : held->codes.blocks()) {
          for (const auto& x : {block.codes, block.scale, block.zero}) bytes.add(tensor, ByteKind::recent, x);
        }
      }
      return bytes;
    }
    k_.add_to(bytes, CacheTensor::k), v_.add_to(bytes, CacheTensor::v);
    wide_k_.add_to(bytes, CacheTensor::k, ByteKind::codes), wide_v_.add_to(bytes, CacheTensor::v, ByteKind::codes);
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
  int64_t n_appends_ = 0;
  bool is_small_ = false;
  mutable bool attended_at_once_ = false, asked_at_once_ = false, asked_later_ = false;
  TokenBlocks wide_k_{at::kHalf}, wide_v_{at::kHalf};
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

#ifndef CHEATS
#define CHEATS "cheats"
#define CHEATS_EVICT false
#endif
KVC_PLUGIN(Options, Cheats, CHEATS, "2 bits in every table, exact in attention", "none", "none",
           {.one_by_one_same = true, .prefix_local = true, .evicts = CHEATS_EVICT})
