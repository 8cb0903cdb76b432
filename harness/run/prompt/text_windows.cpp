#include "prompt/text_windows.h"

#include <algorithm>

#include "kvc/check.h"

namespace kvc {
namespace {

void check_lengths(const LikelihoodSpec& spec, int64_t context, const std::optional<int64_t>& max_prompt_tokens) {
  KVC_CHECK(spec.tokens <= context, spec.where, ": error: likelihood.tokens is ", spec.tokens,
            ", and the model's context has ", context);
  KVC_CHECK(!max_prompt_tokens || spec.prompt_tokens <= *max_prompt_tokens, spec.where,
            ": error: likelihood.prompt_tokens is ", spec.prompt_tokens, ", and max_prompt_tokens is ",
            max_prompt_tokens.value_or(0));
}

// A text's windows, at most n_most where that is not 0.
std::vector<Sample> windows_of(const Sample& text, const std::vector<int64_t>& ids, const std::vector<int64_t>& begin,
                               const LikelihoodSpec& spec, int64_t n_most) {
  const int64_t n = spec.tokens - static_cast<int64_t>(begin.size());
  std::vector<Sample> windows;
  for (int64_t at = spec.offset; at + n <= static_cast<int64_t>(ids.size()); at += spec.stride > 0 ? spec.stride : n) {
    if (n_most > 0 && static_cast<int64_t>(windows.size()) == n_most) break;
    auto& window = windows.emplace_back();
    window.ids = begin;
    window.ids.insert(window.ids.end(), ids.begin() + at, ids.begin() + at + n);
    window.buckets = text.buckets;
  }
  return windows;
}

// The first of each text, then the second of each, ...
std::vector<Sample> in_turn(std::vector<std::vector<Sample>> of_texts) {
  std::vector<Sample> windows;
  for (size_t i = 0; std::ranges::any_of(of_texts, [&](const auto& of) { return i < of.size(); }); ++i) {
    for (auto& of : of_texts) {
      if (i < of.size()) windows.push_back(std::move(of[i]));
    }
  }
  return windows;
}

std::vector<Sample> one_after_another(std::vector<std::vector<Sample>> of_texts) {
  std::vector<Sample> windows;
  for (auto& of : of_texts) std::ranges::move(of, std::back_inserter(windows));
  return windows;
}

}  // namespace

std::vector<int64_t> window_begin(const Tokenizer& tokenizer) {
  const auto with = tokenizer.encode("a", true), without = tokenizer.encode("a", false);
  const auto text = std::ranges::search(with, without);
  return {with.begin(), text.begin()};
}

void cut_into_windows(const TaskSpec& spec, const Tokenizer& tokenizer, int64_t context,
                      const std::optional<int64_t>& max_prompt_tokens, Dataset& data) {
  const auto& likelihood = *spec.likelihood;
  check_lengths(likelihood, context, max_prompt_tokens);
  const auto begin = window_begin(tokenizer);
  std::vector<std::vector<Sample>> of_texts;
  size_t longest = 0;
  int64_t n_windows = 0;
  for (const auto& text : data.samples) {
    if (likelihood.stride == 0 && likelihood.windows > 0 && n_windows >= likelihood.windows) break;
    const auto ids = tokenizer.encode(render_prompt(spec, data, text).text, false);
    longest = std::max(longest, begin.size() + ids.size());
    of_texts.push_back(windows_of(text, ids, begin, likelihood, likelihood.windows));
    n_windows += static_cast<int64_t>(of_texts.back().size());
  }
  auto windows = likelihood.stride > 0 ? in_turn(std::move(of_texts)) : one_after_another(std::move(of_texts));
  if (likelihood.windows > 0 && n_windows > likelihood.windows) windows.resize(static_cast<size_t>(likelihood.windows));
  KVC_CHECK(!windows.empty(), likelihood.where, ": error: likelihood.tokens is ", likelihood.tokens,
            likelihood.offset > 0 ? concat(" after the text's first ", likelihood.offset) : "", ", and the longest of ",
            data.samples.size(), " texts has ", longest, " with the model's tokenizer");
  for (size_t i = 0; i < windows.size(); ++i) windows[i].id = static_cast<int64_t>(i);
  data.samples = std::move(windows);
}

}  // namespace kvc
