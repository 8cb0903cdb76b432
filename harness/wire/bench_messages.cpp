#include "wire/bench_messages.h"

namespace kvc {

KVC_DEFINE_JSON(BenchSetUp, bench, compressor, counts)
KVC_DEFINE_JSON(CountJob, n_count_tokens)
KVC_DEFINE_JSON(HeldBytes, tensor, kind, bytes)
KVC_DEFINE_JSON(KernelWork, kernel, launches, multiply_adds, products)
KVC_DEFINE_JSON(StepCount, held, kernels, n_layers, n_filled, operator_share)
KVC_DEFINE_JSON(BenchJob, point, n_warmups, n_repeats, limit_bytes)
KVC_DEFINE_JSON(PhaseSeconds, prefill, encode, attend, other, encode_parts, attend_parts)
KVC_DEFINE_JSON(MemorySplit, weights, kv, workspace, other)
KVC_DEFINE_JSON(BenchResult, seconds, memory, read_seconds)

}  // namespace kvc
