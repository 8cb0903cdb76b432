#include "kvc/quant/backbone.h"

#include <algorithm>
#include <iterator>

namespace kvc {
namespace {

struct Kind {
  const char* name;
  bool quantizes, grouped;
  GroupAxis k_axis;
  int64_t default_buffer;
};
constexpr Kind kKinds[] = {{"token_group", true, true, GroupAxis::channels, 64},
                           {"kcvt", true, false, GroupAxis::tokens, 20},
                           {"kivi", true, true, GroupAxis::tokens, 64},
                           {"none", false, true, GroupAxis::channels, 64}};

}  // namespace

Backbone make_backbone(const char* method, const BackboneOptions& options) {
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const Kind& known) { return known.name == options.backbone; });
  KVC_CHECK(kind != std::end(kKinds), method, ": backbone '", options.backbone,
            "', allowed: token_group, kcvt, kivi, none");
  Backbone result;
  result.quantizes = kind->quantizes;
  result.grouped = kind->grouped;
  result.bits = kind->quantizes ? options.bits : 16;
  result.buffer = options.buffer > 0 ? options.buffer : kind->default_buffer;
  KVC_CHECK(!kind->grouped || kind->k_axis == GroupAxis::channels || result.buffer % options.group_size == 0, method,
            ": buffer ", result.buffer, " is not a multiple of group_size ", options.group_size);
  result.prompt_unit = kind->quantizes && kind->grouped ? result.buffer : 1;
  result.v = {
      .bits = options.bits, .group_size = kind->grouped ? options.group_size : 0, .precision = options.precision};
  result.k = result.v;
  result.k.axis = kind->k_axis;
  result.v.merge_heads = !kind->grouped;
  return result;
}

void Backbone::check_model(const char* method, const ModelShape& model) const {
  if (quantizes && grouped) check_group_size(method, v.group_size, model);
}

double Backbone::paper_fraction(const ModelShape& model, int64_t n_prompt_tokens) const {
  const double n = static_cast<double>(std::max<int64_t>(n_prompt_tokens, 1));
  const double wait = static_cast<double>(buffer) / n;
  if (!quantizes) return wait;
  const double scale_zero = grouped ? 2.0 / static_cast<double>(v.group_size)
                                    : 2 / n + 2.0 / static_cast<double>(model.n_heads * model.head_dim);
  return static_cast<double>(bits) / 16 + scale_zero + wait;
}

}  // namespace kvc
