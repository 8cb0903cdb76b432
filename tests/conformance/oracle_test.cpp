// What the papers' own Python code computes on fixed keys and values, reproduced through the plugins.
// Data: $KVC_SHARED/oracle (oracle.json, inputs, samples). Any set of inputs will do: K_<tag>, V_<tag> [1, H, n, d].
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "plugin/plugin_library.h"
#include "safetensors_file.h"

namespace kvc::conformance {
namespace {

// How a record is reached: a plugin, its options, and whether its input goes in as K or as V.
struct Route {
  std::string plugin;
  nlohmann::json options;
  char slot;             // 'k' or 'v'
  double tolerance;      // absolute, at the samples
  double rel_tolerance;  // of rel_fro
  double n_beyond = 0;   // fraction of samples that may lie beyond the tolerance
};

struct Record {
  std::string id, method;  // "gear.GEARL b2 r4 s0.0 L3|K_A", "gear.GEARL"
  std::string tensor;      // "K_A"
  nlohmann::json fields;
  at::Tensor x;  // [H, n, d] fp32
  int64_t group(int64_t whole) const {
    return fields.at("group").is_string() ? whole : fields.at("group").get<int64_t>();
  }
};

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

class Oracle : public testing::Test {
 protected:
  void SetUp() override {
    const char* shared = std::getenv("KVC_SHARED");
    if (!shared) GTEST_SKIP() << "KVC_SHARED is not set: it names the folder that holds oracle/";
    folder_ = std::filesystem::path(shared) / "oracle";
    if (!std::filesystem::exists(folder_ / "oracle.json")) GTEST_SKIP() << folder_ << " holds no oracle.json";
    inputs_ = read_safetensors(folder_ / "inputs.safetensors");
    samples_ = read_safetensors(folder_ / "samples.safetensors");
    const auto file = nlohmann::json::parse(read_file(folder_ / "oracle.json"));
    for (const auto& fields : file.at("records")) {
      Record record{.id = fields.at("id"), .method = {}, .tensor = {}, .fields = fields, .x = {}};
      const auto bar = record.id.find('|');
      record.method = record.id.substr(0, record.id.find(' '));
      record.tensor = record.id.substr(bar + 1);
      const auto input = inputs_.find(record.tensor);
      if (input == inputs_.end()) continue;
      record.x = input->second[0].to(at::kFloat).contiguous();
      records_.push_back(record);
    }
  }

  const PluginLibrary& plugin(const std::string& name) {
    auto& library = libraries_[name];
    if (!library)
      library = std::make_unique<PluginLibrary>(std::filesystem::path(KVC_BINARY_DIR) / "plugins" / (name + ".so"));
    return *library;
  }

  // The plugin's output for the record's tensor, [1, H, n, d] fp32; the other slot gets the record's partner.
  at::Tensor run(const Record& record, const Route& route) {
    const std::string other_name = std::string(record.tensor[0] == 'K' ? "V" : "K") + record.tensor.substr(1);
    const auto other = inputs_.count(other_name) ? inputs_.at(other_name)[0].to(at::kFloat).contiguous() : record.x;
    const auto compressor = plugin(route.plugin).make(route.options);
    const auto cache = compressor->make_cache(
        {.n_heads = record.x.size(0), .n_kv_heads = record.x.size(0), .head_dim = record.x.size(2)});
    cache->append({.q = {}, .k = route.slot == 'k' ? record.x : other, .v = route.slot == 'v' ? record.x : other});
    EXPECT_EQ(cache->n_encoded_tokens(), record.x.size(1));
    const auto kv = cache->dequantize();
    return (route.slot == 'k' ? kv.k : kv.v).contiguous().unsqueeze(0);
  }

  void compare(const Record& record, const Route& route, int& n_same_bytes) {
    SCOPED_TRACE(concat(record.id, " via ", route.plugin, " ", route.options.dump()));
    const auto y = run(record, route);
    const auto index = samples_.at("index" + record.tensor.substr(1)).to(at::kLong);
    const auto expected = samples_.at(record.id).to(at::kFloat);
    const auto difference = (y.flatten().index_select(0, index) - expected).abs();
    const double n_beyond = difference.gt(route.tolerance).to(at::kDouble).mean().item<double>();
    EXPECT_LE(n_beyond, route.n_beyond) << "largest difference " << difference.max().item<double>();
    const auto exact = record.x.to(at::kDouble);
    const double rel_fro = ((y[0].to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
    const double expected_rel = record.fields.at("rel_fro").get<double>();
    EXPECT_NEAR(rel_fro, expected_rel, route.rel_tolerance * expected_rel);
    const std::string_view bytes(static_cast<const char*>(y.const_data_ptr()), y.nbytes());
    n_same_bytes += sha256_hex(bytes) == record.fields.at("sha256").get<std::string>();
  }

  void compare_all(const std::vector<const char*>& methods, int at_least, bool same_bytes) {
    int n_compared = 0, n_same_bytes = 0;
    for (const auto& record : records_) {
      if (std::none_of(methods.begin(), methods.end(), [&](const char* m) { return record.method == m; })) continue;
      const auto route = route_of(record);
      if (!route) continue;  // the group does not divide this set's length
      compare(record, *route, n_same_bytes);
      ++n_compared;
    }
    std::printf("%d records, %d of them equal in every byte\n", n_compared, n_same_bytes);
    EXPECT_GE(n_compared, at_least);
    EXPECT_TRUE(!same_bytes || n_same_bytes == n_compared) << n_same_bytes << " of " << n_compared;
  }

  std::filesystem::path folder_;
  std::map<std::string, at::Tensor> inputs_, samples_;
  std::vector<Record> records_;
  std::map<std::string, std::unique_ptr<PluginLibrary>> libraries_;
};

TEST_F(Oracle, GroupQuantizersAreReproducedToTheByte) {
  compare_all({"gear_sim.token_group", "gear_sim.channel_group", "gear.KCVT", "gear.KIVI_V2"}, 20, true);
}
TEST_F(Oracle, KiviIsReproduced) {
  compare_all({"kivi.kcache", "kivi.vcache", "kivi.AsymGroupedQuantizer", "kivi.AsymGroupedQuantizerByChannel"}, 20,
              false);
}
TEST_F(Oracle, FlexGenAndQuantoAreReproduced) { compare_all({"flexgen.compress", "quanto.max"}, 6, false); }
TEST_F(Oracle, GearWithoutOutliersIsReproduced) { compare_all({"gear.GEARL", "gear.GEARL-KCVT"}, 32, false); }
TEST_F(Oracle, GearIsReproduced) { compare_all({"gear.GEAR", "gear.GEAR-KCVT"}, 32, false); }

}  // namespace
}  // namespace kvc::conformance
