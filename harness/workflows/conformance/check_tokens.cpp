// Tokens that break compressors: constant, huge, tiny, not finite, of the wrong shape, in 16 bits, without queries.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "conformance/filled_cache.h"

namespace kvc::conformance {

Outcome adversarial_inputs_stay_finite(const Subject& subject) {
  Outcome outcome;
  for (const int64_t n : {1, 33, 160}) {
    for (const auto& input : adversarial_inputs(subject.model, n)) {
      const auto made = filled(subject, input, std::max<int64_t>(1, n - 25));
      expect(is_finite(made.cache->dequantize()), concat("'", input.name, "' at ", n, " tokens comes back not finite"),
             outcome);
      Outcome attention;
      compare_attention(*made.cache, input, subject.model, 1, attention);
      for (const auto& line : attention.complaints) {
        outcome.complaints.push_back(concat("'", input.name, "': ", line));
      }
    }
  }
  return outcome;
}

// Beyond what 16 bits hold a method may refuse, in words; it may not turn numbers into NaN.
Outcome extreme_inputs_are_refused_or_finite(const Subject& subject) {
  Outcome outcome;
  for (const auto& input : extreme_inputs(subject.model, 120)) {
    const auto made = make(subject);
    if (refuses([&] { fill(*made.compressor, *made.cache, input, 100); })) {
      outcome.notes.push_back(concat("refuses '", input.name, "'"));
      continue;
    }
    const auto attention = made.cache->attend(input.q.narrow(1, 119, 1), subject.model.attention_scale);
    expect(is_finite(made.cache->dequantize()), concat("'", input.name, "' comes back not finite"), outcome);
    expect(attention.isfinite().all().item<bool>(), concat("attention over '", input.name, "' is not finite"), outcome);
  }
  return outcome;
}

Outcome bad_tokens_are_refused(const Subject& subject) {
  Outcome outcome;
  const auto good = ordinary_input(subject.model, 16);
  const auto refused = [&](auto change, const char* what) {
    for (const int64_t n_before : {0, 8}) {  // in the prompt, and while decoding
      const auto made = make(subject);
      if (n_before > 0) made.cache->append(tokens_of(good, 0, n_before));
      auto tokens = tokens_of(good, n_before, 8);
      tokens.k = tokens.k.clone(), tokens.v = tokens.v.clone();
      change(tokens);
      expect(refuses([&] { made.cache->append(tokens); }), concat(what, " is taken after ", n_before, " tokens"),
             outcome);
    }
  };
  refused([](NewTokens& t) { t.k.view(-1)[5] = NAN; }, "NaN in k");
  refused([](NewTokens& t) { t.v.view(-1)[9] = INFINITY; }, "infinity in v");
  refused([](NewTokens& t) { t.k.view(-1)[7] = -INFINITY; }, "minus infinity in k");
  refused([](NewTokens& t) { t.v = t.v.narrow(1, 0, 7); }, "v shorter than k");
  refused([](NewTokens& t) { t.k = t.k.narrow(2, 0, 5), t.v = t.v.narrow(2, 0, 5); }, "a wrong head_dim");
  refused([](NewTokens& t) { t.k = t.k.narrow(1, 0, 0), t.v = t.v.narrow(1, 0, 0); }, "a call without tokens");
  refused([](NewTokens& t) { t.first_position += 3; }, "a gap in positions");
  return outcome;
}

Outcome inputs_are_not_modified(const Subject& subject) {
  Outcome outcome;
  const auto input = ordinary_input(subject.model, 150);
  const auto k = input.k.clone(), v = input.v.clone(), q = input.q.clone();
  const auto made = filled(subject, input, 140);
  made.cache->attend(input.q.narrow(1, 149, 1), 0.1);
  expect(at::equal(k, input.k) && at::equal(v, input.v) && at::equal(q, input.q), "the caller's tensors were changed",
         outcome);
  const auto before = made.cache->dequantize();
  const KeyValue copy{before.k.clone(), before.v.clone()};
  input.k.zero_(), input.v.zero_();
  expect(equal(copy, made.cache->dequantize()), "the cache reads the caller's memory after append", outcome);
  return outcome;
}

Outcome sixteen_bit_inputs_are_taken(const Subject& subject) {
  Outcome outcome;
  const auto input = ordinary_input(subject.model, 100);
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    const Input narrow{"narrow", input.q.to(type), input.k.to(type), input.v.to(type)};
    const Input wide{"wide", narrow.q.to(at::kFloat), narrow.k.to(at::kFloat), narrow.v.to(at::kFloat)};
    const auto a = filled(subject, narrow, 90), b = filled(subject, wide, 90);
    expect(equal(a.cache->dequantize(), b.cache->dequantize()),
           concat("input of type ", type, " is not taken as its value"), outcome);
    compare_attention(*a.cache, narrow, subject.model, 1, outcome);
  }
  return outcome;
}

Outcome missing_queries_are_taken_or_refused(const Subject& subject) {
  Outcome outcome;
  auto input = ordinary_input(subject.model, 60);
  const auto made = make(subject);
  const bool refused = refuses([&] {
    for (int64_t t = 0; t < 60; t += t == 0 ? 50 : 1) {
      auto tokens = tokens_of(input, t, t == 0 ? 50 : 1);
      tokens.q = at::Tensor();
      t == 0 ? append_prompt(*made.compressor, *made.cache, tokens) : made.cache->append(tokens);
    }
  });
  if (refused) return {.notes = {"refuses tokens without queries"}};
  compare_attention(*made.cache, input, subject.model, 1, outcome);
  return outcome;
}

}  // namespace kvc::conformance
