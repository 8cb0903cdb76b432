// Rules: another compressor for some layers, for K or V, for the prompt or what is decoded.
#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "compose/compose.h"
#include "compose/rule_caches.h"
#include "kvc/joint_prefill.h"

namespace kvc {
namespace {

// Which part serves K and V of one layer, in the prompt and in decoding.
struct LayerParts {
  std::array<size_t, 2> prompt, decode;  // of K, of V

  bool one_phase(size_t tensor) const { return prompt[tensor] == decode[tensor]; }
};

bool waits(const Part& part) { return dynamic_cast<const JointPrefill*>(part.compressor.get()) != nullptr; }

size_t tensor_of(Holds holds) { return holds == Holds::v ? 1 : 0; }

class Rules : public Compressor {
 public:
  Rules(std::vector<Part> parts, std::vector<std::string> places, std::vector<LayerParts> layers)
      : parts_(std::move(parts)), places_(std::move(places)), layers_(std::move(layers)) {
    for (const auto& part : parts_) {
      first_stages_.push_back(1 + n_stages_);
      n_stages_ += part.n_stages;
    }
  }

  void check_model(const ModelShape& model) const override {
    KVC_CHECK(model.n_layers == static_cast<int64_t>(layers_.size()), "rules: made for ", layers_.size(),
              " layers, the model has ", model.n_layers);
    for (size_t i = 0; i < parts_.size(); ++i) {
      try {
        parts_[i].compressor->check_model(model);
      } catch (const Error& e) {
        throw Error(concat("rules: ", places_[i], " (", parts_[i].name, "): ", e.what()));
      }
    }
  }

  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    const auto& of = layers_.at(static_cast<size_t>(info.layer));
    const bool whole = info.holds != Holds::both || (of.prompt[0] == of.prompt[1] && of.decode[0] == of.decode[1]);
    if (whole) return in_phases(info, of, tensor_of(info.holds));
    const auto alone = [&](Holds holds) {
      auto one = info;
      one.holds = holds;
      return PartCache(1, in_phases(one, of, tensor_of(holds)));
    };
    return std::make_unique<SplitCache>(info, n_stages_, alone(Holds::k), alone(Holds::v));
  }

  // Mean over layers, K and V, prompt and decode.
  double bits() const override {
    double sum = 0;
    for (const auto& of : layers_) {
      for (const size_t part : {of.prompt[0], of.prompt[1], of.decode[0], of.decode[1]}) {
        sum += parts_[part].compressor->bits();
      }
    }
    return sum / static_cast<double>(4 * layers_.size());
  }

  // Mean over layers. No closed form speaks of K or V alone, or of decoding without its prompt.
  double paper_bytes(const ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    double sum = 0;
    for (const auto& of : layers_) {
      if (of.prompt[0] != of.prompt[1] || of.prompt != of.decode) return std::nan("");
      sum += parts_[of.prompt[0]].compressor->paper_bytes(model, n_prompt_tokens, n_new_tokens);
    }
    return sum / static_cast<double>(layers_.size());
  }

 protected:
  // Each part's end of the prefill over the layers that are its own.
  void finish_parts(std::span<LayerCache* const> caches) const {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!waits(parts_[i])) continue;
      std::vector<LayerCache*> own;
      for (auto* cache : caches) {
        if (part_of(*cache) == i) own.push_back(&prompt_of(*cache));
      }
      if (!own.empty()) finish_prefill(*parts_[i].compressor, own);
    }
  }
  Observation observation_of_parts() const {
    for (const auto& part : parts_) {
      if (const auto* pass = observer(part)) return pass->observation();
    }
    throw Error("rules: no part observes");
  }
  void observe_part(LayerCache& cache, const ObservedChunk& chunk) const {
    if (const auto* pass = observer(parts_[part_of(cache)])) pass->observe(prompt_of(cache), chunk);
  }
  static const ObservationPass* observer(const Part& part) {
    return dynamic_cast<const ObservationPass*>(part.compressor.get());
  }

 private:
  // Which part has the prompt's K; one that waits for the prompt's end has its V as well.
  size_t part_of(const LayerCache& cache) const {
    return layers_.at(static_cast<size_t>(dynamic_cast<const ComposedCache&>(cache).layer())).prompt[0];
  }
  static LayerCache& prompt_of(LayerCache& cache) { return dynamic_cast<ComposedCache&>(cache).prompt(); }

  // The tensor's parts, one after the other where the phases have different ones.
  std::unique_ptr<LayerCache> in_phases(const LayerInfo& info, const LayerParts& of, size_t tensor) const {
    if (of.one_phase(tensor)) return std::make_unique<WholeCache>(info, n_stages_, part(of.prompt[tensor], info));
    return std::make_unique<PhaseCache>(info, n_stages_, part(of.prompt[tensor], info), part(of.decode[tensor], info));
  }
  PartCache part(size_t i, const LayerInfo& info) const {
    return {first_stages_[i], parts_[i].compressor->make_cache(info)};
  }

  std::vector<Part> parts_;
  std::vector<std::string> places_;  // of the parts, for messages
  std::vector<LayerParts> layers_;
  std::vector<int> first_stages_;  // of the parts
  int n_stages_ = 0;
};

// With a part that waits for the prompt's end.
class JointRules final : public Rules, public JointPrefill {
 public:
  using Rules::Rules;
  void finish_prefill(std::span<LayerCache* const> caches) const override { finish_parts(caches); }
};

// With a part that observes the prompt.
class ObservingRules final : public Rules, public ObservationPass {
 public:
  using Rules::Rules;
  void finish_prefill(std::span<LayerCache* const> caches) const override { finish_parts(caches); }
  Observation observation() const override { return observation_of_parts(); }
  void observe(LayerCache& cache, const ObservedChunk& chunk) const override { observe_part(cache, chunk); }
};

// Throws unless all parts that observe ask for the same pass. -> whether some do
bool check_observations(const std::vector<Part>& parts, const std::vector<std::string>& places) {
  std::optional<size_t> first;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto* pass = dynamic_cast<const ObservationPass*>(parts[i].compressor.get());
    if (!pass) continue;
    if (!first) first = i;
    const auto& other = dynamic_cast<const ObservationPass&>(*parts[*first].compressor);
    KVC_CHECK(pass->observation() == other.observation(), "rules: ", places[i], " (", parts[i].name, ") and ",
              places[*first], " (", parts[*first].name, ") ask for different observation passes, allowed: one");
  }
  return first.has_value();
}

std::vector<LayerParts> resolve(const std::vector<RuleScope>& scopes, int64_t n_layers) {
  std::vector<LayerParts> layers;
  for (int64_t layer = 0; layer < n_layers; ++layer) {
    const auto part_of = [&](CacheTensor tensor, bool decode) {
      for (size_t i = scopes.size(); i-- > 0;) {
        if (scopes[i].covers(layer, tensor, decode)) return i + 1;
      }
      return size_t{0};
    };
    layers.push_back({{part_of(CacheTensor::k, false), part_of(CacheTensor::v, false)},
                      {part_of(CacheTensor::k, true), part_of(CacheTensor::v, true)}});
  }
  return layers;
}

void check_scopes(const std::vector<RuleScope>& scopes, const std::vector<std::string>& places,
                  const std::vector<LayerParts>& layers) {
  const auto n_layers = static_cast<int64_t>(layers.size());
  for (size_t i = 0; i < scopes.size(); ++i) {
    for (const auto& [first, last] : scopes[i].layers) {
      KVC_CHECK(first >= 0 && first <= last && last < n_layers, "rules: ", places[i + 1], ": layers ", first, "-", last,
                ", allowed: 0 to ", n_layers - 1);
    }
    const bool serves = std::any_of(layers.begin(), layers.end(), [&](const LayerParts& of) {
      return std::count(of.prompt.begin(), of.prompt.end(), i + 1) +
             std::count(of.decode.begin(), of.decode.end(), i + 1);
    });
    KVC_CHECK(serves, "rules: ", places[i + 1], ": later rules take all that it names");
  }
}

// What a layer's arrangement asks of its parts.
void check_can_serve(int64_t layer, const LayerParts& of, const std::vector<Part>& parts,
                     const std::vector<std::string>& places) {
  const bool apart = of.prompt[0] != of.prompt[1] || of.decode[0] != of.decode[1];
  for (const size_t tensor : {0, 1}) {
    for (const size_t i : {of.prompt[tensor], of.decode[tensor]}) {
      KVC_CHECK(!apart || parts[i].capabilities.splits, "rules: ", places[i], " (", parts[i].name,
                ") would hold one of K and V of layer ", layer, " only, but it needs both");
      KVC_CHECK(!apart || !waits(parts[i]), "rules: ", places[i], " (", parts[i].name,
                ") acts at the prompt's end, and would hold one of K and V of layer ", layer, " alone");
    }
    const size_t decode = of.decode[tensor];
    KVC_CHECK(of.one_phase(tensor) || !waits(parts[decode]), "rules: ", places[decode], " (", parts[decode].name,
              ") acts at the prompt's end; in layer ", layer, " it would hold the tokens after it alone");
    KVC_CHECK(of.one_phase(tensor) || !parts[decode].capabilities.turns_keys, "rules: ", places[decode], " (",
              parts[decode].name,
              ") wants keys before RoPE, which takes tokens at the positions of the text; in layer ", layer,
              " it would hold those after the prompt alone");
  }
}

}  // namespace

RuleScope RuleScope::in_layers_of(const ModelShape& model) const {
  auto scope = *this;
  scope.windowed = false;
  for (int64_t layer = 0; windowed && layer < model.n_layers; ++layer) {
    if (model.layer(layer).sliding_window == 0) continue;
    if (!scope.layers.empty() && scope.layers.back().second == layer - 1) {
      scope.layers.back().second = layer;
    } else {
      scope.layers.emplace_back(layer, layer);
    }
  }
  KVC_CHECK(!windowed || !scope.layers.empty(), "rules: layers sliding_window: no layer of the model has one");
  return scope;
}

bool RuleScope::covers(int64_t layer, CacheTensor of, bool decoding) const {
  const bool in_layers = layers.empty() || std::any_of(layers.begin(), layers.end(), [&](const auto& range) {
                           return range.first <= layer && layer <= range.second;
                         });
  return in_layers && tensor.value_or(of) == of && decode.value_or(decoding) == decoding;
}

std::string to_string(const RuleScope& scope) {
  std::string text;
  for (const auto& [first, last] : scope.layers) {
    text += concat(text.empty() ? "layers " : ",", first);
    if (last != first) text += concat("-", last);
  }
  if (scope.windowed) text += concat(text.empty() ? "layers " : ", ", "with a sliding window");
  if (scope.tensor) text += concat(text.empty() ? "" : ", ", to_string(*scope.tensor));
  if (scope.decode) text += concat(text.empty() ? "" : ", ", *scope.decode ? "decode" : "prompt");
  return text;
}

Part make_rules(std::vector<Part> parts, std::vector<RuleScope> scopes, int64_t n_layers) {
  KVC_CHECK(parts.size() == scopes.size() + 1, "rules: ", parts.size(), " parts for ", scopes.size(), " scopes");
  std::vector<std::string> places{"default"};
  for (size_t i = 0; i < scopes.size(); ++i) places.push_back(concat("rule ", i + 1));
  auto layers = resolve(scopes, n_layers);
  check_scopes(scopes, places, layers);
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    check_can_serve(static_cast<int64_t>(layer), layers[layer], parts, places);
  }
  Part rules{.name = "",
             .compressor = nullptr,
             .capabilities = {.lossy = false, .splits = true, .chunked_prompt = true},
             .n_stages = 0};
  for (const auto& part : parts) {
    const bool nested = part.name.find('+') != std::string::npos;
    rules.name += concat(rules.name.empty() ? "" : "/", nested ? "(" : "", part.name, nested ? ")" : "");
    rules.capabilities.lossy |= part.capabilities.lossy;
    rules.capabilities.estimates |= part.capabilities.estimates;
    rules.capabilities.simulated |= part.capabilities.simulated;
    rules.capabilities.evicts |= part.capabilities.evicts;
    rules.capabilities.turns_keys |= part.capabilities.turns_keys;
    rules.capabilities.splits &= part.capabilities.splits;
    rules.capabilities.chunked_prompt &= part.capabilities.chunked_prompt;
    if (*rules.capabilities.devices == 0) rules.capabilities.devices = part.capabilities.devices;
    rules.n_stages += part.n_stages;
  }
  const auto made = [&]<class Kind>(std::type_identity<Kind>) -> std::unique_ptr<Compressor> {
    return std::make_unique<Kind>(std::move(parts), std::move(places), std::move(layers));
  };
  const bool observes = check_observations(parts, places), joint = std::ranges::any_of(parts, waits);
  rules.compressor = observes ? made(std::type_identity<ObservingRules>())
                     : joint  ? made(std::type_identity<JointRules>())
                              : made(std::type_identity<Rules>());
  return rules;
}

}  // namespace kvc
