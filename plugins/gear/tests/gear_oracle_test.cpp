// The records of GEAR's public code: GEAR, GEAR-L and the power iteration.
#include "oracle.h"
#include "slow_reference.h"

namespace kvc::conformance {
namespace {

class GearOracle : public Oracle {};

// Mean fill and the public code's count of outliers (both sides of a vector together). Outputs of GEAR were rounded to
// fp16 on the way, and among equal fp16 entries its top-k takes any: 2% of the samples may differ.
std::optional<Route> route_of(const Record& record) {
  const char slot = record.tensor[0] == 'K' ? 'k' : 'v';
  const bool kcvt = record.method.find("KCVT") != std::string::npos;
  const bool sparse = record.method.rfind("gear.GEARL", 0) != 0;
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
  return Route{
      "gear", options, slot, sparse ? 2e-3 * largest : 1e-4 * largest, sparse ? 1e-3 : 1e-4, sparse ? 0.02 : 0.0};
}

TEST_F(GearOracle, GearWithoutOutliersIsReproduced) {
  compare_all({"gear.GEARL", "gear.GEARL-KCVT"}, 32, false, route_of);
}
TEST_F(GearOracle, GearIsReproduced) { compare_all({"gear.GEAR", "gear.GEAR-KCVT"}, 32, false, route_of); }

// "gear.poweriter residual2bitKCVT r4|K_A": what rank r leaves of the residual of 2-bit KCVT after 1, 2, 3, 6 loops.
// The record does not name its start, so the numbers are those of another draw: 1.5 % apart at most, and never below
// the record's floor (its SVD).
TEST_F(GearOracle, PowerIterationLeavesWhatItLeavesThere) {
  int n_compared = 0;
  for (const auto& record : records_) {
    if (record.method != "gear.poweriter") continue;
    SCOPED_TRACE(record.id);
    const int64_t rank = std::stoll(record.id.substr(record.id.rfind(" r") + 2));
    const auto error = [&](int64_t r, int64_t loops) {
      const nlohmann::json options = {{"bits", 2},           {"rank", r},       {"loops", loops},
                                      {"seed", 1200 + rank}, {"sparsity", 0.0}, {"precision", "exact"}};
      return relative_error(run(record, {"gear", options, 'k', 0, 0})[0], record.x);
    };
    const double backbone = error(0, 1);
    for (const int64_t loops : {1, 2, 3, 6}) {
      const double left = error(rank, loops) / backbone, expected = record.fields.at(concat("rel_L", loops));
      EXPECT_NEAR(left, expected, 0.015 * expected) << loops << " loops";
      EXPECT_GE(left, record.fields.at("svd_floor").get<double>() * (1 - 1e-5));
    }
    std::printf("%s via gear\n", record.id.c_str());
    ++n_compared;
  }
  EXPECT_GE(n_compared, 4);
}

// Complete outputs, not samples: all but 2 % of the entries.
TEST_F(GearOracle, WholeOutputsAreReproduced) {
  int n_compared = 0;
  for (const auto& [id, whole] : read_safetensors(folder_ / "full.safetensors")) {
    const auto record = std::find_if(records_.begin(), records_.end(), [&](const auto& r) { return r.id == id; });
    if (record == records_.end() || record->method.rfind("gear.GEAR", 0) != 0) continue;
    SCOPED_TRACE(id);
    const auto route = route_of(*record);
    const auto beyond = (run(*record, *route) - whole.to(at::kFloat)).abs().gt(route->tolerance);
    EXPECT_LE(beyond.to(at::kDouble).mean().item<double>(), 0.02);
    std::printf("%s, all %ld entries\n", id.c_str(), static_cast<long>(whole.numel()));
    ++n_compared;
  }
  EXPECT_GE(n_compared, 1);
}

}  // namespace
}  // namespace kvc::conformance
