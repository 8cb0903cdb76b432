// The records of the quantizers that plugins share, reproduced through them. A plugin's own are in its folder.
#include "oracle.h"

namespace kvc::conformance {
namespace {

bool starts(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

// Pure quantizers agree to rounding: their formulas are the same in fp32.
constexpr double kQuantizer = 2e-6, kQuantizerRel = 1e-6;

std::optional<Route> group_route(const Record& record, bool along_tokens) {
  const int64_t heads = record.x.size(0), n = record.x.size(1), d = record.x.size(2);
  nlohmann::json options = {{"bits", record.fields.at("bits")}, {"precision", "exact"}};
  const int64_t group = record.group(along_tokens ? n : heads * d);
  if (along_tokens && group == n) return Route{"kcvt", options, 'k', kQuantizer, kQuantizerRel};
  if (!along_tokens && group == heads * d) return Route{"kcvt", options, 'v', kQuantizer, kQuantizerRel};
  if ((along_tokens ? n : d) % group != 0) return std::nullopt;
  options["group_size"] = group;
  if (!along_tokens) return Route{"token_group", options, 'v', kQuantizer, kQuantizerRel};
  options["recent"] = 0;
  return Route{"kivi", options, 'k', kQuantizer, kQuantizerRel};
}

// GEAR and GEAR-L: mean fill and the public code's count of outliers (both sides of a vector together). Outputs of GEAR
// were rounded to fp16 on the way, and among equal fp16 entries its top-k takes any: 2% of the samples may differ.
Route gear_route(const Record& record, char slot) {
  const bool kcvt = record.method.find("KCVT") != std::string::npos, sparse = !starts(record.method, "gear.GEARL");
  const int64_t vector_len = slot == 'k' ? record.x.size(1) : record.x.size(0) * record.x.size(2);
  nlohmann::json options = {{"backbone", kcvt ? "kcvt" : "kivi"},
                            {"bits", record.fields.at("bits")},
                            {"rank", record.fields.at("rank")},
                            {"loops", record.fields.at("loop")},
                            {"seed", record.fields.at("seed")},
                            {"fill", "mean"},
                            {"precision", "exact"}};
  options["sparsity"] =
      sparse ? record.fields.at("peer_outliers_per_vector").get<double>() / static_cast<double>(vector_len) : 0.0;
  if (!kcvt) options["group_size"] = record.group(0), options["buffer"] = record.group(0);
  const double largest = record.x.abs().max().item<double>();
  return {"gear", options, slot, sparse ? 2e-3 * largest : 1e-4 * largest, sparse ? 1e-3 : 1e-4, sparse ? 0.02 : 0.0};
}

std::optional<Route> route_of(const Record& record) {
  const std::string& method = record.method;
  const char slot = record.tensor[0] == 'K' ? 'k' : 'v';
  if (method == "gear_sim.token_group" || method == "flexgen.compress") return group_route(record, false);
  if (method == "gear_sim.channel_group") return group_route(record, true);
  if (method == "gear.KCVT" || method == "gear.KIVI_V2") return group_route(record, slot == 'k');
  if (method == "kivi.AsymGroupedQuantizer") return group_route(record, false);
  if (method == "kivi.AsymGroupedQuantizerByChannel") return group_route(record, true);
  if (method == "kivi.kcache" || method == "kivi.vcache") {
    auto route = group_route(record, method == "kivi.kcache");
    if (route &&
        record.id.find(" f16 ") != std::string::npos) {  // fp16 arithmetic throughout: a code may differ by one
      route->options["precision"] = "real";
      route->tolerance = record.fields.at("max_abs").get<double>() * 2.2, route->rel_tolerance = 1e-3;
    }
    return route;
  }
  if (method == "quanto.max") return group_route(record, record.id.find("axis-1") != std::string::npos);
  if (starts(method, "gear.GEAR")) return gear_route(record, slot);
  return std::nullopt;
}

TEST_F(Oracle, GroupQuantizersAreReproducedToTheByte) {
  compare_all({"gear_sim.token_group", "gear_sim.channel_group", "gear.KCVT", "gear.KIVI_V2"}, 20, true, route_of);
}
TEST_F(Oracle, KiviIsReproduced) {
  compare_all({"kivi.kcache", "kivi.vcache", "kivi.AsymGroupedQuantizer", "kivi.AsymGroupedQuantizerByChannel"}, 20,
              false, route_of);
}
TEST_F(Oracle, FlexGenAndQuantoAreReproduced) { compare_all({"flexgen.compress", "quanto.max"}, 6, false, route_of); }
TEST_F(Oracle, GearWithoutOutliersIsReproduced) { compare_all({"gear.GEARL", "gear.GEARL-KCVT"}, 32, false, route_of); }
TEST_F(Oracle, GearIsReproduced) { compare_all({"gear.GEAR", "gear.GEAR-KCVT"}, 32, false, route_of); }

}  // namespace
}  // namespace kvc::conformance
