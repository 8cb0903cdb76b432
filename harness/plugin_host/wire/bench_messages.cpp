#include "wire/bench_messages.h"

namespace kvc {

KVC_DEFINE_JSON(BenchSetUp, bench, compressor)
KVC_DEFINE_JSON(BenchJob, point, n_warmups, n_repeats, limit_bytes)
KVC_DEFINE_JSON(PhaseSeconds, prefill, encode, attend, other, encode_parts, attend_parts)
KVC_DEFINE_JSON(MemorySplit, weights, kv, workspace, other)
KVC_DEFINE_JSON(BenchResult, seconds, memory, read_seconds)

}  // namespace kvc
