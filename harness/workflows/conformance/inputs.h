// Keys and values for tests: ordinary ones, and those that break compressors.
#pragma once

#include <string>
#include <vector>

#include "kvc/compressor.h"

namespace kvc::conformance {

struct Input {
  std::string name;
  at::Tensor q;  // [H_q, T, D] fp32
  at::Tensor k;  // [H_kv, T, D] fp32
  at::Tensor v;
};

// Where tokens and caches are: the CPU, unless set.
at::Device& check_device();

// Gaussian tokens with a bias and a spread of their own for each channel of K, as real keys have.
Input ordinary_input(const ModelShape& model, int64_t n_tokens, uint64_t seed = 1);

// Constant groups, all negative, one huge outlier, zeros, tiny numbers.
std::vector<Input> adversarial_inputs(const ModelShape& model, int64_t n_tokens);

// At and beyond what fp16 holds: all entries near its largest, some above it, all below its smallest.
std::vector<Input> extreme_inputs(const ModelShape& model, int64_t n_tokens);

// Tokens [first, first + n) of input.
NewTokens tokens_of(const Input& input, int64_t first, int64_t n_tokens);

}  // namespace kvc::conformance
