// A compressor as a part of others, and the cache of such a part, which keeps its own time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvc/plugin.h"
#include "kvc/split_attention.h"

namespace kvc {

// What a composition knows of a part: its plugin's capabilities, or those of a composition. Nothing goes by the name.
struct Part {
  std::string name;  // for messages: "kivi", "snapkv+kivi"
  std::unique_ptr<Compressor> compressor;
  Capabilities capabilities;
  int n_stages = 1;  // plugins in it
};

// What a stage holds of one layer, and the time of all calls so far.
struct StageUse {
  Footprint bytes;
  double encode_seconds = 0, attend_seconds = 0;
};

// What a composition asks of its parts.
enum class Gather : uint8_t {
  held,          // dequantize()
  attended,      // attended(), for attention, whose time it is
  error_stored,  // dequantize(), for attention that adds to it what a later stage holds of its error
};

class ComposedCache;

class PartCache {
 public:
  // first_stage: of the part's plugins, in the numbering of the composition that holds it, from 1.
  PartCache(int first_stage, std::unique_ptr<LayerCache> cache);
  PartCache(PartCache&&) noexcept;
  ~PartCache();

  void append(const NewTokens& tokens);
  at::Tensor attend(const at::Tensor& q, double scale) const;
  KeyValue gather(Gather what) const;
  // Attention in halves, of this part's tokens alone (ComposedCache); only if it has them.
  bool has_halves(const at::Tensor& q) const;
  bool rounds(const at::Tensor& q) const { return !cache_->attended_query(q).is_same(q); }
  void add_scores(const at::Tensor& q, double scale, const at::Tensor& to) const;
  at::Tensor mix(const at::Tensor& weights) const;
  int64_t droppable(int64_t n_tokens) const;  // as DropsTokens; 0 if the cache cannot
  void drop_oldest(int64_t n_tokens);
  const LayerCache& operator*() const { return *cache_; }
  LayerCache& cache() { return *cache_; }
  const LayerCache* operator->() const { return cache_.get(); }

  // uses[0] is the composition's own, uses[s] stage s's. Times go over from the former to the latter.
  void add_to(std::vector<StageUse>& uses) const;

 private:
  int first_stage_;
  std::unique_ptr<LayerCache> cache_;
  const ComposedCache* composed_;  // the same cache, where the part is itself a composition
  const SplitAttention* split_;    // where it attends in halves
  double encode_seconds_ = 0;
  mutable double attend_seconds_ = 0;
};

// A cache made of the caches of parts. One query's attention is made of the parts' scores, one softmax over all of them
// and the parts' weighted sums, where each part has these halves; else it is the reference's over all that they hold.
class ComposedCache : public LayerCache {
 public:
  void append(const NewTokens& tokens) final;
  at::Tensor attend(const at::Tensor& q, double scale) const final;
  KeyValue dequantize() const final { return gather(Gather::held); }
  KeyValue attended() const final;
  Footprint footprint() const final;
  std::vector<StageUse> stages() const;  // [0]: the composition's own storage and time; [s]: stage s
  virtual KeyValue gather(Gather what) const = 0;
  // Attention in halves, as SplitAttention: to [H_q, T_q, T_kept] fp32 += scores of the tokens at positions(), which
  // mix() adds up. Only if has_halves(q).
  virtual bool has_halves(const at::Tensor& q) const = 0;
  virtual void add_scores(const at::Tensor& q, double scale, const at::Tensor& to) const = 0;
  virtual at::Tensor mix(const at::Tensor& weights) const = 0;
  int64_t layer() const { return info().layer; }
  virtual LayerCache& prompt();  // the cache of the part that has the prompt; throws where there are several

 protected:
  ComposedCache(const LayerInfo& info, int n_stages) : LayerCache(info), n_stages_(n_stages) {}
  virtual void append_parts(const NewTokens& tokens) = 0;
  virtual at::Tensor attend_parts(const at::Tensor& q, double scale) const;
  virtual void add_parts(std::vector<StageUse>& uses) const = 0;  // and what the composition itself holds

 private:
  at::Tensor attend_in_halves(const at::Tensor& q, double scale) const;

  int n_stages_;
  double encode_seconds_ = 0;
  mutable double attend_seconds_ = 0;
};

// A cache of one part, which has all tokens.
class OnePartCache : public ComposedCache, public DropsTokens {
 public:
  OnePartCache(const LayerInfo& info, int n_stages, PartCache part)
      : ComposedCache(info, n_stages), part_(std::move(part)) {}

  at::Tensor attended_query(const at::Tensor& q) const override { return part_->attended_query(q); }
  at::Tensor positions() const override { return part_->positions(); }
  LayerCache& prompt() override { return part_.cache(); }
  int64_t length() const override { return part_->length(); }
  int64_t n_encoded_tokens() const override { return part_->n_encoded_tokens(); }
  int64_t n_encoded_numbers() const override { return part_->n_encoded_numbers(); }
  int64_t droppable(int64_t n_tokens) const override { return part_.droppable(n_tokens); }
  void drop_oldest(int64_t n_tokens) override { part_.drop_oldest(n_tokens); }
  bool has_halves(const at::Tensor& q) const override { return part_.has_halves(q); }
  void add_scores(const at::Tensor& q, double scale, const at::Tensor& to) const override {
    part_.add_scores(q, scale, to);
  }
  at::Tensor mix(const at::Tensor& weights) const override { return part_.mix(weights); }

 protected:
  PartCache part_;
};

// [H_kv, n + m]: positions of some tokens, and of those after them, which are counted from n_before on. Expanded, not
// stored, where all heads have the same.
at::Tensor positions_in_turn(const at::Tensor& first, const at::Tensor& rest, int64_t n_before);

// The halves of attention to exact tokens, k and v [H_kv, n, D] fp16, contiguous, on the CPU: to [H_q, T_q, n] fp32, a
// range of the tokens of a contiguous tensor, += q k^T * scale; and weights v, of weights that are such a range.
void add_exact_scores(const at::Tensor& q, const at::Tensor& k, double scale, const at::Tensor& to);
at::Tensor exact_mix(const at::Tensor& weights, const at::Tensor& v);

}  // namespace kvc
