// The end of a prefill over the caches of all layers, which a plugin may ask for.
#include <ATen/ATen.h>

#include "conformance/filled_cache.h"
#include "kvc/joint_prefill.h"
#include "sandbox/audit.h"
#include "sandbox/sandboxed_call.h"

namespace kvc::conformance {
namespace {

using Caches = std::vector<std::unique_ptr<LayerCache>>;

// One sequence's, each layer with tokens of its own, up to the end of a prompt.
class Layers {
 public:
  Layers(const Subject& subject, const Compressor& compressor, int64_t n_prompt, int64_t n_tokens)
      : subject_(subject), compressor_(compressor), n_prompt_(n_prompt) {
    for (int64_t layer = 0; layer < subject.model.n_layers; ++layer) {
      inputs.push_back(ordinary_input(subject.model, n_tokens, static_cast<uint64_t>(21 + layer)));
    }
  }

  void fill(Caches& caches) const {
    for (size_t layer = 0; layer < inputs.size(); ++layer) {
      caches.push_back(compressor_.make_cache(info_of(subject_.model, static_cast<int64_t>(layer), 7)));
      append(*caches.back(), prompt(layer));
    }
    for (size_t layer = inputs.size(); layer-- > 0;) observe_copied(compressor_, *caches[layer], prompt(layer));
    finish_prefill(compressor_, caches);
  }
  NewTokens prompt(size_t layer) const { return tokens_of(inputs[layer], 0, n_prompt_); }

  std::vector<Input> inputs;

 private:
  const Subject& subject_;
  const Compressor& compressor_;
  int64_t n_prompt_;
};

void check_bytes_of(const Layers& layers, Outcome& outcome) {
  MemoryMeter meter;
  const int account = meter.take_account();
  Caches caches;
  auto error = sandboxed_call(meter, account, CallMode::plain, [&] { layers.fill(caches); });
  const auto later = count_and_destroy_caches(meter, account, caches);
  for (const auto& said : {error, later}) expect(said.empty(), said, outcome);
}

}  // namespace

Outcome joint_prefill_serves_all_layers(const Subject& subject) {
  Outcome outcome;
  const auto compressor = make_compressor(subject);
  if (!dynamic_cast<const JointPrefill*>(compressor.get())) {
    return {.not_applicable = "the compressor is no JointPrefill"};
  }
  for (const int64_t n_prompt : {1, 45, 200}) {
    const Layers layers(subject, *compressor, n_prompt, n_prompt + 20);
    check_bytes_of(layers, outcome);
    Caches caches, again;
    layers.fill(caches);
    layers.fill(again);
    for (size_t layer = 0; layer < caches.size(); ++layer) {
      auto& cache = *caches[layer];
      expect(cache.length() == n_prompt, concat("length() is ", cache.length(), " after ", n_prompt, " tokens"),
             outcome);
      expect(equal(cache.dequantize(), again[layer]->dequantize()) &&
                 at::equal(cache.positions(), again[layer]->positions()),
             concat("two sequences of the same tokens differ in layer ", layer), outcome);
      const auto prompt = layers.prompt(layer);
      const auto info = info_of(subject.model, static_cast<int64_t>(layer), 7);
      LayerAudit(std::make_shared<AuditedPrompt>(info, prompt.k, prompt.v, 0.5),
                 subject.plugin.descriptor().capabilities.evicts)
          .audit_prompt(cache, prompt.q);
      for (int64_t t = n_prompt; t < n_prompt + 20; ++t) {
        append(cache, tokens_of(layers.inputs[layer], t, 1));
        if (t % 7 == 0)
          compare_attention(cache, layers.inputs[layer], subject.model, 1, outcome, static_cast<int64_t>(layer));
      }
    }
  }
  return outcome;
}

}  // namespace kvc::conformance
