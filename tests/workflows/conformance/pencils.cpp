#include "pencils.h"

#include "pencil_formulas.h"

namespace kvc::conformance {
namespace {

using nlohmann::json;

// `base` with each of the changes.
std::vector<json> variants(const json& base, const std::vector<json>& changes) {
  std::vector<json> all;
  for (const auto& change : changes) {
    all.push_back(base);
    all.back().update(change);
  }
  return all;
}

std::vector<Pencil> make_pencils() {
  const json exact = {{"precision", "exact"}};
  const json gear_base = {{"backbone", "kcvt"}, {"bits", 4},   {"group_size", 16},      {"rank", 4},
                          {"decode_rank", 2},   {"buffer", 0}, {"correct_fraction", 1}, {"sparsity", 0.05}};
  const json outlier_base = {{"backbone", "kcvt"}, {"bits", 4}, {"group_size", 16}, {"buffer", 0}, {"sparsity", 0.05}};
  const json gearx_base = {
      {"backbone", "kcvt"}, {"bits", 4},          {"group_size", 16},       {"rank", 4},
      {"decode_rank", 2},   {"buffer", 64},       {"prompt_density", 0.02}, {"decode_density", 0.04},
      {"slice", "merged"},  {"stream", "grouped"}};
  const json deco_base = {{"bits", 4},    {"small_bits", 16}, {"form", "icl"},
                          {"tensors", 2}, {"factor", 16},     {"buffer", 24}};
  const json qjl_base = {{"sketch", 64},     {"outlier_sketch", 32}, {"outlier_channels", 4}, {"initial_layers", 0},
                         {"group_size", 16}, {"value_bits", 2},      {"buffer", 32},          {"outliers", "group"}};
  const json kvquant_base = {{"bits", 4},         {"levels", "non_uniform"},   {"sparsity", 0.1},
                             {"first_tokens", 2}, {"calibration", "sequence"}, {"calibration_tokens", 16}};
  return {
      {"full", {{{"dtype", "fp16"}}, {{"dtype", "bf16"}}, {{"dtype", "fp32"}}}, {32}, pencil::full},
      {"token_group",
       variants({{"bits", 4}, {"group_size", 16}},
                {{{"bits", 2}}, {{"bits", 8}}, {{"group_size", 8}}, {{"group_size", 32}}, exact}),
       {32, 64},
       pencil::token_group},
      {"kcvt",
       variants({{"bits", 4}, {"buffer", 20}}, {{{"bits", 2}}, {{"buffer", 1}}, {{"buffer", 33}}, exact}),
       {20},
       pencil::kcvt},
      {"kivi",
       variants({{"bits", 2}, {"group_size", 16}, {"recent", 32}},
                {{{"bits", 4}}, {{"bits", 8}}, {{"recent", 0}}, {{"group_size", 32}, {"recent", 64}}, exact}),
       {16, 32, 64},
       pencil::kivi},
      {"gear",
       variants(gear_base, {{{"bits", 2}},
                            {{"backbone", "kivi"}, {"buffer", 32}},
                            {{"backbone", "kivi"}, {"group_size", 32}, {"correct_fraction", 0.3}},
                            {{"backbone", "token_group"}},
                            {{"backbone", "none"}, {"buffer", 16}},
                            {{"sparsity", 0}},
                            {{"rank", 0}, {"decode_rank", 16}},
                            {{"factor_bits", 8}},
                            {{"correct_fraction", 0.3}},
                            exact}),
       {16, 20, 32, 64},
       pencil::gear},
      {"outlier",
       variants(outlier_base, {{{"bits", 2}},
                               {{"backbone", "kivi"}, {"buffer", 32}},
                               {{"backbone", "token_group"}},
                               {{"sparsity", 1}},
                               exact}),
       {20, 32, 64},
       pencil::outlier},
      {"gearx",
       variants(gearx_base, {{{"bits", 2}},
                             {{"backbone", "kivi"}},
                             {{"backbone", "token_group"}, {"rank", 0}},
                             {{"backbone", "kivi"}, {"stream", "whole"}},
                             {{"backbone", "token_group"}, {"stream", "whole"}},
                             {{"prompt_density", 1. / 64}, {"decode_density", 1. / 32}, {"stream", "whole"}},
                             {{"slice", "head"}},
                             exact}),
       {64},
       pencil::gearx},
      {"window",
       variants({{"sinks", 4}, {"recent", 28}}, {{{"sinks", 0}}, {{"recent", 1}}, exact}),
       {4, 32},
       pencil::window},
      {"h2o",
       variants({{"heavy_ratio", 0.25}, {"recent_ratio", 0.25}},
                {{{"heavy_ratio", 0.}}, {{"recent_ratio", 0.5}}, exact}),
       {4, 8, 16},
       pencil::h2o},
      {"snapkv",
       variants({{"capacity", 24}, {"window", 8}, {"kernel", 5}}, {{{"pooling", "max"}}, {{"kernel", 1}}, exact}),
       {8, 24},
       pencil::snapkv},
      {"tada",
       variants({{"bits", "4"}, {"recent", 32}}, {{{"bits", "2"}}, {{"bits", "8"}}, {{"recent", 0}}, exact}),
       {32, 64},
       pencil::tada},
      {"rtn",
       variants({{"bits", 4}, {"scope", "token"}}, {{{"bits", 2}}, {{"bits", 8}}, {{"scope", "tensor"}}, exact}),
       {32},
       pencil::rtn,
       40},
      {"decoquant",
       variants(deco_base, {{{"bits", 2}},
                            {{"bits", 16}},
                            {{"small_bits", 4}},
                            {{"small_bits", 2}},
                            {{"small_bits", 4}, {"tensors", 3}},
                            {{"small_bits", 2}, {"tensors", 4}},
                            {{"small_bits", 8}, {"form", "svd"}},
                            {{"factor", 32}},
                            {{"tensors", 3}},
                            {{"tensors", 4}},
                            {{"form", "lm"}},
                            {{"form", "lm"}, {"small_bits", 4}},
                            {{"form", "svd"}},
                            {{"form", "qr"}, {"small_bits", 4}},
                            {{"form", "qr"}, {"bits", 16}},
                            exact}),
       {24},
       pencil::decoquant},
      {"quanto",
       variants({{"bits", 4}, {"axis_k", 0}, {"axis_v", 0}, {"group_size", 64}, {"residual", 24}},
                {{{"bits", 2}}, {{"axis_k", -1}}, {{"axis_v", -1}, {"group_size", 32}}, {{"residual", 1}}, exact}),
       {24, 64},
       pencil::quanto,
       40},
      {"hqq",
       variants({{"bits", 4}, {"axis_k", 0}, {"axis_v", 0}, {"group_size", 64}, {"residual", 24}},
                {{{"bits", 2}},
                 {{"bits", 8}},
                 {{"axis_k", 1}},
                 {{"axis_v", 1}, {"group_size", 32}},
                 {{"residual", 1}},
                 exact}),
       {24, 64},
       pencil::hqq,
       40},
      {"fp8", {{{"headroom", 1.}}, {{"headroom", 4.}}}, {32, 64}, pencil::fp8, 40},
      {"nvfp4", {{{"headroom", 1.}}, {{"headroom", 4.}}}, {32, 64}, pencil::nvfp4, 48},
      {"mxfp4", {json::object()}, {32, 64}, pencil::mxfp4, 96},
      {"qjl",
       variants(qjl_base, {{{"value_bits", 4}},
                           {{"sketch", 96}, {"outlier_sketch", 64}},
                           {{"outliers", "prompt"}},
                           {{"outlier_projection", "own"}},
                           {{"outlier_channels", 0}},
                           {{"buffer", 16}},
                           {{"projection", "gaussian"}},
                           exact}),
       {16, 32, 64},
       pencil::qjl},
      {"kvquant",
       variants(kvquant_base, {{{"bits", 2}},
                               {{"bits", 3}},
                               {{"levels", "uniform"}},
                               {{"sparsity", 0}},
                               {{"first_tokens", 0}, {"calibration_tokens", 1}},
                               exact}),
       {2, 18},
       pencil::kvquant,
       32,
       true},
      {"turboquant",
       variants({{"bits", 4}, {"keys", "mse"}}, {{{"bits", 1}},
                                                 {{"bits", 3}},
                                                 {{"bits", 2}, {"keys", "inner_product"}},
                                                 {{"bits", 3}, {"keys", "inner_product"}},
                                                 {{"keys", "inner_product"}},
                                                 exact}),
       {32, 64},
       pencil::turboquant,
       80},
  };
}

}  // namespace

const std::vector<Pencil>& pencils() {
  static const std::vector<Pencil> all = make_pencils();
  return all;
}

}  // namespace kvc::conformance
