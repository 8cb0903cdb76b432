// The base quantizers, to which corrections (low rank, outliers, masks) are added:
//   token_group  K and V per token in groups of g channels of a head
//   kcvt         K per channel over the whole chunk, V per token over all heads
//   kivi         K per channel in groups of g tokens, V per token in groups of g channels of a head
//   none         no quantization: D^ = 0
// Source: GEAR section 2 and table 1.
#pragma once

#include <cstdint>

#include "kvc/quant/group_quant.h"
#include "kvc/quant/shared_options.h"

namespace kvc {

struct KVC_EXPORT Backbone {
  bool quantizes = true;  // false: D^ = 0
  bool grouped = true;    // false: a group of K is a channel's chunk, a group of V a token over all heads
  int64_t bits = 16;      // bits per code; 16 with none
  GroupFormat k, v;       // unused with none
  int64_t buffer = 0;
  int64_t prompt_unit = 1;  // the prompt's chunk is its largest multiple of this

  // Throws Error, naming the method, if groups do not divide head_dim.
  void check_model(const char* method, const ModelShape& model) const;

  // GEAR's tables, as a fraction of the fp16 bytes: b/16 + s + buffer/n_prompt, where s (scales and zeros) is 2/g, or
  // with kcvt 2/n_prompt + 2/D_model (both in full, though each concerns half of the cache); none: buffer/n_prompt.
  double paper_fraction(const ModelShape& model, int64_t n_prompt_tokens) const;
};

// buffer 0: 20 for kcvt, 64 otherwise. Throws Error, naming the method, if kivi's groups do not divide the buffer.
KVC_EXPORT Backbone make_backbone(const char* method, const BackboneOptions& options);

}  // namespace kvc
