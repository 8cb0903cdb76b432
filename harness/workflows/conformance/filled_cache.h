// Caches for the checks: made, filled, and compared with the reference.
#pragma once

#include "conformance/checks.h"
#include "conformance/inputs.h"

namespace kvc::conformance {

// A method's cache for layer 1 of the model; the compressor must outlive it.
struct Made {
  std::unique_ptr<Compressor> compressor;
  std::unique_ptr<LayerCache> cache;
};

// RoPE's frequencies at theta 10,000, none for a model without; they outlive every cache. Not for two threads at once.
std::span<const float> frequencies_of(const ModelShape& model);
LayerInfo info_of(const ModelShape& model, int64_t layer, uint64_t sequence_key);  // on the checks' device

// A method that names a calibration file learns from ordinary tokens instead: the program reads the file, not a plugin.
std::unique_ptr<Compressor> make_compressor(const Subject& subject);
std::unique_ptr<LayerCache> make_cache(const Compressor& compressor, const Subject& subject);
Made make(const Subject& subject);

// As the generator does it: copies that the cache must not keep, and that are NaN behind it. Throws what the cache
// does, and what it leaves behind.
void append(LayerCache& cache, const NewTokens& tokens);

// The prompt that the cache was given, chunk by chunk in the place of the pass that its compressor may ask for.
void observe_copied(const Compressor& compressor, LayerCache& cache, const NewTokens& prompt);

// The whole prompt, and its end where the compressor waits for that: observed by itself, of this layer alone.
void append_prompt(const Compressor& compressor, LayerCache& cache, const NewTokens& prompt);

// The prompt at once, the rest one by one.
void fill(const Compressor& compressor, LayerCache& cache, const Input& input, int64_t n_prompt);
Made filled(const Subject& subject, const Input& input, int64_t n_prompt);

double relative_error(const at::Tensor& x, const at::Tensor& y);  // Frobenius, of x against y
bool equal(const KeyValue& a, const KeyValue& b);                 // bit by bit
bool is_finite(const KeyValue& kv);

inline void expect(bool condition, const std::string& what, Outcome& outcome) {
  if (!condition) outcome.complaints.push_back(what);
}

// attend against the softmax over attended(), for the last n_queries positions. fp32 sums in another order: 1e-4 of
// the largest entry leaves room for some thousand tokens.
void compare_attention(const LayerCache& cache, const Input& input, const ModelShape& model, int64_t n_queries,
                       Outcome& outcome, int64_t layer = 1);

// Whether f throws an Error; anything else it throws gets out.
template <class F>
bool refuses(F f) {
  try {
    f();
  } catch (const Error&) {
    return true;
  }
  return false;
}

}  // namespace kvc::conformance
