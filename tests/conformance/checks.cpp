#include "checks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>

#include "kvc/calibration.h"
#include "live_bytes.h"

namespace kvc::conformance {
namespace {

// A method's cache for layer 1 of the model; the compressor must outlive it.
struct Made {
  std::unique_ptr<Compressor> compressor;
  std::unique_ptr<LayerCache> cache;
};

// RoPE's frequencies at theta 10,000; they outlive every cache.
std::span<const float> frequencies_of(const ModelShape& model) {
  static std::map<int64_t, std::vector<float>> by_head_dim;
  auto& frequencies = by_head_dim[model.head_dim];
  for (int64_t i = static_cast<int64_t>(frequencies.size()); i < model.head_dim / 2; ++i) {
    frequencies.push_back(std::pow(1e4f, -2.f * static_cast<float>(i) / static_cast<float>(model.head_dim)));
  }
  return frequencies;
}

// A method that names a calibration file learns from ordinary tokens instead: the program reads the file, not a plugin.
std::unique_ptr<Compressor> make_compressor(const Subject& subject) {
  auto compressor = subject.plugin.make(subject.options);
  compressor->check_model(subject.model);
  auto* method = dynamic_cast<Calibrated*>(compressor.get());
  if (!method || method->calibration_file().empty()) return compressor;
  const auto calibrator = method->make_calibrator(subject.model);
  for (const uint64_t piece : {11, 12}) {
    for (int64_t layer = 0; layer < subject.model.n_layers; ++layer) {
      const auto input = ordinary_input(subject.model, 150, piece);
      calibrator->observe(layer_info(subject.model, layer, piece, frequencies_of(subject.model)),
                          {input.k, input.v, {}, {}});
    }
  }
  method->load(subject.model, calibrator->finish());
  return compressor;
}

std::unique_ptr<LayerCache> make_cache(const Compressor& compressor, const Subject& subject) {
  return compressor.make_cache(layer_info(subject.model, 1, 7, frequencies_of(subject.model)));
}

Made make(const Subject& subject) {
  Made made{make_compressor(subject), nullptr};
  made.cache = make_cache(*made.compressor, subject);
  return made;
}

// The prompt at once, the rest one by one.
Made filled(const Subject& subject, const Input& input, int64_t n_prompt) {
  auto made = make(subject);
  made.cache->append(tokens_of(input, 0, n_prompt));
  for (int64_t t = n_prompt; t < input.k.size(1); ++t) made.cache->append(tokens_of(input, t, 1));
  return made;
}

double scale_of(const ModelShape& model) { return 1 / std::sqrt(static_cast<double>(model.head_dim)); }

double relative_error(const at::Tensor& x, const at::Tensor& y) {
  const auto exact = y.to(at::kDouble);
  return (x.to(at::kDouble) - exact).norm().item<double>() / std::max(exact.norm().item<double>(), 1e-30);
}

bool equal(const KeyValue& a, const KeyValue& b) { return at::equal(a.k, b.k) && at::equal(a.v, b.v); }

void expect(bool condition, const std::string& what, Complaints& complaints) {
  if (!condition) complaints.push_back(what);
}

// attend against the softmax over dequantize(), for the last n_queries positions. fp32 sums in another order: 1e-4 of
// the largest entry leaves room for some thousand tokens.
void compare_attention(const LayerCache& cache, const Input& input, const Subject& subject, int64_t n_queries,
                       Complaints& complaints) {
  const int64_t length = cache.length();
  const auto q = input.q.narrow(1, length - n_queries, n_queries);
  const auto got = cache.attend(q, scale_of(subject.model));
  const auto expected = reference_attention(q, cache.dequantize(), cache.positions(), length, scale_of(subject.model),
                                            subject.model.sliding_window);
  expect(got.sizes() == q.sizes() && got.scalar_type() == at::kFloat,
         concat("attend gives ", got.sizes(), " ", got.scalar_type(), " for q ", q.sizes()), complaints);
  const double error = (got - expected).abs().max().item<double>(), size = expected.abs().max().item<double>();
  expect(error <= 1e-4 * size,
         concat("attend differs from the reference by ", error, " (largest entry ", size, ") at ", length, " tokens, ",
                n_queries, " queries"),
         complaints);
}

// What the option `bits` may be, ascending, of fewer bits than exact storage has; none without that option.
std::vector<int64_t> bits_below_16(const PluginLibrary& plugin) {
  std::vector<int64_t> choices;
  for (const auto& option : plugin.describe_options()) {
    if (option.name != "bits") continue;
    std::istringstream allowed(option.allowed);  // "2, 4, 8"
    for (std::string word; std::getline(allowed, word, ',');) {
      const int64_t bits = std::atoll(word.c_str());
      if (bits > 0 && bits < 16) choices.push_back(bits);
    }
  }
  std::sort(choices.begin(), choices.end());
  return choices;
}

template <class F>
bool throws(F f) {
  try {
    f();
  } catch (const Error&) {
    return true;
  }
  return false;
}

}  // namespace

Complaints shapes_are_as_declared(const Subject& subject) {
  Complaints complaints;
  for (const int64_t n : {1, 31, 33, 97, 256}) {
    const auto input = ordinary_input(subject.model, n);
    const auto made = filled(subject, input, n);
    const auto kv = made.cache->dequantize();
    const auto positions = made.cache->positions();
    const int64_t kept = positions.size(1);
    const std::vector<int64_t> shape = {subject.model.n_kv_heads, kept, subject.model.head_dim};
    expect(made.cache->length() == n, concat("length() is ", made.cache->length(), " after ", n, " tokens"),
           complaints);
    expect(kept <= n && positions.size(0) == subject.model.n_kv_heads, concat("positions() is ", positions.sizes()),
           complaints);
    expect(kv.k.sizes() == shape && kv.v.sizes() == shape,
           concat("dequantize() gives ", kv.k.sizes(), " and ", kv.v.sizes()), complaints);
    expect(kv.k.scalar_type() == at::kFloat, "dequantize() is not fp32", complaints);
    expect(made.cache->n_encoded_tokens() <= n, "more tokens encoded than appended", complaints);
    expect(made.compressor->paper_bytes(subject.model, n, 10) > 0, "paper_bytes is not positive", complaints);
  }
  return complaints;
}

Complaints attention_equals_reference(const Subject& subject) {
  Complaints complaints;
  const auto input = ordinary_input(subject.model, 150);
  for (const int64_t n_prompt : {1, 31, 64, 97, 148}) {
    const auto made = filled(subject, input, n_prompt);
    compare_attention(*made.cache, input, subject, 1, complaints);
    compare_attention(*made.cache, input, subject, 3, complaints);
  }
  return complaints;
}

Complaints decoding_300_steps_holds_together(const Subject& subject) {
  Complaints complaints;
  constexpr int64_t kPrompt = 45, kSteps = 300;
  const auto input = ordinary_input(subject.model, kPrompt + kSteps);
  const auto made = make(subject);
  made.cache->append(tokens_of(input, 0, kPrompt));
  int64_t n_encoded = made.cache->n_encoded_tokens();
  for (int64_t t = kPrompt; t < kPrompt + kSteps; ++t) {
    made.cache->append(tokens_of(input, t, 1));
    expect(made.cache->n_encoded_tokens() >= n_encoded, concat("encoded tokens fell at ", t), complaints);
    n_encoded = made.cache->n_encoded_tokens();
    if (t % 13 == 0 || t + 1 == kPrompt + kSteps) compare_attention(*made.cache, input, subject, 1, complaints);
  }
  expect(made.cache->length() == kPrompt + kSteps, "length is wrong after decoding", complaints);
  return complaints;
}

Complaints footprint_equals_allocated_bytes(const Subject& subject) {
  Complaints complaints;
  const auto input = ordinary_input(subject.model, 200);
  for (const int64_t n_prompt : {1, 64, 130, 199}) {
    Made made{make_compressor(subject), nullptr};
    LiveBytes live;
    made.cache = make_cache(*made.compressor, subject);
    for (int64_t t = 0; t < input.k.size(1); t += t == 0 ? n_prompt : 1) {
      made.cache->append(tokens_of(input, t, t == 0 ? n_prompt : 1));
      if (t % 7 != 0) continue;
      const int64_t claimed = made.cache->footprint().total_bytes();
      expect(claimed == live.bytes(),
             concat("footprint() is ", claimed, " bytes at ", made.cache->length(), " tokens, the allocator holds ",
                    live.bytes()),
             complaints);
    }
  }
  return complaints;
}

Complaints same_input_gives_same_bits(const Subject& subject) {
  Complaints complaints;
  const auto input = ordinary_input(subject.model, 180);
  const auto one = filled(subject, input, 140), other = filled(subject, input, 140);
  const auto q = input.q.narrow(1, 179, 1);
  expect(equal(one.cache->dequantize(), other.cache->dequantize()), "two caches of the same tokens differ", complaints);
  expect(at::equal(one.cache->attend(q, 0.1), other.cache->attend(q, 0.1)), "attention differs between equal caches",
         complaints);
  expect(at::equal(one.cache->attend(q, 0.1), one.cache->attend(q, 0.1)), "attention differs when repeated",
         complaints);
  return complaints;
}

// Compared after one more token, since a decode step may leave its encoding to the next append.
Complaints one_by_one_equals_at_once(const Subject& subject) {
  Complaints complaints;
  if (!subject.plugin.descriptor().capabilities.one_by_one_same) return complaints;
  for (const int64_t n : {33, 64, 129, 257}) {
    const auto input = ordinary_input(subject.model, n);
    const auto at_once = filled(subject, input, n - 1), one_by_one = filled(subject, input, 1);
    expect(equal(at_once.cache->dequantize(), one_by_one.cache->dequantize()),
           concat("one by one differs from at once at ", n, " tokens"), complaints);
    expect(at_once.cache->footprint().total_bytes() == one_by_one.cache->footprint().total_bytes(),
           concat("bytes of one by one and at once differ at ", n, " tokens"), complaints);
  }
  return complaints;
}

Complaints prefix_is_local(const Subject& subject) {
  Complaints complaints;
  if (!subject.plugin.descriptor().capabilities.prefix_local) return complaints;
  const auto input = ordinary_input(subject.model, 200);
  const auto whole = filled(subject, input, 150).cache->dequantize();
  const auto prefix =
      filled(subject, {"prefix", input.q, input.k.narrow(1, 0, 90), input.v.narrow(1, 0, 90)}, 90).cache->dequantize();
  expect(at::equal(whole.k.narrow(1, 0, 90), prefix.k) && at::equal(whole.v.narrow(1, 0, 90), prefix.v),
         "what is stored for a prefix depends on the tokens after it", complaints);
  return complaints;
}

Complaints adversarial_inputs_stay_finite(const Subject& subject) {
  Complaints complaints;
  for (const int64_t n : {1, 33, 160}) {
    for (const auto& input : adversarial_inputs(subject.model, n)) {
      const auto made = filled(subject, input, std::max<int64_t>(1, n - 25));
      const auto kv = made.cache->dequantize();
      expect(kv.k.isfinite().all().item<bool>() && kv.v.isfinite().all().item<bool>(),
             concat("'", input.name, "' at ", n, " tokens comes back not finite"), complaints);
      Complaints attention;
      compare_attention(*made.cache, input, subject, 1, attention);
      for (const auto& line : attention) complaints.push_back(concat("'", input.name, "': ", line));
    }
  }
  return complaints;
}

Complaints bad_tokens_are_refused(const Subject& subject) {
  Complaints complaints;
  const auto good = ordinary_input(subject.model, 8);
  const auto refused = [&](auto change, const char* what) {
    const auto made = make(subject);
    auto tokens = tokens_of(good, 0, 8);
    tokens.k = tokens.k.clone(), tokens.v = tokens.v.clone();
    change(tokens);
    expect(throws([&] { made.cache->append(tokens); }), concat(what, " is taken"), complaints);
  };
  refused([](NewTokens& t) { t.k.view(-1)[5] = NAN; }, "NaN in k");
  refused([](NewTokens& t) { t.v.view(-1)[9] = INFINITY; }, "infinity in v");
  refused([](NewTokens& t) { t.v = t.v.narrow(1, 0, 7); }, "v shorter than k");
  refused([](NewTokens& t) { t.k = t.k.narrow(2, 0, 5), t.v = t.v.narrow(2, 0, 5); }, "a wrong head_dim");
  refused([](NewTokens& t) { t.first_position = 3; }, "a gap in positions");
  return complaints;
}

Complaints inputs_are_not_modified(const Subject& subject) {
  Complaints complaints;
  const auto input = ordinary_input(subject.model, 150);
  const auto k = input.k.clone(), v = input.v.clone(), q = input.q.clone();
  const auto made = filled(subject, input, 140);
  made.cache->attend(input.q.narrow(1, 149, 1), 0.1);
  expect(at::equal(k, input.k) && at::equal(v, input.v) && at::equal(q, input.q), "the caller's tensors were changed",
         complaints);
  const auto before = made.cache->dequantize();
  input.k.zero_(), input.v.zero_();
  expect(equal(before, made.cache->dequantize()), "the cache reads the caller's memory after append", complaints);
  return complaints;
}

Complaints sixteen_bit_inputs_are_taken(const Subject& subject) {
  Complaints complaints;
  const auto input = ordinary_input(subject.model, 100);
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    const Input narrow{"narrow", input.q.to(type), input.k.to(type), input.v.to(type)};
    const Input wide{"wide", narrow.q.to(at::kFloat), narrow.k.to(at::kFloat), narrow.v.to(at::kFloat)};
    const auto a = filled(subject, narrow, 90), b = filled(subject, wide, 90);
    expect(equal(a.cache->dequantize(), b.cache->dequantize()),
           concat("input of type ", type, " is not taken as its value"), complaints);
    compare_attention(*a.cache, narrow, subject, 1, complaints);
  }
  return complaints;
}

Complaints lossy_means_lossy(const Subject& subject) {
  Complaints complaints;
  const auto input = ordinary_input(subject.model, 400);
  const auto made = filled(subject, input, 380);
  const auto kv = made.cache->dequantize();
  const bool lossy = subject.plugin.descriptor().capabilities.lossy;
  const bool exact =
      kv.k.sizes() == input.k.sizes() && relative_error(kv.k, input.k) < 5e-3 && relative_error(kv.v, input.v) < 5e-3;
  expect(lossy || exact, "the plugin calls itself not lossy, and is", complaints);
  expect(!lossy || made.cache->n_encoded_tokens() > 0, "nothing is encoded after 400 tokens", complaints);
  const auto exact_to_16_bits =
      kv.k.sizes() == input.k.sizes() && at::equal(kv.k, input.k.to(at::kHalf).to(at::kFloat));
  expect(!lossy || !exact_to_16_bits, "the plugin calls itself lossy, and gives back exact keys", complaints);
  return complaints;
}

Complaints error_falls_as_bits_rise(const Subject& subject) {
  Complaints complaints;
  const auto bits_with = [&](int64_t bits) {
    auto options = subject.options;
    options["bits"] = bits;
    return subject.plugin.make(options)->bits();
  };
  auto choices = bits_below_16(subject.plugin);
  std::erase_if(choices, [&](int64_t bits) { return throws([&] { bits_with(bits); }); });  // not with these options
  if (choices.empty()) return complaints;
  if (bits_with(choices.front()) == 16 && bits_with(choices.back()) == 16)
    return complaints;  // another option turns quantization off
  const auto input = ordinary_input(subject.model, 300);
  double last_k = INFINITY, last_v = INFINITY;
  for (const int64_t bits : choices) {
    auto options = subject.options;
    options["bits"] = bits;
    const auto made = filled({subject.plugin, options, subject.model}, input, 280);
    const auto kv = made.cache->dequantize();
    const double k = relative_error(kv.k, input.k), v = relative_error(kv.v, input.v);
    expect(k < last_k && v < last_v,
           concat("error of K, V at ", bits, " bits is ", k, ", ", v, ", before ", last_k, ", ", last_v), complaints);
    last_k = k, last_v = v;
  }
  return complaints;
}

Complaints batched_attention_equals_single(const Subject& subject) {
  Complaints complaints;
  const auto compressor = make_compressor(subject);
  const auto* batched = dynamic_cast<const BatchedAttention*>(compressor.get());
  if (!batched) return complaints;
  std::vector<std::unique_ptr<LayerCache>> held;
  std::vector<const LayerCache*> caches;
  std::vector<at::Tensor> q;
  for (const int64_t n : {1, 130, 64, 65, 33}) {  // lengths of a batch differ
    const auto input = ordinary_input(subject.model, n, static_cast<uint64_t>(n));
    held.push_back(
        compressor->make_cache(layer_info(subject.model, 1, static_cast<uint64_t>(n), frequencies_of(subject.model))));
    held.back()->append(tokens_of(input, 0, n));
    caches.push_back(held.back().get());
    q.push_back(input.q.narrow(1, n - 1, 1).contiguous());
  }
  auto out = at::empty({5, subject.model.n_heads, subject.model.head_dim}, at::kFloat);
  batched->attend_batch(caches, q, scale_of(subject.model), out);
  for (size_t b = 0; b < caches.size(); ++b) {
    const auto alone = caches[b]->attend(q[b], scale_of(subject.model)).squeeze(1);
    expect(at::equal(out[static_cast<int64_t>(b)], alone), concat("attend_batch differs from attend in row ", b),
           complaints);
  }
  return complaints;
}

const std::vector<Check>& all_checks() {
  static const std::vector<Check> checks = {
      {"shapes_are_as_declared", shapes_are_as_declared},
      {"attention_equals_reference", attention_equals_reference},
      {"decoding_300_steps_holds_together", decoding_300_steps_holds_together},
      {"footprint_equals_allocated_bytes", footprint_equals_allocated_bytes},
      {"same_input_gives_same_bits", same_input_gives_same_bits},
      {"one_by_one_equals_at_once", one_by_one_equals_at_once},
      {"prefix_is_local", prefix_is_local},
      {"adversarial_inputs_stay_finite", adversarial_inputs_stay_finite},
      {"bad_tokens_are_refused", bad_tokens_are_refused},
      {"inputs_are_not_modified", inputs_are_not_modified},
      {"sixteen_bit_inputs_are_taken", sixteen_bit_inputs_are_taken},
      {"batched_attention_equals_single", batched_attention_equals_single},
      {"lossy_means_lossy", lossy_means_lossy},
      {"error_falls_as_bits_rise", error_falls_as_bits_rise},
  };
  return checks;
}

}  // namespace kvc::conformance
