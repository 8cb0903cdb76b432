// What caches on a device read in one step, recorded by CompressedAttention and run together: parts of one kind by one
// launch, whatever the number of sequences and their lengths. Tensors are the device's, as cuda/products.h
// takes them. A sequence's bits do not depend on those beside it: what adds to the same numbers is ordered by that
// sequence's parts alone.
// Where the model computes in 16 bits, the first tokens of a sequence whose K and V are parts that cuda/attend_codes.h
// serves are attended to by it, which rounds to fp16, and what stands behind them by products and a softmax of its own;
// the two are joined. Where other parts (low rank, entries) add to these tokens' scores or have them as weights, they
// add first, and attend_codes writes the sums; the softmax then is of all tokens, and gives the weights for all that is
// left.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <vector>

#include "cuda/attend_codes.h"
#include "cuda/products.h"
#include "kvc/quant/group_quant.h"
#include "kvc/quant/level_codes.h"
#include "kvc/quant/outliers.h"

namespace kvc::on_device {

// scores: [H_q, n] of the part's tokens, a view; q, out: [H_q, X] with rows that follow one another; all fp32. They are
// added to, and held until then, as are the tensors that a matrix was made of.
class Step {
 public:
  // in_half: attend_codes may read what it serves.
  explicit Step(at::Device device, bool in_half = false) : device_(device), in_half_(in_half) {}

  cuda_products::Matrix matrix_of(const GroupCodes& x);
  // Codes [1, n_groups, n_words] of groups in such an order over all of a [H, n, D] tensor of these sizes.
  cuda_products::Matrix matrix_of(const GroupCodes& x, GroupOrder order, at::IntArrayRef sizes);
  cuda_products::Matrix matrix_of(const LevelCodes& x);  // the factor is the caller's
  cuda_products::Matrix matrix_of(const at::Tensor& x);  // [H_kv or 1, n, X] of fp16, bf16 or fp32, rows contiguous
  cuda_products::Entries entries_of(const Outliers& x, int64_t n_kv_heads, int64_t head_dim);

  // Before anything is recorded, for the sequences of a batch: queries [B, H_q, D] fp32 = q[b] [H_q, 1, D] * scale, and out
  // = 0. scores[b] [H_q, n] are not written yet; run() sets to zero those that it adds to.
  void begin(std::span<const at::Tensor> q, double scale, const at::Tensor& queries, const at::Tensor& out);
  void begin_scores(const at::Tensor& scores);
  void set_scores_to_zero();  // now, all that are not written yet

  // fits: attend_codes may read it, if it serves the format.
  void score(const cuda_products::Matrix& k, const at::Tensor& q, const at::Tensor& scores, bool fits = false);
  void score(const cuda_products::Entries& k, const at::Tensor& q, const at::Tensor& scores);
  // Of each KV head, in place. softcap: 0, or as in LayerInfo; sinks: [H_q] fp32, or undefined.
  void softmax(const at::Tensor& scores, std::span<const int64_t> n_hidden, double softcap, const at::Tensor& sinks);
  void accumulate_v(const cuda_products::Matrix& v, const at::Tensor& weights, const at::Tensor& out,
                    bool fits = false);
  void accumulate_v(const cuda_products::Entries& v, const at::Tensor& weights, const at::Tensor& out);
  void then(std::function<void()> f) { then_.push_back(std::move(f)); }  // once the sums are there

  // A method reads these scores itself, adds to them or to their sum over V: products and a softmax must have all.
  void keep_apart(const at::Tensor& scores) { apart_.push_back(scores.const_data_ptr<float>()); }
  bool has_weights(const at::Tensor& scores) const;  // none of them is left out since attend_codes read its tokens

  void run();  // all that was recorded, in this order; afterwards nothing is

 private:
  template <class Key, class Part>
  struct Recorded {
    Key key;  // what parts of one launch have in common
    Part part;
    int wave = 0;       // one more than that of a part of this key that adds to the same scores
    int target = 0;     // where sums of accumulate_* are added
    bool fits = false;  // attend_codes may read it, if it serves the format
  };
  template <class Key, class Part>
  using List = std::vector<Recorded<Key, Part>>;
  struct EntriesKey {
    bool of_channels;
    int n_heads, head_dim;
    auto operator<=>(const EntriesKey&) const = default;
  };
  struct Target {
    at::Tensor out;
    int n_parts = 0;
    int64_t workspace = 0;  // where its parts begin
  };
  // A sequence's first tokens.
  struct Segments {
    bool alone = false;  // no other part has any of their tokens
    std::vector<cuda_attend::Segment> segments;
    const float* q = nullptr;
    int target = 0, n_heads = 0, n_kv_heads = 0, n_tokens = 0;
    float* norms = nullptr;        // alone: of the other tokens' softmax, null where there are none; otherwise of all
    const float* sinks = nullptr;  // of the softmax
  };
  // What attend_codes gives of them, from its splits to their sums.
  struct Attention {
    std::vector<cuda_attend::Sequence> batch;
    cuda_attend::AttentionShape heads = {};
    at::Tensor workspace;
  };
  void hold(const at::Tensor& x) {
    if (x.defined()) held_.push_back(x);
  }
  template <class Key, class Part>
  static void add_score(List<Key, Part>& list, const Key& key, const Part& part);
  int target_of(const at::Tensor& out);
  at::Tensor place_sums();  // the workspace that holds them
  bool is_whole(const cuda_products::Softmax& softmax) const;
  bool is_plain(const cuda_products::Softmax& softmax) const;
  Segments segments_of(const cuda_products::Softmax& softmax, bool alone);
  std::vector<Segments> take_segments();
  void set_to_zero(std::span<const cuda_products::QueryRows> scores) const;
  Attention attend(std::span<const Segments> all, void* stream);
  void join(const Attention& attention, void* stream);

  at::Device device_;
  bool in_half_;
  List<cuda_products::Loop, cuda_products::Score> scores_;
  List<EntriesKey, cuda_products::ScoreEntries> score_entries_;
  std::vector<cuda_products::Softmax> softmax_;
  List<cuda_products::Loop, cuda_products::AccumulateV> v_sums_;
  List<EntriesKey, cuda_products::AccumulateEntries> v_entry_sums_;
  std::vector<Target> targets_;
  std::vector<const float*> apart_, without_weights_;
  std::vector<cuda_products::QueryRows> unwritten_;  // scores of sequences
  std::vector<at::Tensor> held_;
  std::vector<std::function<void()>> then_;
};

}  // namespace kvc::on_device
