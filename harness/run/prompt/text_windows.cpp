#include "prompt/text_windows.h"

#include <algorithm>

#include "kvc/check.h"

namespace kvc {

void cut_into_windows(const TaskSpec& spec, const Tokenizer& tokenizer, int64_t context,
                      const std::optional<int64_t>& max_prompt_tokens, Dataset& data) {
  const auto& likelihood = *spec.likelihood;
  KVC_CHECK(likelihood.tokens <= context, likelihood.where, ": error: likelihood.tokens is ", likelihood.tokens,
            ", and the model's context has ", context);
  KVC_CHECK(!max_prompt_tokens || likelihood.prompt_tokens <= *max_prompt_tokens, likelihood.where,
            ": error: likelihood.prompt_tokens is ", likelihood.prompt_tokens, ", and max_prompt_tokens is ",
            max_prompt_tokens.value_or(0));
  std::vector<Sample> windows;
  size_t longest = 0;
  const auto enough = [&] {
    return likelihood.windows > 0 && static_cast<int64_t>(windows.size()) == likelihood.windows;
  };
  for (const auto& text : data.samples) {
    if (enough()) break;
    const auto ids = tokenizer.encode(render_prompt(spec, data, text).text, true);
    longest = std::max(longest, ids.size());
    const auto n = static_cast<std::ptrdiff_t>(likelihood.tokens);
    for (auto begin = ids.begin(); ids.end() - begin >= n && !enough(); begin += n) {
      Sample window;
      window.id = static_cast<int64_t>(windows.size());
      window.ids.assign(begin, begin + n);
      window.buckets = text.buckets;
      windows.push_back(std::move(window));
    }
  }
  KVC_CHECK(!windows.empty(), likelihood.where, ": error: likelihood.tokens is ", likelihood.tokens,
            ", and the longest of ", data.samples.size(), " texts has ", longest, " with the model's tokenizer");
  data.samples = std::move(windows);
}

}  // namespace kvc
