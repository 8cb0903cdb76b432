// Whether a compressor ran, judged by what it answers. One layer of a sequence, drawn by chance, is watched: its
// attention is held against attention over the exact K and V and over what the cache says that it holds, and the error
// of that against what its bytes can carry. docs/methodology.md argues the bounds.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "kvc/layer_cache.h"

namespace kvc {

// Throws Error unless attention has the shape of its queries and lies where they do.
void check_attention(const at::Tensor& attention, const at::Tensor& q);

// The exact K and V of one layer's prompt: what all sequences that begin with it are held against.
class WatchedPrompt {
 public:
  // k, v: [H_kv, T, D], copied. bits_granted: to each number, beyond what a Gaussian of their covariance needs; keys
  // and values of a model are no Gaussian noise.
  WatchedPrompt(const LayerInfo& info, const at::Tensor& k, const at::Tensor& v, double bits_granted = 2);

  int64_t layer() const { return info_.layer; }
  const LayerInfo& info() const { return info_; }
  const KeyValue& given() const { return given_; }
  // The smallest relative error of K, of V, that so many bits in all can carry, less what is granted to chance.
  double least_k_error(int64_t bits) const { return least_error(k_variances_, given_.k, bits); }
  double least_v_error(int64_t bits) const { return least_error(v_variances_, given_.v, bits); }

 private:
  double least_error(const std::vector<double>& variances, const at::Tensor& x, int64_t bits) const;

  LayerInfo info_;
  KeyValue given_;
  double bits_granted_;
  std::vector<double> k_variances_, v_variances_;  // of a token's principal components, descending
};

// One sequence's part in it.
class Watch {
 public:
  Watch(std::shared_ptr<const WatchedPrompt> prompt, uint32_t seed) : prompt_(std::move(prompt)), random_(seed) {}

  bool sees(int64_t layer) const { return layer == prompt_->layer(); }

  // The cache has just been given the prompt; q: [H_q, T >= 1, D], its last queries. Throws Error with what does not
  // fit.
  void look_at_prompt(const LayerCache& cache, const at::Tensor& q) const;

  // A step's token, which the cache is given, too; k, v: [H_kv, 1, D]. -> whether to look at what comes of it
  bool add(const NewTokens& token);

  // q and the cache's attention: [H_q, T_q, D]. Throws Error with what does not fit. -> dequantize()
  KeyValue compare(const LayerCache& cache, const at::Tensor& q, const at::Tensor& attention) const;

 private:
  std::shared_ptr<const WatchedPrompt> prompt_;
  std::vector<at::Tensor> k_, v_;  // of the steps
  std::minstd_rand random_;
  size_t next_look_ = random_() % 8;  // the step behind which to look
};

}  // namespace kvc
