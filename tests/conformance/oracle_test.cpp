// The records of the quantizers that plugins share, reproduced through them. A plugin's own are in its folder.
#include "oracle.h"

namespace kvc::conformance {
namespace {

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

}  // namespace
}  // namespace kvc::conformance
