#include "generate/generator.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "contract/stopwatch.h"
#include "generate/batch_attention.h"
#include "generate/chunked_prefill.h"
#include "generate/prompt_end.h"
#include "generate/reconstruction.h"
#include "generate/token_distribution.h"
#include "sandbox/audit.h"
#include "sandbox/device_clock.h"
#include "sandbox/private_tokens.h"
#include "sandbox/sandboxed_call.h"

namespace kvc {
namespace {

std::vector<StageUse> stages_of(const LayerCache& cache, const Footprint& footprint) {
  if (const auto* composed = dynamic_cast<const ComposedCache*>(&cache)) return composed->stages();
  return {{footprint}};
}

constexpr int64_t kAuditedBytes = 256 << 20;  // of exact K and V for a prompt

std::string not_finite(const Generation& out) {
  return concat("the logits at position ", out.n_prompt_tokens + static_cast<int64_t>(out.ids.size()),
                " hold a value that is not finite");
}

// The stages' own clocks run while others attend beside them: scaled, so that they add up to the sequence's time.
void share_time(Generation& out) {
  for (double StageUse::*seconds : {&StageUse::encode_seconds, &StageUse::attend_seconds}) {
    const double whole = seconds == &StageUse::encode_seconds ? out.encode_seconds : out.attend_seconds;
    double sum = 0;
    for (const auto& layer : out.stages) {
      for (const auto& use : layer) sum += use.*seconds;
    }
    for (auto& layer : out.stages) {
      for (auto& use : layer) use.*seconds = sum > 0 ? use.*seconds * whole / sum : 0;
    }
  }
}

// Tokens of the prompt whose exact K and V are given to the caches at once.
int64_t n_prefilled(const GenerationRequest& asked) {
  return static_cast<int64_t>(asked.prompt_ids.size()) - asked.n_question_tokens;
}

// What was said before the model's own end token, whose text is left out even if its tokenizer calls it not special.
std::vector<int64_t> without_end(const Generation& out, const std::vector<int64_t>& end_tokens) {
  auto ids = out.ids;
  const bool ended = out.stop_reason == StopReason::eos && !ids.empty() &&
                     std::find(end_tokens.begin(), end_tokens.end(), ids.back()) != end_tokens.end();
  if (ended) ids.pop_back();
  return ids;
}

// The logits of a token that is none of these.
at::Tensor without(const at::Tensor& logits, const std::vector<int64_t>& ids) {
  auto others = logits.clone();
  for (const int64_t id : ids) others[id] = -std::numeric_limits<float>::infinity();
  return others;
}

}  // namespace

const char* to_string(StopReason reason) {
  switch (reason) {
    case StopReason::eos:
      return "eos";
    case StopReason::stop_string:
      return "stop";
    case StopReason::limit:
      return "limit";
    case StopReason::context:
      return "context";
    case StopReason::scored:
      return "scored";
  }
  throw Error("StopReason out of range");
}

struct Generator::Sequence {
  Request* request;
  const Compressor* method;
  int compressor;  // index into the request's compressors; -1: its reference
  size_t continuation;
  int account;
  SequenceCaches caches;
  StopScanner scanner;
  at::Tensor logits;  // [V] fp32, of the next token
  Generation out;
  int64_t n_asked = 0;  // tokens of the question that were read
  Audit audit = Audit();
  Reconstruction reconstruction = {};          // of the prompt
  std::optional<TokenDistribution> next = {};  // of a reference: what the logits say
  at::Tensor probabilities = {};               // and its probabilities
};

// What the sequences of a prompt have in common.
struct Generator::Request {
  GenerationRequest asked;
  int64_t ticket;
  size_t n_left;                   // sequences that have not ended
  std::list<Sequence> references;  // one for each continuation, in lock step with its sequences; or none
};

Generator::Generator(const Transformer& model, const Tokenizer& tokenizer, MemoryMeter& meter, bool share_prefix)
    : model_(model),
      tokenizer_(tokenizer),
      meter_(meter),
      share_prefix_(share_prefix),
      weights_bytes_(meter.live_bytes(MemoryMeter::kModel)),
      entering_([](int64_t, int) {}),
      on_logits_() {}
Generator::~Generator() = default;

int64_t Generator::kv_bytes() const {
  int64_t n_bytes = 0;
  for (const auto& sequence : sequences_) n_bytes += meter_.live_bytes(sequence.account);
  for (const auto& [ticket, request] : requests_) {
    for (const auto& sequence : request.references) n_bytes += meter_.live_bytes(sequence.account);
  }
  return n_bytes;
}

std::vector<Generator::UnderWay> Generator::under_way() const {
  std::vector<UnderWay> all;
  for (const auto& s : sequences_) {
    all.push_back({s.request->ticket, s.compressor, static_cast<int64_t>(s.out.ids.size()),
                   n_prefilled(s.request->asked) - s.out.n_reused_tokens, s.out.prefill_seconds,
                   s.out.encode_seconds + s.out.attend_seconds + s.out.other_seconds});
  }
  return all;
}

int64_t Generator::add(GenerationRequest asked) {
  KVC_CHECK(!asked.compressors.empty(), "generate: a request without compressors");
  const auto n_question = asked.n_question_tokens, n_tokens = static_cast<int64_t>(asked.prompt_ids.size());
  KVC_CHECK(n_question == 0 || (n_question > 0 && n_question < n_tokens && asked.continuations.empty()),
            "generate: ", n_question, " tokens of a question, allowed: 0 to ", n_tokens - 1,
            ", and 0 of a text that is scored");
  const int64_t ticket = next_ticket_++;
  auto* request = &requests_.emplace(ticket, Request{std::move(asked), ticket, 0, {}}).first->second;
  const auto prompt = std::span(request->asked.prompt_ids).first(static_cast<size_t>(n_prefilled(request->asked)));

  std::list<Sequence> sequences;
  const auto open = [&](const Compressor* method, int index, size_t continuation) {
    const int account = meter_.take_account();
    meter_.share(account, method);
    sequences.push_back(
        {request, method, index, continuation, account, {}, {tokenizer_, request->asked.stop.stop_strings}, {}, {}});
    const auto& keep_all = request->asked.keep_all;
    sequences.back().out.n_hidden = hidden_of_layers(model_.shape(), static_cast<int64_t>(prompt.size()));
    sequences.back().audit = Audit(static_cast<uint32_t>(random_()), !keep_all.contains(method));
  };
  for (size_t c = 0; c < request->asked.compressors.size(); ++c) {
    for (size_t i = 0; i < std::max<size_t>(1, request->asked.continuations.size()); ++i) {
      open(request->asked.compressors[c], static_cast<int>(c), i);
    }
  }
  request->n_left = sequences.size();
  for (size_t i = 0; request->asked.reference && i < request->asked.continuations.size(); ++i) {
    open(request->asked.reference, -1, i);
  }
  meter_.reset_all();
  for (const auto& sequence : sequences) meter_.reset(sequence.account);
  kernel_watch_.before(2 * n_values(static_cast<int64_t>(prompt.size())) * model_.shape().n_layers);
  try {
    if (request->asked.prefill.chunk == 0) {
      prefill_exactly(*request, sequences, prompt);
    } else {
      prefill_in_chunks(*request, sequences, prompt);
    }
  } catch (...) {
    for (const auto& sequence : sequences) meter_.return_account(sequence.account);
    requests_.erase(ticket);
    throw;
  }
  kernel_watch_.after();
  for (auto& sequence : sequences) {
    sequence.out.n_prompt_tokens = n_tokens;
    sequence.out.k_error = sequence.reconstruction.k_error();
    sequence.out.v_error = sequence.reconstruction.v_error();
  }
  const auto references = std::next(sequences.begin(), static_cast<std::ptrdiff_t>(request->n_left));
  request->references.splice(request->references.end(), sequences, references, sequences.end());
  sequences_.splice(sequences_.end(), sequences);
  note_peak();
  return ticket;
}

// One pass for all sequences; the caches get the exact K and V.
void Generator::prefill_exactly(Request& request, std::list<Sequence>& sequences, std::span<const int64_t> prompt) {
  double fan_out_seconds = 0;

  const int64_t n_shareable = this->n_shareable(request.asked);
  const auto reused = prefix_.find(prompt, n_shareable);
  const bool keeps = n_shareable > 0 && reused.empty();
  if (keeps) prefix_.start(prompt.first(static_cast<size_t>(n_shareable)));

  const auto kept_layers = layers_to_keep(request.asked);
  PromptEnd prompt_end(model_, tokenizer_, meter_, prompt);
  const bool some_wait = std::ranges::any_of(sequences, [](const auto& s) { return waits_for_prompt_end(s.method); });
  std::vector<at::Tensor> last_q;  // of each layer, [H_q, 1, D]; where some wait
  PrivateTokens copies;
  const auto fan_out = [&](int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    synchronize(k.device());
    const auto start = Clock::now();
    if (keeps) {
      const MemoryMeter::Scope scope(meter_, MemoryMeter::kPrefix);
      prefix_.add_layer(q, k, v);
    }
    const MemoryMeter::Scope own_copies(meter_, MemoryMeter::kUnseen);
    if (some_wait) {
      prompt_end.keep(k, v);
      last_q.push_back(q.narrow(1, q.size(1) - 1, 1).clone());
    }
    auto info = model_.layer_info(layer, request.asked.sequence_key);
    const auto seen = seen_prompt({q, k, v, 0}, info);
    const auto audited = std::make_shared<const AuditedPrompt>(info, seen.k, seen.v);
    for (auto& sequence : sequences) {
      if (!sequence.out.error.empty()) continue;
      if (kept_layers[static_cast<size_t>(layer)]) sequence.audit.keep(audited);
      const auto& tokens = copies.copy_in(seen);
      std::unique_ptr<LayerCache> cache;
      entering_(request.ticket, sequence.compressor);
      sequence.out.error = sandboxed_call(meter_, sequence.account, CallMode::plain, [&] {
        cache = sequence.method->make_cache(info);
        const auto encode_start = Clock::now();
        cache->append(tokens);
        synchronize(k.device());
        sequence.out.encode_seconds += seconds_since(encode_start);
        copies.reclaim();
      });
      if (cache) sequence.caches.push_back(std::move(cache));
      entering_(request.ticket, -1);
      if (!waits_for_prompt_end(sequence.method)) audit_prompt(sequence, audited, q);
    }
    copies.invalidate();
    fan_out_seconds += seconds_since(start);
  };

  const auto start = Clock::now();
  at::Tensor logits;  // [V]
  try {
    logits = model_.prefill(prompt, fan_out, 1, reused).squeeze(0);
  } catch (...) {
    if (keeps) prefix_.clear();  // half of it
    throw;
  }
  const double seconds = seconds_since(start) - fan_out_seconds;
  for (auto& sequence : sequences) {
    sequence.logits = logits;
    sequence.out.n_reused_tokens = reused.empty() ? 0 : reused.front().k.size(1);
    sequence.out.prefill_seconds = seconds;
  }
  if (some_wait) end_prompt(sequences, prompt_end, last_q);
}

// A pass of each sequence's own, through its caches.
void Generator::prefill_in_chunks(Request& request, std::list<Sequence>& sequences, std::span<const int64_t> prompt) {
  const auto kept_layers = layers_to_keep(request.asked);
  for (auto& sequence : sequences) {
    const auto start = Clock::now();
    auto choice = request.asked.prefill;
    choice.through_all &= request.asked.keep_all.contains(sequence.method);
    ChunkedPrefill prefill(model_, meter_, choice, request.asked.sequence_key);
    auto step = step_of(sequence);
    sequence.logits = prefill.run(step, prompt);
    sequence.out.prefill_seconds = seconds_since(start) - sequence.out.encode_seconds;
    for (size_t layer = 0; layer < prefill.given().size() && sequence.out.error.empty(); ++layer) {
      const MemoryMeter::Scope own_copies(meter_, MemoryMeter::kUnseen);
      const auto& given = prefill.given()[layer];
      const auto audited = std::make_shared<const AuditedPrompt>(
          model_.layer_info(static_cast<int64_t>(layer), request.asked.sequence_key), given.k, given.v);
      if (kept_layers[layer]) sequence.audit.keep(audited);
      audit_prompt(sequence, audited, given.q);
    }
  }
}

// last_q: of each layer, the prompt's last query.
void Generator::end_prompt(std::list<Sequence>& sequences, PromptEnd& prompt_end,
                           const std::vector<at::Tensor>& last_q) {
  std::vector<CacheStep> steps;
  for (auto& sequence : sequences) steps.push_back(step_of(sequence));
  prompt_end.finish(steps);
  const MemoryMeter::Scope own_copies(meter_, MemoryMeter::kUnseen);
  for (size_t layer = 0; layer < last_q.size(); ++layer) {
    auto info = model_.layer_info(static_cast<int64_t>(layer), sequences.front().request->asked.sequence_key);
    const auto exact = seen_prompt(prompt_end.layers()[layer], info);
    const auto audited = std::make_shared<const AuditedPrompt>(info, exact.k, exact.v);
    for (auto& sequence : sequences) {
      if (waits_for_prompt_end(sequence.method)) audit_prompt(sequence, audited, last_q[layer]);
    }
  }
}

// What a cache says of itself and holds, against the exact tokens that it was given; of q the last is enough. The same
// in each layer, so that no layer is known to be one whose exact tokens are kept.
void Generator::audit_prompt(Sequence& sequence, const std::shared_ptr<const AuditedPrompt>& audited,
                             const at::Tensor& q) {
  if (!sequence.out.error.empty()) return;
  entering_(sequence.request->ticket, sequence.compressor);
  sequence.out.error = sandboxed_call(meter_, sequence.account, CallMode::inspecting, [&] {
    const auto& cache = *sequence.caches[static_cast<size_t>(audited->layer())];
    const auto& exact = audited->given();
    check_counts(cache, exact.k.size(1), 2 * exact.k.numel());  // the inherited attend() goes by them
    const auto last = q.narrow(1, q.size(1) - 1, 1).to(at::kFloat);
    const auto attention = cache.attend(last, audited->info().attention_scale);
    const auto answer = ask(cache, last);
    const MemoryMeter::Scope own_work(meter_, MemoryMeter::kUnseen);
    LayerAudit(audited, sequence.audit.may_evict()).check(answer, last, attention);
    sequence.reconstruction.add(answer.nearest, answer.positions, exact);
  });
  entering_(sequence.request->ticket, -1);
}

CacheStep Generator::step_of(Sequence& sequence) {
  const auto entering = [this, &sequence](bool inside) {
    entering_(sequence.request->ticket, inside ? sequence.compressor : -1);
  };
  return {sequence.method, &sequence.caches, sequence.account, entering, &sequence.out, &sequence.audit};
}

// One layer by chance; of the first prompt that a compressor gets, all that there is room for.
std::vector<bool> Generator::layers_to_keep(const GenerationRequest& asked) {
  const auto& shape = model_.shape();
  bool is_new = false;
  for (const auto* compressor : asked.compressors) is_new |= audited_.insert(compressor).second;
  const int64_t layer_bytes = 8 * shape.n_kv_heads * shape.head_dim * static_cast<int64_t>(asked.prompt_ids.size());
  const auto fit = static_cast<size_t>(kAuditedBytes / std::max<int64_t>(1, layer_bytes));
  std::vector<bool> layers(static_cast<size_t>(shape.n_layers), false);
  std::fill_n(layers.begin(), std::clamp<size_t>(is_new ? fit : 1, 1, layers.size()), true);
  std::shuffle(layers.begin(), layers.end(), random_);
  return layers;
}

// Values of K and V of n tokens in one layer.
int64_t Generator::n_values(int64_t n_tokens) const {
  return 2 * model_.shape().n_kv_heads * model_.shape().head_dim * n_tokens;
}

// Whoever is under way was there at the peak since reset_all.
void Generator::note_peak() {
  const int64_t peak_bytes = meter_.peak_of_all();
  for (auto& sequence : sequences_) {
    sequence.out.peak_bytes = std::max(sequence.out.peak_bytes.value_or(0), peak_bytes);
  }
}

// Of the tokens that other prompts will have too, those that fill whole steps; one token at least is left to compute.
int64_t Generator::n_shareable(const GenerationRequest& request) const {
  if (!share_prefix_) return 0;
  return std::min(request.n_shared_tokens, n_prefilled(request) - 1) / Transformer::kPrefixStep *
         Transformer::kPrefixStep;
}

// What the logits say of the token that comes, and where there is a reference what its own say beside that.
void Generator::score(int64_t id, Sequence& sequence) const {
  auto& out = sequence.out;
  const TokenDistribution next(sequence.logits);
  out.log_likelihoods.push_back(next.log_probability(id));
  if (std::isnan(out.log_likelihoods.back())) {
    out.error = not_finite(out);
    return;
  }
  out.is_greedy &= next.most_likely() == id;
  if (!sequence.request->asked.reference) return;
  auto& reference =
      *std::next(sequence.request->references.begin(), static_cast<std::ptrdiff_t>(sequence.continuation));
  if (!reference.out.error.empty()) {
    out.error = "the reference: " + reference.out.error;
    return;
  }
  if (!reference.next) {
    reference.next.emplace(reference.logits);
    reference.probabilities = reference.next->probabilities();
  }
  out.kl.push_back(kl_divergence(*reference.next, reference.probabilities, next));
  out.top1_same.push_back(reference.next->most_likely() == next.most_likely());
  out.acceptance.push_back(acceptance(*reference.next, reference.probabilities, next));
  if (!std::isfinite(out.kl.back())) out.error = not_finite(out);
}

// Takes the next token, of the question or from the logits. -> whether the sequence goes on
bool Generator::choose_token(Sequence& sequence) const {
  const auto& request = sequence.request->asked;
  if (sequence.n_asked < request.n_question_tokens) {
    ++sequence.n_asked;
    return true;
  }
  auto& out = sequence.out;
  const auto n_new = static_cast<int64_t>(out.ids.size());
  if (!request.continuations.empty()) {
    const auto& forced = request.continuations[sequence.continuation];
    if (n_new == 0) out.is_greedy = true;
    const int64_t id = forced[static_cast<size_t>(n_new)];
    if (n_new >= request.n_given) score(id, sequence);
    out.ids.push_back(id);
    out.stop_reason = StopReason::scored;
    return out.error.empty() && out.ids.size() < forced.size();
  }
  const auto& eos = request.stop.eos_ids;
  if (!std::isfinite(sequence.logits.sum().item<float>())) {
    out.error = not_finite(out);
    return false;
  }
  const auto logits = n_new < request.stop.min_new_tokens ? without(sequence.logits, eos) : sequence.logits;
  const int64_t id = next_token(logits, request.sampling, request.sequence_key, out.n_prompt_tokens + n_new);
  out.ids.push_back(id);
  if (std::find(eos.begin(), eos.end(), id) != eos.end()) {
    out.stop_reason = StopReason::eos;
  } else if (sequence.scanner.found_in(out.ids)) {
    out.stop_reason = StopReason::stop_string;
  } else if (n_new + 1 >= request.stop.max_new_tokens) {
    out.stop_reason = StopReason::limit;
  } else if (out.n_prompt_tokens + n_new + 1 >= model_.config().max_position_embeddings) {
    out.stop_reason = StopReason::context;
  } else {
    return true;
  }
  return false;
}

// The one that choose_token took last, at its position.
StepToken Generator::token_to_read(const Sequence& sequence) {
  const auto& asked = sequence.request->asked;
  const auto& ids = sequence.out.ids;
  const auto n_new = static_cast<int64_t>(ids.size());
  const int64_t position = n_prefilled(asked) + sequence.n_asked + n_new - 1;
  return {n_new > 0 ? ids.back() : asked.prompt_ids[static_cast<size_t>(position)], position};
}

Finished Generator::finish(std::list<Sequence>::iterator sequence) {
  auto& out = sequence->out;
  const auto held = meter_.held_bytes(sequence->account);  // before the plugin is asked
  entering_(sequence->request->ticket, sequence->compressor);
  if (out.error.empty()) {
    out.text = sequence->scanner.cut(without_end(out, model_.config().eos_token_ids));
    out.n_cached_tokens = out.n_prompt_tokens + std::max<int64_t>(0, static_cast<int64_t>(out.ids.size()) - 1);
    std::vector<Footprint> footprints;  // copied below: what is made of them is not the plugin's
    std::vector<std::vector<StageUse>> stages;
    Footprint all;
    out.error = sandboxed_call(meter_, sequence->account, CallMode::inspecting, [&] {
      for (size_t layer = 0; layer < sequence->caches.size(); ++layer) {
        const auto& cache = sequence->caches[layer];
        footprints.push_back(cache->footprint());
        const int64_t n = out.n_cached_tokens - out.n_hidden[layer];
        check_counts(*cache, n, n_values(n));
        check_positions(cache->positions(), model_.shape().n_kv_heads, n, sequence->audit.may_evict());
        stages.push_back(stages_of(*cache, footprints.back()));
        all.add(footprints.back());
        out.n_encoded_tokens = std::max(out.n_encoded_tokens, cache->n_encoded_tokens());
        out.n_encoded_numbers = out.n_encoded_numbers.value_or(0) + cache->n_encoded_numbers();
      }
      out.kv_bytes = all.total_bytes();
      check_bytes(all, held);
    });
    out.footprints.assign(footprints.begin(), footprints.end());
    out.stages.assign(stages.begin(), stages.end());
    share_time(out);
    const int64_t own_peak_bytes = meter_.peak_with_common(sequence->account);
    out.peak_kv_bytes = std::max(out.kv_bytes, meter_.peak_bytes(sequence->account));
    out.peak_workspace_bytes = own_peak_bytes - weights_bytes_ - out.peak_kv_bytes;
    out.peak_bytes = std::max({out.peak_bytes.value_or(0), own_peak_bytes, meter_.peak_of_all()});
  }
  entering_(sequence->request->ticket, -1);
  close(*sequence, held);
  auto& request = *sequence->request;
  Finished finished{request.ticket, static_cast<size_t>(sequence->compressor), sequence->continuation, std::move(out)};
  if (--request.n_left == 0) {
    for (auto& reference : request.references) close(reference, meter_.held_bytes(reference.account));
    requests_.erase(finished.ticket);
  }
  sequences_.erase(sequence);
  return finished;
}

// held: by its caches, before they were asked what they hold.
void Generator::close(Sequence& sequence, const MemoryMeter::Held& held) {
  auto& out = sequence.out;
  entering_(sequence.request->ticket, sequence.compressor);
  const auto error = destroy_caches(meter_, sequence.account, sequence.caches, held, out.kv_bytes);
  entering_(sequence.request->ticket, -1);
  if (out.error.empty()) out.error = error;
}

// Those with a token to read: each has taken as many as the sequences of its continuation.
std::vector<Generator::Sequence*> Generator::going_references() {
  std::vector<Sequence*> going;
  for (auto& [ticket, request] : requests_) {
    for (auto& reference : request.references) {
      const auto& forced = request.asked.continuations[reference.continuation];
      auto& ids = reference.out.ids;
      if (!reference.out.error.empty() || ids.size() == forced.size()) continue;
      ids.push_back(forced[ids.size()]);
      reference.next.reset();
      if (ids.size() < forced.size()) going.push_back(&reference);
    }
  }
  return going;
}

std::vector<Finished> Generator::step() {
  const auto start = Clock::now();
  meter_.reset_all();
  std::vector<Finished> finished;
  std::vector<Sequence*> going;
  std::vector<StepToken> tokens;
  for (auto next = sequences_.begin(); next != sequences_.end();) {
    const auto sequence = next++;
    const bool is_asked = sequence->n_asked == sequence->request->asked.n_question_tokens;
    if (on_logits_ && is_asked && sequence->out.error.empty()) {
      on_logits_(sequence->request->ticket, static_cast<size_t>(sequence->compressor), sequence->logits);
    }
    if (sequence->out.error.empty() && choose_token(*sequence)) {
      going.push_back(&*sequence);
    } else {
      finished.push_back(finish(sequence));
    }
  }
  if (going.empty()) return finished;
  for (auto* reference : going_references()) going.push_back(reference);

  std::vector<CacheStep> steps;
  for (auto* sequence : going) {
    tokens.push_back(token_to_read(*sequence));
    steps.push_back(step_of(*sequence));
    sequence->audit.begin_step();
  }
  double cache_seconds = 0;
  bool apart = false;
  const auto seconds_of_caches = [&] {
    double sum = 0;
    for (const auto* sequence : going) sum += sequence->out.encode_seconds + sequence->out.attend_seconds;
    return sum;
  };
  const double before = seconds_of_caches();
  const auto logits = model_.decode_step(tokens, [&](int64_t layer, auto news, double scale, at::Tensor& attended) {
    const auto begin = Clock::now();
    step_caches(steps, layer, model_.config().layers[static_cast<size_t>(layer)].sliding_window, news, scale, meter_,
                attended);
    cache_seconds += seconds_since(begin);
    apart = works_apart(attended.device());
  });
  note_peak();
  if (apart) cache_seconds = seconds_of_caches() - before;  // the device is done: its logits are here
  const double share = std::max(0.0, seconds_since(start) - cache_seconds) / static_cast<double>(going.size());
  for (size_t b = 0; b < going.size(); ++b) {
    going[b]->logits = logits[static_cast<int64_t>(b)];
    going[b]->out.other_seconds += share;
  }
  return finished;
}

}  // namespace kvc
