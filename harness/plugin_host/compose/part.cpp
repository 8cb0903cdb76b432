#include "compose/part.h"

#include <chrono>

namespace kvc {
namespace {

// Adds the time until its end.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_;
};

void move_time(StageUse& from, StageUse& to, double encode_seconds, double attend_seconds) {
  from.encode_seconds -= encode_seconds;
  from.attend_seconds -= attend_seconds;
  to.encode_seconds += encode_seconds;
  to.attend_seconds += attend_seconds;
}

}  // namespace

PartCache::PartCache(int first_stage, std::unique_ptr<LayerCache> cache)
    : first_stage_(first_stage),
      cache_(std::move(cache)),
      composed_(dynamic_cast<const ComposedCache*>(cache_.get())) {}
PartCache::PartCache(PartCache&&) noexcept = default;
PartCache::~PartCache() = default;

int64_t PartCache::droppable(int64_t n_tokens) const {
  const auto* drops = dynamic_cast<const DropsTokens*>(cache_.get());
  return drops ? drops->droppable(n_tokens) : 0;
}

void PartCache::drop_oldest(int64_t n_tokens) {
  if (auto* drops = dynamic_cast<DropsTokens*>(cache_.get())) drops->drop_oldest(n_tokens);
}

void PartCache::append(const NewTokens& tokens) {
  const Stopwatch watch(encode_seconds_);
  cache_->append(tokens);
}

at::Tensor PartCache::attend(const at::Tensor& q, double scale) const {
  const Stopwatch watch(attend_seconds_);
  return cache_->attend(q, scale);
}

KeyValue PartCache::gather(Gather what) const {
  if (composed_) return composed_->gather(what);
  if (what == Gather::held) return cache_->dequantize();
  const Stopwatch watch(attend_seconds_);
  return what == Gather::attended ? cache_->attended() : cache_->dequantize();
}

void PartCache::add_to(std::vector<StageUse>& uses) const {
  if (!composed_) {
    auto& use = uses[static_cast<size_t>(first_stage_)];
    use.bytes.add(cache_->footprint());
    move_time(uses[0], use, encode_seconds_, attend_seconds_);
    return;
  }
  const auto inner = composed_->stages();
  uses[0].bytes.add(inner[0].bytes);
  for (size_t i = 1; i < inner.size(); ++i) {
    auto& use = uses[static_cast<size_t>(first_stage_) + i - 1];
    use.bytes.add(inner[i].bytes);
    move_time(uses[0], use, inner[i].encode_seconds, inner[i].attend_seconds);
  }
}

void ComposedCache::append(const NewTokens& tokens) {
  const Stopwatch watch(encode_seconds_);
  append_parts(tokens);
}

at::Tensor ComposedCache::attend(const at::Tensor& q, double scale) const {
  const Stopwatch watch(attend_seconds_);
  return attend_parts(q, scale);
}

LayerCache& ComposedCache::prompt() { throw Error(concat("layer ", layer(), ": the prompt has no cache of one part")); }

KeyValue ComposedCache::attended() const {
  const Stopwatch watch(attend_seconds_);
  return gather(Gather::attended);
}

at::Tensor ComposedCache::attend_parts(const at::Tensor& q, double scale) const {
  return reference_attention(attended_query(q), gather(Gather::attended), positions(), length(), scale, info());
}

std::vector<StageUse> ComposedCache::stages() const {
  std::vector<StageUse> uses(static_cast<size_t>(n_stages_) + 1);
  uses[0].encode_seconds = encode_seconds_;
  uses[0].attend_seconds = attend_seconds_;
  add_parts(uses);
  return uses;
}

Footprint ComposedCache::footprint() const {
  Footprint bytes;
  for (const auto& use : stages()) bytes.add(use.bytes);
  return bytes;
}

}  // namespace kvc
