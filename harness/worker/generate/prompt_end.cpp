#include "generate/prompt_end.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "contract/stopwatch.h"
#include "sandbox/private_tokens.h"
#include "sandbox/sandboxed_call.h"

namespace kvc {
namespace {

// Runs the compressor's code, timed as encoding; a failure is the sequence's error.
template <class Body>
void inside(const CacheStep& sequence, MemoryMeter& meter, const Body& body) {
  if (!sequence.out->error.empty()) return;
  const auto start = Clock::now();
  sequence.entering(true);
  sequence.out->error = sandboxed_call(meter, sequence.account, CallMode::plain, body);
  sequence.entering(false);
  sequence.out->encode_seconds += seconds_since(start);
}

std::optional<Observation> observation_of(const CacheStep& sequence, MemoryMeter& meter) {
  const auto* pass = dynamic_cast<const ObservationPass*>(sequence.compressor);
  std::optional<Observation> observation;
  if (pass) inside(sequence, meter, [&] { observation = pass->observation(); });
  return observation;
}

// What the model reads after the prompt for the chunk from `first` on.
std::vector<int64_t> tokens_behind(const Tokenizer& tokenizer, const Observation& observation,
                                   std::span<const int64_t> prompt, int64_t first, int64_t n_tokens) {
  auto ids = tokenizer.encode(first == 0 ? observation.before_first : observation.before_next, false);
  const auto add = [&](int64_t from, int64_t to) { ids.insert(ids.end(), prompt.begin() + from, prompt.begin() + to); };
  add(first - std::min(first, observation.lead_in_tokens), first);
  const auto text = tokenizer.encode(observation.before_chunk, false);
  ids.insert(ids.end(), text.begin(), text.end());
  add(first, first + n_tokens);
  return ids;
}

// What of it the layer's cache got: the tokens that the prompt's last query sees (seen_prompt).
ObservedChunk seen_chunk(const ObservedChunk& chunk, int64_t sliding_window) {
  const int64_t n = chunk.prompt_k.size(1), n_hidden = n_hidden_tokens(sliding_window, n);
  const int64_t first = std::max<int64_t>(0, chunk.first_token - n_hidden);
  return {chunk.q, chunk.k, chunk.prompt_k.narrow(1, n_hidden, n - n_hidden), first,
          chunk.first_token + chunk.n_tokens - n_hidden - first};
}

}  // namespace

void observe_prompt(const Transformer& model, const Tokenizer& tokenizer, const Observation& observation,
                    std::span<const int64_t> prompt, std::span<const NewTokens> layers, const OnChunk& on_chunk) {
  KVC_CHECK(observation.chunk_tokens >= 1 && observation.lead_in_tokens >= 0, "observation: chunk_tokens ",
            observation.chunk_tokens, " and lead_in_tokens ", observation.lead_in_tokens,
            ", allowed: from 1 and from 0 on");
  const auto n = static_cast<int64_t>(prompt.size()),
             n_prefix = n / Transformer::kPrefixStep * Transformer::kPrefixStep;
  std::vector<NewTokens> prefix;
  for (const auto& layer : layers.first(n_prefix > 0 ? layers.size() : 0)) {
    prefix.push_back({{}, layer.k.narrow(1, 0, n_prefix), layer.v.narrow(1, 0, n_prefix), 0});
  }
  for (int64_t first = 0; first < n; first += observation.chunk_tokens) {
    const int64_t n_chunk = std::min(observation.chunk_tokens, n - first);
    const auto behind = tokens_behind(tokenizer, observation, prompt, first, n_chunk);
    const auto n_pass = static_cast<int64_t>(behind.size()), most = model.config().max_position_embeddings;
    KVC_CHECK(n + n_pass <= most, "observation: ", n_pass, " tokens after the prompt's ", n, " for a chunk of ",
              n_chunk, ", the model has max_position_embeddings ", most, "; smaller chunks need less");
    std::vector<int64_t> ids(prompt.begin(), prompt.end());
    ids.insert(ids.end(), behind.begin(), behind.end());
    const auto last = [&](const at::Tensor& x) { return x.narrow(1, x.size(1) - n_pass, n_pass); };
    const auto on_layer = [&](int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor&) {
      on_chunk(layer, {last(q), last(k), layers[static_cast<size_t>(layer)].k, first, n_chunk});
    };
    model.prefill(ids, on_layer, 1, prefix);
  }
}

void PromptEnd::observe(const Observation& observation, std::span<CacheStep* const> sequences) {
  double observing_seconds = 0;
  PrivateTokens copies;  // its v: the prompt's k
  const auto on_chunk = [&](int64_t layer, const ObservedChunk& chunk) {
    const auto start = Clock::now();
    const MemoryMeter::Scope own_copies(meter_, MemoryMeter::kUnseen);
    const auto seen = seen_chunk(chunk, model_.config().layers[static_cast<size_t>(layer)].sliding_window);
    if (seen.n_tokens <= 0) return;
    for (auto* sequence : sequences) {
      const auto& tokens = copies.copy_in({seen.q, seen.k, seen.prompt_k, 0});
      inside(*sequence, meter_, [&] {
        const auto& pass = dynamic_cast<const ObservationPass&>(*sequence->compressor);
        pass.observe(*(*sequence->caches)[static_cast<size_t>(layer)],
                     {tokens.q, tokens.k, tokens.v, seen.first_token, seen.n_tokens});
        copies.reclaim();
      });
    }
    copies.invalidate();
    observing_seconds += seconds_since(start);
  };
  const auto start = Clock::now();
  std::string error;
  try {
    observe_prompt(model_, tokenizer_, observation, prompt_, layers_, on_chunk);
  } catch (...) {
    error = thrown();
  }
  const double seconds = seconds_since(start) - observing_seconds;
  for (auto* sequence : sequences) {
    sequence->out->prefill_seconds += seconds;
    if (sequence->out->error.empty()) sequence->out->error = error;
  }
}

void PromptEnd::finish(std::span<CacheStep> sequences) {
  std::vector<std::pair<Observation, std::vector<CacheStep*>>> passes;
  for (auto& sequence : sequences) {
    const auto asked = observation_of(sequence, meter_);
    if (!asked) continue;
    const auto same = std::ranges::find_if(passes, [&](const auto& pass) { return pass.first == *asked; });
    auto& pass = same == passes.end() ? passes.emplace_back(*asked, std::vector<CacheStep*>()) : *same;
    pass.second.push_back(&sequence);
  }
  for (const auto& [observation, members] : passes) observe(observation, members);
  for (const auto& sequence : sequences) {
    if (!waits_for_prompt_end(sequence.compressor)) continue;
    inside(sequence, meter_, [&] { finish_prefill(*sequence.compressor, *sequence.caches); });
  }
}

}  // namespace kvc
