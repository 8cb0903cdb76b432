// One timed run: a prompt's prefill and its encoding for each sequence of a batch, then decoding them together.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "generate/batch_attention.h"
#include "model/transformer.h"
#include "sandbox/memory_meter.h"
#include "wire/bench_messages.h"

namespace kvc {

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

// Tensors it makes are charged to the meter, its inputs to account kBenchInputs.
constexpr int kBenchInputs = MemoryMeter::kPrefix;  // all sequences have the same
std::unique_ptr<BenchBody> make_bench_body(const BenchSubject& subject, MemoryMeter& meter);

// Throws what the compressor throws, and what of its bytes and (with_audit: of its answers, may_evict: which may be of
// some of the tokens) does not fit. at_step is called before each step of the caches of a layer.
BenchResult run_bench_point(
    BenchBody& body, const Compressor& compressor, const BenchPoint& point, MemoryMeter& meter, bool with_audit = false,
    const std::function<void()>& at_step = [] {}, bool may_evict = true);

}  // namespace kvc
