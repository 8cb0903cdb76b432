#include "model_lookup/window_text.h"

#include <algorithm>

#include "text/utf8.h"

namespace kvc {

std::string window_text(const ModelConfig& config, int64_t n_tokens) {
  const auto n_windows = std::count_if(config.layers.begin(), config.layers.end(),
                                       [](const auto& layer) { return layer.sliding_window > 0; });
  if (n_windows == 0) return "";
  const int64_t n_full = config.n_layers - n_windows, token_bytes = 4 * config.n_kv_heads * config.head_dim;
  const int64_t all = engine_bytes(config.shape(), n_tokens), full = token_bytes * n_full * n_tokens;
  return concat(n_windows, " of ", config.n_layers, " layers have a sliding window of ", config.sliding_window,
                " tokens; of ", n_tokens, " tokens an engine stores ", all, " bytes at 16 bits: ", all - full,
                " in these, ", full, " in the others (without windows: ", token_bytes * config.n_layers * n_tokens,
                ")");
}

}  // namespace kvc
