#include "plugin_loader/build_compressor.h"

#include "plugin_loader/calibration.h"
#include "plugin_loader/plugin_library.h"

namespace kvc {
namespace {

using nlohmann::json;

template <class Build>
auto with_place(const CompressorChoice& written, Build build) {
  try {
    return build();
  } catch (const Error& e) {
    throw Error(concat(written.where, written.where.empty() ? "" : ": error: ", e.what()));
  }
}

BuiltCompressor open_plugin(const CompressorChoice& written, const ModelShape& model, const std::string& identity) {
  return with_place(written, [&] {
    const auto library = library_of(written);
    BuiltCompressor built;
    auto compressor = make_calibrated(library, written.options, model, identity, &built.resolved);
    const auto& about = library.descriptor();
    built.part = {about.name, std::move(compressor), about.capabilities};
    built.stages = {{about.name, library.sha256(), "", built.resolved.dump()}};
    built.runtimes = {library.runtime()};
    KVC_CHECK(written.runtime.empty() || built.runtimes[0] == written.runtime, written.file, ": computes with ",
              built.runtimes[0], ", the run began with ", written.runtime, ": one of them was replaced");
    return built;
  });
}

// As in the experiment's file: a plugin stands under its name.
json named(const CompressorChoice& written, const BuiltCompressor& built) {
  return written.kind == CompressorChoice::Kind::plugin ? json{{built.part.name, built.resolved}} : built.resolved;
}

json resolved_rule(const RuleScope& scope, json use) {
  json rule = {{"use", std::move(use)}};
  if (!scope.layers.empty()) {
    rule["layers"] = json::array();
    for (const auto& [first, last] : scope.layers) rule["layers"].push_back(concat(first, "-", last));
  }
  if (scope.tensor) rule["tensor"] = to_string(*scope.tensor);
  if (scope.decode) rule["phase"] = *scope.decode ? "decode" : "prompt";
  return rule;
}

RuleScope scope_in(const ModelShape& model, const CompressorChoice& rule, const RuleScope& written) {
  for (const auto& [first, last] : written.layers) {
    KVC_CHECK(last < model.n_layers, rule.where, ": error: layers ", first, "-", last, ", the model has 0 to ",
              model.n_layers - 1);
  }
  return with_place(rule, [&] { return written.in_layers_of(model); });
}

void add_stages(BuiltCompressor& whole, BuiltCompressor& part, const std::string& place) {
  for (auto& stage : part.stages) {
    stage.place = stage.place.empty() ? place : concat(place, ": ", stage.place);
    whole.stages.push_back(std::move(stage));
  }
  whole.runtimes.insert(whole.runtimes.end(), part.runtimes.begin(), part.runtimes.end());
}

// Around one other.
BuiltCompressor build_wrapped(const CompressorChoice& written, const ModelShape& model, const std::string& identity) {
  using Kind = CompressorChoice::Kind;
  auto part = build_compressor(written.parts.at(0), model, identity);
  BuiltCompressor whole;
  auto& entry = whole.resolved[written.plugin];
  if (written.kind != Kind::centered) entry["n"] = written.n_exact;
  entry["of"] = named(written.parts.at(0), part);
  add_stages(whole, part, "of");
  whole.part = with_place(written, [&] {
    return written.kind == Kind::sinks    ? make_sinks(written.n_exact, std::move(part.part))
           : written.kind == Kind::recent ? make_recent(written.n_exact, std::move(part.part))
                                          : make_centered(std::move(part.part));
  });
  return whole;
}

bool is_wrapped(CompressorChoice::Kind kind) {
  using Kind = CompressorChoice::Kind;
  return kind == Kind::sinks || kind == Kind::recent || kind == Kind::centered;
}

}  // namespace

PluginLibrary library_of(const CompressorChoice& plugin) {
  using Runs = PluginLibrary::Runs;
  return PluginLibrary(plugin.file, plugin.sha256, plugin.in_own_process ? Runs::in_own_process : Runs::here,
                       plugin.python);
}

void check_plugin_files(const CompressorChoice& written) {
  for (const auto& part : written.parts) check_plugin_files(part);
  if (written.kind == CompressorChoice::Kind::plugin)
    with_place(written, [&] { return check_plugin_file(written.file, written.sha256); });
}

BuiltCompressor build_compressor(const CompressorChoice& written, const ModelShape& model,
                                 const std::string& identity) {
  if (written.kind == CompressorChoice::Kind::plugin) return open_plugin(written, model, identity);
  if (is_wrapped(written.kind)) return build_wrapped(written, model, identity);
  const bool chain = written.kind == CompressorChoice::Kind::chain;
  BuiltCompressor whole;
  std::vector<Part> parts;
  std::vector<RuleScope> scopes;
  json resolved = json::array();
  for (size_t i = 0; i < written.parts.size(); ++i) {
    auto part = build_compressor(written.parts[i], model, identity);
    const auto& use = named(written.parts[i], part);
    if (!chain && i > 0) scopes.push_back(scope_in(model, written.parts[i], written.scopes.at(i - 1)));
    resolved.push_back(chain || i == 0 ? use : resolved_rule(scopes.back(), use));
    add_stages(whole, part, chain ? concat("stage ", i + 1) : i == 0 ? "default" : to_string(scopes.back()));
    parts.push_back(std::move(part.part));
  }
  const bool blocks = chain && stores_errors(parts);
  with_place(written, [&] {
    whole.part = chain ? make_chain(std::move(parts), written.block)
                       : make_rules(std::move(parts), std::move(scopes), model.n_layers);
    return 0;
  });
  if (chain) {
    whole.resolved = {{"chain", resolved}};
    if (blocks) whole.resolved["block"] = written.block.value_or(kDefaultBlock);
  } else {
    whole.resolved["rules"]["default"] = resolved[0];
    whole.resolved["rules"]["where"] = json(resolved.begin() + 1, resolved.end());
  }
  return whole;
}

}  // namespace kvc
