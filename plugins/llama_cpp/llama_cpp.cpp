// llama.cpp's KV cache types, K and V apart (-ctk, -ctv), as its CPU flash attention uses them (block_tokens.h).
// A quantized tensor is rotated before it is stored, where head_dim is a multiple of 64, by Hadamard matrices over
// sqrt(n): K in parts of n channels, the largest power of two that divides head_dim; V in parts of 64. Queries are rotated
// like K and then rounded to blocks of q8_0, or to K's floats; the output is rotated back like V. Where GGUF files of the
// model's family have other channels of K as neighbours, K is brought into that order first: blocks are the engine's.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/rotation.h>
#include <kvc/quant/tensor_pair_cache.h>

#include "block_tokens.h"

namespace {

using llama_cpp::BlockTokens;
using llama_cpp::Type;

struct LlamaCppOptions {
  std::string type_k = "q8_0", type_v = "q8_0", rotate = "auto", query = "rounded";
  void visit(kvc::OptionVisitor& v) {
    const auto types = {"f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"};
    v.choice("type_k", type_k, types, "cache type of K (-ctk)");
    v.choice("type_v", type_v, types, "cache type of V (-ctv)");
    v.choice("rotate", rotate, {"auto", "on", "off"},
             "Hadamard rotation of quantized types: auto, where head_dim is a multiple of 64 as in the engine");
    v.choice("query", query, {"rounded", "exact"}, "queries: rounded as in the engine's products, or as they are");
  }
};

// Orthogonal matrices [D, D] fp32; undefined: none.
struct Bases {
  at::Tensor k, v;
};

at::Tensor to(const at::Tensor& x, const at::Tensor& basis) {
  return basis.defined() ? kvc::rows_times(x.to(at::kFloat).contiguous(), basis) : x.to(at::kFloat);
}
at::Tensor from(const at::Tensor& x, const at::Tensor& basis) {
  return basis.defined() ? to(x, basis.t().contiguous()) : x.to(at::kFloat);
}

// K or V in the engine's basis.
class RotatedTokens : public BlockTokens {
 public:
  RotatedTokens(const Type& type, int64_t head_dim, at::Tensor basis)
      : BlockTokens(type, head_dim), basis_(std::move(basis)) {}

  void push_back(const at::Tensor& x) { BlockTokens::push_back(basis_.defined() ? to(x, basis_) : x); }
  at::Tensor dequantize() const {
    const auto x = BlockTokens::dequantize();
    return x.defined() ? from(x, basis_) : x;
  }

 private:
  at::Tensor basis_;
};

class LlamaCppCache final : public kvc::TensorPairCache<RotatedTokens> {
 public:
  LlamaCppCache(const kvc::LayerInfo& info, const Type& k, const Type& v, Bases bases, bool rounds_queries)
      : TensorPairCache(info, {k, info.head_dim, bases.k}, {v, info.head_dim, bases.v}),
        k_type_(k),
        bases_(std::move(bases)),
        rounds_queries_(rounds_queries) {}

  at::Tensor attended_query(const at::Tensor& q) const override {
    return rounds_queries_ ? from(to_basis(q), bases_.k) : q;
  }

 private:
  at::Tensor to_basis(const at::Tensor& q) const override {
    const auto rotated = to(q, bases_.k);
    return rounds_queries_ ? llama_cpp::rounded_query(rotated, k_type_) : rotated;
  }
  at::Tensor from_basis(const at::Tensor& out) const override { return from(out, bases_.v); }

  const Type& k_type_;
  Bases bases_;
  bool rounds_queries_;
};

// Hadamard matrices of n channels along the diagonal; n 1: the identity.
at::Tensor diagonal(int64_t n, int64_t head_dim) {
  const std::vector<at::Tensor> parts(static_cast<size_t>(head_dim / n), kvc::hadamard_matrix(n).to(at::kFloat));
  return at::block_diag(parts);
}

// Channels i and i + D/2 become 2i and 2i + 1.
at::Tensor neighbours(int64_t head_dim) {
  const auto order = at::arange(head_dim, at::kLong).view({2, head_dim / 2}).t().flatten();
  return at::eye(head_dim, at::kFloat).index_select(1, order);
}

class LlamaCpp final : public kvc::PartsCompressor {
 public:
  explicit LlamaCpp(const LlamaCppOptions& options)
      : options_(options), k_(llama_cpp::type_named(options.type_k)), v_(llama_cpp::type_named(options.type_v)) {}

  void check_model(const kvc::ModelShape& model) const override {
    const bool codes = k_.is_quantized() || v_.is_quantized();
    KVC_CHECK(!codes || model.head_dim % llama_cpp::kBlock == 0, "llama_cpp: head_dim ", model.head_dim, " with types ",
              k_.name, " and ", v_.name, ", allowed: multiples of ", llama_cpp::kBlock, " with quantized types");
    KVC_CHECK(options_.rotate != "on" || model.head_dim % kPart == 0, "llama_cpp: rotate on with head_dim ",
              model.head_dim, ", allowed: multiples of ", kPart);
  }

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<LlamaCppCache>(info, k_, v_, bases(info), options_.query == "rounded");
  }

  double bits() const override { return static_cast<double>(k_.bits + v_.bits) / 2; }

  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return (bits_stored(k_) + bits_stored(v_)) / 32 * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  static constexpr int64_t kPart = 64;  // channels

  static double bits_stored(const Type& type) {  // per value, with d and m
    if (!type.is_quantized()) return static_cast<double>(type.bits);
    return static_cast<double>(type.bits) + (type.has_minimum ? 32. : 16.) / llama_cpp::kBlock;
  }

  Bases bases(const kvc::LayerInfo& info) const {
    const int64_t d = info.head_dim, largest = d & -d;  // power of two that divides it
    const bool rotates = options_.rotate != "off" && d % kPart == 0, swaps = info.has_neighbours_in_gguf;
    Bases bases;
    if (k_.is_quantized() && (rotates || swaps)) {
      bases.k = matrices_.get(kvc::concat("k ", d, swaps ? " swapped" : ""), info.device, [&] {
        const auto rotation = diagonal(rotates ? largest : 1, d);
        return swaps ? at::mm(neighbours(d), rotation) : rotation;
      });
    }
    if (v_.is_quantized() && rotates) {
      bases.v = matrices_.get(kvc::concat("v ", d), info.device, [&] { return diagonal(kPart, d); });
    }
    return bases;
  }

  LlamaCppOptions options_;
  const Type &k_, &v_;
  kvc::SharedMatrices matrices_;
};

}  // namespace

KVC_PLUGIN(
    LlamaCppOptions, LlamaCpp, "llama_cpp", "llama.cpp's cache types, from f32 to q4_0 and iq4_nl",
    "ggml-quants.c, llama-kv-cache.cpp of llama.cpp (rotation: pull request 21038)",
    "sums are fp32, where the engine's flash attention keeps fp16 sums for f16; ties of q8_0 queries round away from "
    "zero, where its AVX code rounds to even",
    {.one_by_one_same = true,
     .prefix_local = true,
     .splits = true,
     .chunked_prompt = true,
     .devices = "a GPU would sum rotations in another order, which changes codes",
     .formula = "llama.cpp"})
