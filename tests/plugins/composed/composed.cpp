// Compositions of the built plugins as one plugin, so that all that every plugin must do can be asked of them.
#include <cmath>
#include <filesystem>

#include "compose/compose.h"
#include "plugin_loader/plugin_library.h"

namespace {

using kvc::Part;

struct ComposedOptions {
  std::string made_of = "window_rtn";
  void visit(kvc::OptionVisitor& v) {
    v.choice("made_of", made_of,
             {"window_rtn", "snapkv_kivi", "rtn_gear", "h2o_rtn_outlier", "by_layer", "by_tensor", "by_phase",
              "by_tensor_and_phase", "sinks_kivi", "recent_snapkv", "centered_kivi", "centered_sinks_rtn"},
             "which composition");
  }
};

Part part(const std::string& name, const char* options = "{}") {
  const kvc::PluginLibrary library(std::filesystem::path(KVC_BINARY_DIR) / "plugins" / (name + ".so"));
  auto compressor = library.make(nlohmann::json::parse(options));
  return {name, std::move(compressor), library.descriptor().capabilities};
}

Part composition(const std::string& made_of) {
  constexpr const char* kLowRank = R"({"backbone": "none", "rank": 4, "decode_rank": 4, "sparsity": 0})";
  constexpr const char* kOutliers = R"({"backbone": "token_group", "group_size": 16, "buffer": 16})";
  constexpr const char* kKivi = R"({"group_size": 16, "recent": 32})";
  std::vector<Part> parts;
  const auto add = [&](const std::string& name, const char* options = "{}") { parts.push_back(part(name, options)); };
  if (made_of == "window_rtn") add("window", R"({"sinks": 4, "recent": 60})"), add("rtn");
  if (made_of == "snapkv_kivi") add("snapkv", R"({"capacity": 64, "window": 16})"), add("kivi", kKivi);
  if (made_of == "rtn_gear") add("rtn", R"({"bits": 2})"), add("gear", kLowRank);
  if (made_of == "h2o_rtn_outlier") add("h2o"), add("rtn", R"({"bits": 2})"), add("outlier", kOutliers);
  if (!parts.empty()) return kvc::make_chain(std::move(parts), std::nullopt);
  if (made_of == "sinks_kivi") return kvc::make_sinks(4, part("kivi", kKivi));
  if (made_of == "recent_snapkv") return kvc::make_recent(40, part("snapkv", R"({"capacity": 64, "window": 16})"));
  if (made_of == "centered_kivi") return kvc::make_centered(part("kivi", kKivi));
  if (made_of == "centered_sinks_rtn") return kvc::make_centered(kvc::make_sinks(4, part("rtn")));
  add("kivi", kKivi);
  if (made_of == "by_tensor") add("token_group", R"({"bits": 8, "group_size": 16})");
  if (made_of != "by_tensor") add("rtn");
  kvc::RuleScope scope;
  if (made_of == "by_layer") scope.layers = {{1, 1}};
  if (made_of.starts_with("by_tensor")) scope.tensor = kvc::CacheTensor::v;
  if (made_of.ends_with("phase")) scope.decode = true;
  return kvc::make_rules(std::move(parts), {scope}, 2);
}

class Composed final : public kvc::Compressor {
 public:
  explicit Composed(const ComposedOptions& options) : part_(composition(options.made_of)) {}
  void check_model(const kvc::ModelShape& model) const override { part_.compressor->check_model(model); }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return part_.compressor->make_cache(info);
  }
  double bits() const override { return part_.compressor->bits(); }
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const double bytes = part_.compressor->paper_bytes(model, n_prompt_tokens, n_new_tokens);
    return std::isnan(bytes) ? 1 : bytes;  // a plugin has a closed form, a composition need not
  }

 private:
  Part part_;
};

}  // namespace

KVC_PLUGIN(ComposedOptions, Composed, "composed", "compositions of the built plugins", "none", "none", {.evicts = true})
