// Shapes and attention: what a cache gives back, on and off the borders of its buffers.
#include <ATen/ATen.h>

#include "conformance/filled_cache.h"
#include "sandbox/audit.h"

namespace kvc::conformance {
namespace {

void expect_floats(const char* name, const KeyValue& kv, const std::vector<int64_t>& shape, Outcome& outcome) {
  expect(kv.k.sizes() == shape && kv.v.sizes() == shape, concat(name, " gives ", kv.k.sizes(), " and ", kv.v.sizes()),
         outcome);
  expect(kv.k.scalar_type() == at::kFloat && kv.v.scalar_type() == at::kFloat, concat(name, " is not fp32"), outcome);
}

}  // namespace

Outcome shapes_are_as_declared(const Subject& subject) {
  Outcome outcome;
  const auto empty = make(subject);
  expect(empty.cache->length() == 0 && empty.cache->n_encoded_tokens() == 0, "a new cache is not empty", outcome);
  empty.cache->footprint();
  for (const int64_t n : {1, 31, 33, 97, 256}) {
    const auto input = ordinary_input(subject.model, n);
    const auto made = filled(subject, input, n);
    const auto positions = made.cache->positions();
    const int64_t kept = positions.size(1);
    const std::vector<int64_t> shape = {subject.model.n_kv_heads, kept, subject.model.head_dim};
    expect(made.cache->length() == n, concat("length() is ", made.cache->length(), " after ", n, " tokens"), outcome);
    check_positions(positions, subject.model.n_kv_heads, n, subject.plugin.descriptor().capabilities.evicts);
    expect_floats("dequantize()", made.cache->dequantize(), shape, outcome);
    expect_floats("attended()", made.cache->attended(), shape, outcome);
    expect(made.cache->n_encoded_tokens() <= n, "more tokens compressed than appended", outcome);
    expect(made.compressor->paper_bytes(subject.model, n, 10) > 0, "paper_bytes is not positive", outcome);
  }
  return outcome;
}

Outcome short_prompts_are_served(const Subject& subject) {
  Outcome outcome;
  for (const int64_t n_prompt : {1, 2, 3, 7}) {
    const auto input = ordinary_input(subject.model, n_prompt + 4, 3);
    const auto made = make(subject);
    for (int64_t t = 0; t < n_prompt + 4; t += t == 0 ? n_prompt : 1) {
      const auto tokens = tokens_of(input, t, t == 0 ? n_prompt : 1);
      t == 0 ? append_prompt(*made.compressor, *made.cache, tokens) : made.cache->append(tokens);
      expect(is_finite(made.cache->dequantize()), concat("not finite at ", made.cache->length(), " tokens"), outcome);
      compare_attention(*made.cache, input, subject.model, 1, outcome);
    }
  }
  return outcome;
}

Outcome attention_equals_reference(const Subject& subject) {
  Outcome outcome;
  const auto input = ordinary_input(subject.model, 150);
  for (const int64_t n_prompt : {1, 31, 64, 97, 148}) {
    const auto made = filled(subject, input, n_prompt);
    compare_attention(*made.cache, input, subject.model, 1, outcome);
    compare_attention(*made.cache, input, subject.model, 3, outcome);
  }
  return outcome;
}

Outcome decoding_300_steps_holds_together(const Subject& subject) {
  Outcome outcome;
  constexpr int64_t kPrompt = 45, kSteps = 300;
  const auto input = ordinary_input(subject.model, kPrompt + kSteps);
  const auto made = make(subject);
  append_prompt(*made.compressor, *made.cache, tokens_of(input, 0, kPrompt));
  int64_t n_encoded = made.cache->n_encoded_tokens();
  for (int64_t t = kPrompt; t < kPrompt + kSteps; ++t) {
    made.cache->append(tokens_of(input, t, 1));
    const int64_t n_more = made.cache->n_encoded_tokens() - n_encoded;
    expect(n_more >= 0, concat("the number of compressed tokens fell by ", -n_more, " at ", t), outcome);
    n_encoded += n_more;
    const bool at_border = n_more > 1;  // a buffer was flushed
    if (t % 13 == 0 || at_border || t + 1 == kPrompt + kSteps) {
      check_positions(made.cache->positions(), subject.model.n_kv_heads, t + 1,
                      subject.plugin.descriptor().capabilities.evicts);
      compare_attention(*made.cache, input, subject.model, 1, outcome);
    }
  }
  expect(made.cache->length() == kPrompt + kSteps, "length is wrong after decoding", outcome);
  return outcome;
}

Outcome prompts_come_in_chunks(const Subject& subject) {
  constexpr int64_t kPrompt = 250, kSteps = 5;
  const auto& capabilities = subject.plugin.descriptor().capabilities;
  if (!capabilities.chunked_prompt) return {.not_applicable = "caches need the whole prompt at once"};
  Outcome outcome;
  const auto input = ordinary_input(subject.model, kPrompt + kSteps, 23);
  const auto whole = make(subject), parts = make(subject);
  append_prompt(*whole.compressor, *whole.cache, tokens_of(input, 0, kPrompt));
  int64_t first = 0;
  for (const int64_t n : {64, 1, 100, 85}) {
    auto chunk = tokens_of(input, first, n);
    first += n;
    chunk.kind = first == kPrompt ? AppendKind::last_chunk : AppendKind::prompt_chunk;
    append(*parts.cache, chunk);
    expect(parts.cache->length() == first, concat("length() is ", parts.cache->length(), ", not ", first), outcome);
    check_positions(parts.cache->positions(), subject.model.n_kv_heads, first, capabilities.evicts);
    compare_attention(*parts.cache, input, subject.model, 1, outcome);
  }
  for (int64_t t = kPrompt; t < kPrompt + kSteps; ++t) {
    append(*whole.cache, tokens_of(input, t, 1));
    append(*parts.cache, tokens_of(input, t, 1));
    compare_attention(*parts.cache, input, subject.model, 1, outcome);
  }
  if (capabilities.one_by_one_same) {
    expect(equal(whole.cache->dequantize(), parts.cache->dequantize()), "a whole prompt is stored differently",
           outcome);
  }
  return outcome;
}

Outcome hidden_tokens_are_dropped(const Subject& subject) {
  constexpr int64_t kWindow = 45, kPrompt = 400, kSteps = 300, kMostHidden = 320;
  Outcome outcome;
  auto windowed = subject;
  windowed.model.sliding_window = kWindow;
  for (auto& layer : windowed.model.layers) layer.sliding_window = kWindow;
  const auto input = ordinary_input(windowed.model, kPrompt + kSteps, 17);
  const auto keeps = make(windowed), drops = make(windowed);
  if (!dynamic_cast<DropsTokens*>(drops.cache.get())) return {.not_applicable = "caches hold every token they get"};
  for (const auto* made : {&keeps, &drops}) {
    append_prompt(*made->compressor, *made->cache, tokens_of(input, 0, kPrompt));
  }
  int64_t n_dropped = 0;
  for (int64_t t = kPrompt; t < kPrompt + kSteps; ++t) {
    const int64_t n = drop_hidden(*drops.cache, kWindow, t - n_dropped);
    n_dropped += n;
    append(*keeps.cache, tokens_of(input, t, 1));
    auto token = tokens_of(input, t, 1);
    token.first_position -= n_dropped;
    append(*drops.cache, token);
    if (n == 0 && (n_dropped == 0 || t + 1 != kPrompt + kSteps)) continue;
    const int64_t n_left = t + 1 - n_dropped;
    expect(drops.cache->length() == n_left, concat("length() is ", drops.cache->length(), ", not ", n_left), outcome);
    const auto all = keeps.cache->dequantize(), left = drops.cache->dequantize();
    expect(equal(left, {all.k.narrow(1, n_dropped, n_left), all.v.narrow(1, n_dropped, n_left)}),
           concat("after ", n_dropped, " were dropped the others changed"), outcome);
    const auto q = input.q.narrow(1, t, 1);
    const auto before = keeps.cache->attend(q, windowed.model.attention_scale);
    const double error = relative_error(drops.cache->attend(q, windowed.model.attention_scale), before);
    expect(error < 1e-4, concat("attention changed by ", error, " with ", n_dropped, " dropped"), outcome);
  }
  if (n_dropped == 0) return {.not_applicable = "caches with these options hold every token they get"};
  expect(drops.cache->length() <= kWindow + kMostHidden,
         concat(drops.cache->length(), " tokens are held for a window of ", kWindow), outcome);
  expect(drops.cache->footprint().total_bytes() < keeps.cache->footprint().total_bytes(), "no byte became free",
         outcome);
  return outcome;
}

Outcome batched_attention_equals_single(const Subject& subject) {
  Outcome outcome;
  const auto compressor = make_compressor(subject);
  const auto* batched = dynamic_cast<const BatchedAttention*>(compressor.get());
  if (!batched) return {.not_applicable = "the compressor is no BatchedAttention"};
  std::vector<std::unique_ptr<LayerCache>> held;
  std::vector<const LayerCache*> caches;
  std::vector<at::Tensor> q;
  for (const int64_t n : {1, 600, 64, 65, 33}) {  // lengths of a batch differ
    const auto input = ordinary_input(subject.model, n, static_cast<uint64_t>(n));
    held.push_back(compressor->make_cache(info_of(subject.model, 1, static_cast<uint64_t>(n))));
    append_prompt(*compressor, *held.back(), tokens_of(input, 0, n));
    caches.push_back(held.back().get());
    q.push_back(input.q.narrow(1, n - 1, 1).contiguous());
  }
  auto out = at::empty({5, subject.model.n_heads, subject.model.head_dim},
                       at::TensorOptions(at::kFloat).device(check_device()));
  for (const auto dtype : {at::kFloat, at::kHalf}) {  // of the models that queries come from
    for (auto& query : q) query = query.to(dtype);
    batched->attend_batch(caches, q, subject.model.attention_scale, out);
    for (size_t b = 0; b < caches.size(); ++b) {
      const auto alone = caches[b]->attend(q[b], subject.model.attention_scale).squeeze(1);
      expect(at::equal(out[static_cast<int64_t>(b)], alone),
             concat("attend_batch differs from attend in row ", b, " of queries in ", at::toString(dtype)), outcome);
    }
  }
  return outcome;
}

}  // namespace kvc::conformance
