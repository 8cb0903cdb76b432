// Attention sinks and recent tokens: the first `sinks` tokens and the newest `recent` are held exactly, what lies
// between them is evicted for good. A query sees what is held, itself among the recent.
// Bytes per layer: 4 * H_kv * D * min(T, sinks + recent);   precision exact: 8. Positions follow from the counts.
#include <kvc/plugin.h>
#include <kvc/quant/evicting_cache.h>
#include <kvc/quant/evicting_compressor.h>
#include <kvc/quant/shared_options.h>

#include <algorithm>

namespace {

struct WindowOptions {
  int64_t sinks = 4;
  int64_t recent = 252;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    v.integer("sinks", sinks, 0, kvc::kNoUpperLimit, "first tokens, never evicted");
    v.integer("recent", recent, 1, kvc::kNoUpperLimit, "newest tokens to keep");
    kvc::visit_precision(v, precision, "tokens");
  }

  void check() const {}
  int64_t n_kept(int64_t n_prompt_tokens, int64_t n_new_tokens) const {
    const int64_t n_tokens = n_prompt_tokens + n_new_tokens, n_sinks = std::min(sinks, n_tokens);
    return n_sinks + std::min(recent, n_tokens - n_sinks);
  }
};

class WindowCache final : public kvc::EvictingCache {
 public:
  WindowCache(const kvc::LayerInfo& info, const WindowOptions& options)
      : EvictingCache(info, {.method = "window", .ranking = kvc::Ranking::none, .precision = options.precision}),
        options_(options) {}

 private:
  kvc::TokenBudget budget(int64_t) const override { return {.sinks = options_.sinks, .recent = options_.recent}; }

  const WindowOptions& options_;  // the compressor's
};

using Window = kvc::EvictingCompressor<WindowOptions, WindowCache>;

}  // namespace

KVC_PLUGIN(WindowOptions, Window, "window", "token eviction: keeps attention sinks and recent tokens",
           "Xiao et al. 2023 (StreamingLLM), section 3.2",
           "tokens keep the positions of the text (the paper renumbers them within the cache); a token is evicted when "
           "the next is appended, so a query sees `recent` tokens, itself included",
           {.one_by_one_same = true, .evicts = true, .chunked_prompt = true, .formula = "StreamingLLM"})
