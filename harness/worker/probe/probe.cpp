#include "probe/probe.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <random>

#include "generate/batch_attention.h"
#include "generate/prompt_end.h"
#include "kvc/probed_parts.h"
#include "probe/layer_values.h"
#include "sandbox/audit.h"
#include "sandbox/private_tokens.h"
#include "sandbox/sandboxed_call.h"
#include "text/common_prefix.h"

namespace kvc {
namespace {

const std::vector<std::string> kAttention{"score_rel_sq", "output_rel_fro"};
const std::vector<std::string> kForced{"logit_max_abs", "logit_l2", "kl", "top1_same"};
const std::vector<std::string> kEnd{"rel_fro_end", "abs_fro_end"};
const std::vector<std::string> kFree{"logit_max_abs_free", "first_divergence"};

LookedAt look_at(const LayerCache& cache, bool attends) {
  LookedAt looked_at{held_tokens(cache), attends ? attended_tokens(cache) : HeldTokens{}, {}};
  if (const auto* parted = dynamic_cast<const ProbedParts*>(&cache)) {
    for (auto& part : parted->probed_parts()) looked_at.parts.emplace_back(part.name, part.values);
  }
  return looked_at;
}

}  // namespace

// One compressor's caches on the prompt.
struct Probe::Subject {
  int index;
  const Compressor* compressor;
  int account;
  ProbeOutput out;
  SequenceCaches caches = {};
  Audit audit = Audit();
  std::vector<std::vector<at::Tensor>> k = {}, v = {};  // by layer: what came after the prompt, each [H_kv, 1, D]
  std::vector<at::Tensor> logits = {};                  // of each step, where they are dumped
  Generation state = {};                                // its error
  bool failed() const { return !state.error.empty(); }
};

// What is exact.
struct Probe::Prompt {
  int64_t n_tokens = 0;
  std::vector<at::Tensor> q;            // by layer: of the last tokens [H_q, n, D]
  SequenceCaches caches;                // that go on with the answer
  std::vector<at::Tensor> logits = {};  // [V] of each step

  KeyValue of_layer(size_t layer, int64_t from) const {
    const auto all = caches[layer]->dequantize();
    return {all.k.slice(1, from, n_tokens), all.v.slice(1, from, n_tokens)};
  }
};

Probe::Probe(const Transformer& model, const Tokenizer& tokenizer, MemoryMeter& meter)
    : model_(model),
      tokenizer_(tokenizer),
      meter_(meter),
      generator_(model, tokenizer, meter, false),
      entering_([](int) {}) {
  generator_.on_entering([this](int64_t, int compressor) { entering_(runs_subjects_ ? compressor : -1); });
}

void Probe::on_entering(Entering entering) { entering_ = std::move(entering); }

// Runs the compressor's code on its account; what it throws is its error.
template <class Body>
void Probe::inside(Subject& subject, const Body& body) {
  if (subject.failed()) return;
  entering_(subject.index);
  subject.state.error = sandboxed_call(meter_, subject.account, CallMode::plain, body);
  entering_(-1);
}

std::vector<Probed> Probe::run(const ProbeRequest& request) {
  runs_subjects_ = false;
  generator_.on_logits({});  // where the last run was cut short
  std::vector<Subject> subjects;
  for (size_t i = 0; i < request.compressors.size(); ++i) {
    const int index = static_cast<int>(i), account = meter_.take_account();
    meter_.share(account, request.compressors[i]);
    subjects.push_back({index, request.compressors[i], account, {request.settings.measures, request.dumps}});
    subjects.back().state.n_hidden = hidden_of_layers(model_.shape(), static_cast<int64_t>(request.prompt_ids.size()));
  }
  auto prompt = prefill(request, subjects);
  for (auto& subject : subjects) audit_prompt(prompt, subject);
  const auto& values = subjects.front().out.values;
  if (values.wants_any(kForced) || values.wants_any(kEnd) || values.wants_any(kFree)) {
    auto answer = request.answer_ids;
    const ExactCompressor exact;
    if (answer.empty()) answer = generate(request, {&exact}).front().ids;
    read_answer(answer, prompt, subjects);
    for (auto& subject : subjects) {
      if (values.wants_any(kEnd)) look_at_end(prompt, subject);
      close(subject);
    }
    if (values.wants_any(kFree)) run_free(request, answer, prompt, subjects);
  }
  std::vector<Probed> probed;
  for (auto& subject : subjects) {
    close(subject);
    probed.push_back({subject.state.error, subject.out.values.take(), std::move(subject.out.dump)});
  }
  return probed;
}

Probe::Prompt Probe::prefill(const ProbeRequest& request, std::vector<Subject>& subjects) {
  Prompt prompt;
  prompt.n_tokens = static_cast<int64_t>(request.prompt_ids.size());
  const int64_t n_queries = std::min(request.settings.n_queries, prompt.n_tokens);
  std::random_device random;
  const auto kept_layer = static_cast<int64_t>(random() % static_cast<uint32_t>(model_.shape().n_layers));
  for (auto& subject : subjects) subject.audit = Audit(random(), !request.keep_all.contains(subject.compressor));
  PromptEnd prompt_end(model_, tokenizer_, meter_, request.prompt_ids);
  const bool some_wait =
      std::ranges::any_of(subjects, [](const auto& s) { return waits_for_prompt_end(s.compressor); });
  PrivateTokens copies;
  const auto on_layer = [&](int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    auto info = model_.layer_info(layer, request.sequence_key);
    prompt.q.push_back(q.narrow(1, prompt.n_tokens - n_queries, n_queries).clone());
    if (some_wait) prompt_end.keep(k, v);
    prompt.caches.push_back(std::make_unique<ExactCache>(info));
    prompt.caches.back()->append({q, k, v, 0});
    const auto seen = seen_prompt({q, k, v, 0}, info);
    const auto audited = std::make_shared<const AuditedPrompt>(info, seen.k, seen.v);
    for (auto& subject : subjects) {
      const auto& tokens = copies.copy_in(seen);
      if (layer == kept_layer) subject.audit.keep(audited);
      std::unique_ptr<LayerCache> cache;
      inside(subject, [&] {
        cache = subject.compressor->make_cache(info);
        cache->append(tokens);
        copies.reclaim();
        if (!waits_for_prompt_end(subject.compressor)) {
          LayerAudit(audited, subject.audit.may_evict()).audit_prompt(*cache, q);
        }
      });
      if (cache) subject.caches.push_back(std::move(cache));
    }
    copies.invalidate();
  };
  model_.prefill(request.prompt_ids, on_layer);
  if (some_wait) end_prompt(request, prompt, subjects, prompt_end);
  return prompt;
}

CacheStep Probe::step_of(Subject& subject) {
  return {subject.compressor, &subject.caches,
          subject.account,    [this, &subject](bool inside) { entering_(inside ? subject.index : -1); },
          &subject.state,     &subject.audit};
}

void Probe::end_prompt(const ProbeRequest& request, const Prompt& prompt, std::vector<Subject>& subjects,
                       PromptEnd& prompt_end) {
  std::vector<CacheStep> steps;
  for (auto& subject : subjects) steps.push_back(step_of(subject));
  prompt_end.finish(steps);
  for (size_t layer = 0; layer < prompt.q.size(); ++layer) {
    auto info = model_.layer_info(static_cast<int64_t>(layer), request.sequence_key);
    const auto exact = seen_prompt(prompt_end.layers()[layer], info);
    const auto audited = std::make_shared<const AuditedPrompt>(info, exact.k, exact.v);
    for (auto& subject : subjects) {
      if (!waits_for_prompt_end(subject.compressor)) continue;
      inside(subject, [&] {
        LayerAudit(audited, subject.audit.may_evict()).audit_prompt(*subject.caches[layer], prompt.q[layer]);
      });
    }
  }
}

void Probe::audit_prompt(const Prompt& prompt, Subject& subject) {
  const bool attends = subject.out.values.wants_any(kAttention);
  for (size_t layer = 0; layer < prompt.caches.size(); ++layer) {
    LookedAt looked_at;
    inside(subject, [&] { looked_at = look_at(*subject.caches[layer], attends); });
    if (subject.failed()) return;
    add_layer_values(prompt.q[layer], prompt.of_layer(layer, subject.state.n_hidden[layer]), looked_at,
                     model_.layer_info(static_cast<int64_t>(layer), 0), subject.out);
  }
}

void Probe::read_answer(const std::vector<int64_t>& answer, Prompt& prompt, std::vector<Subject>& subjects) {
  Generation exact;
  exact.n_hidden.assign(prompt.caches.size(), 0);
  const ExactCompressor method;
  std::vector<CacheStep> steps{{&method, &prompt.caches, MemoryMeter::kModel, [](bool) {}, &exact}};
  for (auto& subject : subjects) {
    subject.k.resize(prompt.caches.size());
    subject.v.resize(prompt.caches.size());
    steps.push_back(step_of(subject));
  }
  const bool keeps = subjects.front().out.values.wants_any(kEnd);
  const auto attend = [&](int64_t layer, std::span<const NewTokens> news, double scale, at::Tensor& attended) {
    for (size_t i = 0; keeps && i < subjects.size(); ++i) {
      subjects[i].k[static_cast<size_t>(layer)].push_back(news[i + 1].k.clone());
      subjects[i].v[static_cast<size_t>(layer)].push_back(news[i + 1].v.clone());
    }
    step_caches(steps, layer, model_.config().layers[static_cast<size_t>(layer)].sliding_window, news, scale, meter_,
                attended);
  };
  for (size_t t = 0; t + 1 < answer.size(); ++t) {
    const auto step = static_cast<int64_t>(t);
    const std::vector<StepToken> tokens(steps.size(), {answer[t], prompt.n_tokens + step});
    for (auto& subject : subjects) subject.audit.begin_step();
    const auto logits = model_.decode_step(tokens, attend);
    KVC_CHECK(exact.error.empty(), "probe: the exact cache: ", exact.error);
    prompt.logits.push_back(logits[0].clone());
    for (size_t i = 0; i < subjects.size(); ++i) {
      const auto held = logits[static_cast<int64_t>(i) + 1];
      auto& out = subjects[i].out;
      if (out.dumps) subjects[i].logits.push_back(held.clone());
      if (subjects[i].failed() || !out.values.wants_any(kForced)) continue;
      const auto errors = logit_errors(logits[0], held);
      out.values.add({"logit_max_abs", -1, -1, "logits", step, errors.max_abs});
      out.values.add({"logit_l2", -1, -1, "logits", step, errors.l2});
      out.values.add({"kl", -1, -1, "logits", step, errors.kl});
      out.values.add({"top1_same", -1, -1, "logits", step, errors.top1_same ? 1.0 : 0.0});
    }
  }
  for (auto& subject : subjects) {
    if (subject.logits.empty()) continue;
    subject.out.keep("logits", at::stack(prompt.logits));
    subject.out.keep("logits_held", at::stack(subject.logits));
    subject.out.keep("answer", at::tensor(answer));
  }
}

void Probe::look_at_end(const Prompt& prompt, Subject& subject) {
  for (size_t layer = 0; layer < prompt.caches.size(); ++layer) {
    HeldTokens held;
    inside(subject, [&] { held = held_tokens(*subject.caches[layer]); });
    if (subject.failed()) return;
    auto given = prompt.of_layer(layer, 0);
    const auto joined = [n = subject.state.n_hidden[layer]](const at::Tensor& first, std::vector<at::Tensor> rest) {
      for (auto& x : rest) x = x.to(first.options());
      rest.insert(rest.begin(), first);
      return at::cat(rest, 1).slice(1, n);
    };
    given = {joined(given.k, subject.k[layer]), joined(given.v, subject.v[layer])};
    add_end_values(static_cast<int64_t>(layer), given, held, subject.out);
  }
}

// Holds the bytes against the allocator's, and lets go of the caches.
void Probe::close(Subject& subject) {
  if (subject.caches.empty()) return;
  entering_(subject.index);
  const auto error =
      subject.failed() ? destroy_caches(meter_, subject.account, subject.caches, meter_.held_bytes(subject.account), 0)
                       : count_and_destroy_caches(meter_, subject.account, subject.caches);
  entering_(-1);
  if (!subject.failed()) subject.state.error = error;
}

std::vector<Generation> Probe::generate(const ProbeRequest& request,
                                        const std::vector<const Compressor*>& compressors) {
  GenerationRequest asked;
  asked.prompt_ids = request.prompt_ids;
  asked.compressors = compressors;
  asked.keep_all = request.keep_all;
  asked.sequence_key = request.sequence_key;
  asked.stop = request.stop;
  asked.sampling = request.sampling;
  generator_.add(std::move(asked));
  std::vector<Generation> generations(compressors.size());
  while (generator_.n_sequences() > 0) {
    for (auto& finished : generator_.step()) generations[finished.compressor] = std::move(finished.generation);
  }
  return generations;
}

void Probe::run_free(const ProbeRequest& request, const std::vector<int64_t>& answer, const Prompt& prompt,
                     std::vector<Subject>& subjects) {
  std::vector<std::vector<double>> max_abs(subjects.size());
  std::vector<std::vector<at::Tensor>> free_logits(subjects.size());  // where they are dumped
  std::vector<size_t> n_seen(subjects.size(), 0);
  generator_.on_logits([&](int64_t, size_t i, const at::Tensor& logits) {
    const size_t n = n_seen[i]++;  // 0: the prefill's
    if (n == 0 || n > prompt.logits.size()) return;
    max_abs[i].push_back(logit_errors(prompt.logits[n - 1], logits).max_abs);
    if (request.dumps) free_logits[i].push_back(logits.clone());
  });
  auto bounded = request;
  bounded.stop.max_new_tokens = std::min(request.stop.max_new_tokens, static_cast<int64_t>(answer.size()));
  runs_subjects_ = true;
  const auto generations = generate(bounded, request.compressors);
  runs_subjects_ = false;
  generator_.on_logits({});
  for (size_t i = 0; i < subjects.size(); ++i) {
    auto& subject = subjects[i];
    if (subject.failed()) continue;
    subject.state.error = generations[i].error;
    const size_t n = common_prefix(answer, generations[i].ids);
    for (size_t t = 0; t < std::min(n, max_abs[i].size()); ++t) {
      subject.out.values.add({"logit_max_abs_free", -1, -1, "logits", static_cast<int64_t>(t), max_abs[i][t]});
    }
    const double first = n < answer.size() ? static_cast<double>(n) : std::numeric_limits<double>::quiet_NaN();
    subject.out.values.add({"first_divergence", -1, -1, "logits", -1, first});
    subject.out.keep("answer_free", at::tensor(generations[i].ids));
    if (!free_logits[i].empty()) subject.out.keep("logits_free", at::stack(free_logits[i]));
  }
}

}  // namespace kvc
