#include "kvc/quant/backbone.h"

#include <algorithm>

#include "kvc/quant/shared_options.h"

namespace kvc {

Backbone make_backbone(const char* method, const std::string& name, int64_t bits, int64_t group_size, int64_t buffer,
                       Precision precision) {
  const bool kcvt = name == "kcvt", kivi = name == "kivi", none = name == "none";
  KVC_CHECK(kcvt || kivi || none || name == "token_group", method, ": backbone '", name,
            "', allowed: token_group, kcvt, kivi, none");
  Backbone result;
  result.name = name;
  result.bits = none ? 16 : bits;
  result.buffer = buffer > 0 ? buffer : kcvt ? 20 : 64;
  KVC_CHECK(!kivi || result.buffer % group_size == 0, method, ": buffer ", result.buffer,
            " is not a multiple of group_size ", group_size);
  result.prompt_unit = kcvt || none ? 1 : result.buffer;
  result.k = {.bits = bits, .group_size = kcvt ? 0 : group_size, .precision = precision};
  result.v = result.k;
  if (kcvt || kivi) result.k.axis = GroupAxis::tokens;
  result.v.merge_heads = kcvt;
  return result;
}

void Backbone::check_model(const char* method, const ModelShape& model) const {
  if (name != "kcvt" && quantizes()) check_group_size(method, v.group_size, model);
}

double Backbone::paper_fraction(const ModelShape& model, int64_t n_prompt_tokens) const {
  const double n = static_cast<double>(std::max<int64_t>(n_prompt_tokens, 1));
  const double wait = static_cast<double>(buffer) / n;
  if (!quantizes()) return wait;
  const double side = name == "kcvt" ? 2 / n + 2.0 / static_cast<double>(model.n_heads * model.head_dim)
                                     : 2.0 / static_cast<double>(v.group_size);
  return static_cast<double>(bits) / 16 + side + wait;
}

}  // namespace kvc
