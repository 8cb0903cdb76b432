// What the papers' own Python code computes on fixed keys and values, read from $KVC_SHARED/oracle (oracle.json,
// inputs, samples), and a fixture that holds a plugin against its records. Any set of inputs will do: K_<tag>, V_<tag>
// [1, H, n, d].
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "compressors/plugin_library.h"
#include "safetensors_file.h"
#include "text/files.h"

namespace kvc::conformance {

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

class Oracle : public testing::Test {
 protected:
  // The route of a record, or none where the plugin cannot take its shape (a group that does not divide the length).
  using RouteOf = std::function<std::optional<Route>(const Record&)>;

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

  // Every record of these methods; prints how many there were.
  void compare_all(const std::vector<std::string>& methods, const RouteOf& route_of) {
    int n_compared = 0, n_same_bytes = 0;
    for (const auto& record : records_) {
      if (std::find(methods.begin(), methods.end(), record.method) == methods.end()) continue;
      const auto route = route_of(record);
      if (!route) continue;  // the group does not divide this set's length
      std::printf("%s via %s\n", record.id.c_str(), route->plugin.c_str());
      compare(record, *route, n_same_bytes);
      ++n_compared;
    }
    std::printf("%d records, %d of them equal in every byte\n", n_compared, n_same_bytes);
    if (n_compared == 0) GTEST_SKIP() << "the set has no such record";
  }

  std::filesystem::path folder_;
  std::map<std::string, at::Tensor> inputs_, samples_;
  std::vector<Record> records_;
  std::map<std::string, std::unique_ptr<PluginLibrary>> libraries_;
};

}  // namespace kvc::conformance
