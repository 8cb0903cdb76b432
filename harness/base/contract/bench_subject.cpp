#include "contract/bench_subject.h"

namespace kvc {

KVC_DEFINE_JSON(BenchSubject, model, config, n_heads, n_kv_heads, head_dim, outlier_channels, outlier_factor, prefill,
                dtype, weights, device, threads, seed)
KVC_DEFINE_JSON(BenchPoint, n_prompt_tokens, n_new_tokens, batch)

}  // namespace kvc
