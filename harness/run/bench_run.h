// One timed run: a prompt's prefill and its encoding for each sequence of a batch, then decoding them together.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "generate/batch_attention.h"
#include "generate/memory_meter.h"
#include "model/transformer.h"
#include "run/bench_experiment.h"

namespace kvc {

// Seconds of a run. Parts are what the compressor booked inside a phase (kvc/part_timer.h).
struct PhaseSeconds {
  double prefill = 0, encode = 0, attend = 0, other = 0;
  std::map<std::string, double> encode_parts, attend_parts;
  double total() const { return prefill + encode + attend + other; }
};

// The most that all tensors took at a time. kv is what the caches hold at the end, other the bench's own inputs,
// workspace the rest.
struct MemorySplit {
  int64_t weights = 0, kv = 0, workspace = 0, other = 0;
  int64_t peak() const { return weights + kv + workspace + other; }
};

struct BenchResult {
  PhaseSeconds seconds;
  MemorySplit memory;
};

// What a bench runs on.
class BenchBody {
 public:
  virtual ~BenchBody() = default;
  virtual ModelShape shape() const = 0;
  virtual LayerInfo layer_info(int64_t layer, uint64_t sequence_key) const = 0;
  virtual int64_t weights_bytes() const { return 0; }
  virtual int64_t max_tokens() const = 0;  // prompt and new ones
  // Makes the inputs of such a point; they live until the next call.
  virtual void prepare(const BenchPoint& point) = 0;
  virtual int64_t input_bytes() const { return 0; }
  virtual void prefill(const Transformer::OnLayer& on_layer) = 0;
  // Step i of decoding, for each sequence of the batch.
  virtual void decode_step(int64_t step, int64_t batch, const Transformer::AttendStep& attend) = 0;
};

// Tensors it makes are booked on the meter, its inputs on account kBenchInputs.
constexpr int kBenchInputs = MemoryMeter::kPrefix;  // all sequences have the same
constexpr int kFirstBenchSequence = MemoryMeter::kFirstOwn;
std::unique_ptr<BenchBody> make_bench_body(const BenchSubject& subject, MemoryMeter& meter);

// Throws what the compressor throws.
BenchResult run_bench_point(BenchBody& body, const Compressor& compressor, const BenchPoint& point,
                            const BenchSubject& subject, MemoryMeter& meter);

}  // namespace kvc
