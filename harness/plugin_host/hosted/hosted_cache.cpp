#include "hosted/hosted_cache.h"

#include <ATen/ATen.h>

#include <utility>

#include "kvc/compressor.h"
#include "kvc/probed_parts.h"
#include "kvc/split_attention.h"
#include "sandbox/audit.h"
#include "sandbox/memory_meter.h"
#include "sandbox/sandboxed_call.h"
#include "text/json.h"

namespace kvc {
namespace {

using nlohmann::json;
using protocol::bits_of;
using protocol::Operation;

MemoryMeter::Held held_in(const HostAnswer& answer) {
  return {answer.number(protocol::kHeldTensors), answer.number(protocol::kHeldCount),
          answer.number(protocol::kHeldElse)};
}

class HostedCache : public LayerCache, public DropsTokens, public ProbedParts, public AnswersAtOnce {
 public:
  HostedCache(const LayerInfo& info, std::shared_ptr<HostProcess> process, const Compressor* compressor,
              HostAbilities abilities, const HostAnswer& made)
      : LayerCache(info),
        process_(std::move(process)),
        compressor_(compressor),
        abilities_(abilities),
        number_(made.number(0)),
        account_(MemoryMeter::open_account()) {
    hold(made);
  }
  ~HostedCache() override {
    try {
      call({.operation = Operation::drop_cache, .numbers = {number_}});
    } catch (const std::exception& e) {  // its process has ended, and its memory with it
      fail_call(e.what());
      MemoryMeter::hold_elsewhere(account_, process_.get(), {}, 0);
    }
  }

  int64_t number() const { return number_; }
  bool steps() const { return abilities_.steps && abilities_.attends; }
  const std::shared_ptr<HostProcess>& process() const { return process_; }
  void hold(const HostAnswer& answer) const { hold(held_in(answer), answer.number(protocol::kHeldPeak)); }
  void hold(const MemoryMeter::Held& held, int64_t peak) const {
    MemoryMeter::hold_elsewhere(account_, process_.get(), held, peak);
  }

  void append(const NewTokens& tokens) override {
    call({.operation = Operation::append,
          .numbers = {number_, tokens.first_position, static_cast<int64_t>(tokens.kind)},
          .tensors = {tokens.q, tokens.k, tokens.v}});
  }

  at::Tensor attend(const at::Tensor& q, double scale) const override {
    if (!abilities_.attends) return LayerCache::attend(q, scale);
    return call({.operation = Operation::attend, .numbers = {number_, bits_of(scale)}, .tensors = {q}})
        .tensor(0, at::kFloat, q.sizes());
  }

  KeyValue dequantize() const override { return key_value(Operation::dequantize); }
  KeyValue attended() const override { return key_value(Operation::attended); }
  at::Tensor attended_query(const at::Tensor& q) const override {
    const auto answer = call({.operation = Operation::attended_query, .numbers = {number_}, .tensors = {q}});
    return answer.tensors.empty() ? q : answer.tensor(0, at::kFloat, q.sizes());
  }
  at::Tensor positions() const override {
    return call({.operation = Operation::positions, .numbers = {number_}})
        .tensor(0, at::kLong, {info().n_kv_heads, -1});
  }

  int64_t length() const override { return counts().number(0); }
  int64_t n_encoded_tokens() const override { return counts().number(1); }
  int64_t n_encoded_numbers() const override { return counts().number(2); }
  Footprint footprint() const override {
    return footprint_in(call({.operation = Operation::footprint, .numbers = {number_}}));
  }

  CacheAnswer answer(const at::Tensor& q) const override {
    const auto given = call({.operation = Operation::answer, .numbers = {number_}, .tensors = {q}});
    const auto has = [&](size_t i) { return i < given.tensors.size() && given.tensors[i].defined(); };
    const auto attended = key_value_in(given, 1);
    return {given.tensor(0, at::kLong, {info().n_kv_heads, -1}), attended, has(3) ? key_value_in(given, 3) : attended,
            has(5) ? given.tensor(5, at::kFloat, q.sizes()) : q, footprint_in(given)};
  }

  int64_t droppable(int64_t n_tokens) const override {
    return call({.operation = Operation::droppable, .numbers = {number_, n_tokens}}).number(0);
  }
  void drop_oldest(int64_t n_tokens) override {
    call({.operation = Operation::drop_oldest, .numbers = {number_, n_tokens}});
  }

  static Footprint footprint_in(const HostAnswer& answer) {
    Footprint footprint;
    const auto rows = try_json(answer.text);
    try {
      for (const auto& row : rows) {
        const auto tensor = row.at(0).get<int>(), kind = row.at(1).get<int>();
        const auto bytes = row.at(2).get<int64_t>();
        KVC_CHECK(tensor >= 0 && tensor <= static_cast<int>(CacheTensor::shared) && kind >= 0 &&
                      kind <= static_cast<int>(ByteKind::parameters) && bytes >= 0 && bytes < int64_t{1} << 50,
                  "footprint() has a row ", row.dump());
        footprint.add_bytes(static_cast<CacheTensor>(tensor), static_cast<ByteKind>(kind), bytes);
      }
    } catch (const json::exception& e) {
      throw Error(concat("footprint() gave a text that is not valid: ", e.what()));
    }
    return footprint;
  }

  std::vector<ProbedPart> probed_parts() const override {
    const auto answer = call({.operation = Operation::probed_parts, .numbers = {number_}});
    const auto names = try_json(answer.text);
    KVC_CHECK(names.is_array() && names.size() == answer.tensors.size(), "probed_parts() gave ", answer.tensors.size(),
              " tensors and the names ", answer.text.substr(0, 100));
    std::vector<ProbedPart> parts;
    for (size_t i = 0; i < answer.tensors.size(); ++i) {
      KVC_CHECK(names[i].is_string(), "probed_parts() gave the name ", names[i].dump());
      parts.push_back({names[i], answer.tensors[i]});
    }
    return parts;
  }

 protected:
  HostAnswer call(protocol::Request request) const {
    request.inspecting = MemoryMeter::ignores_peaks();
    auto answer = process_->call(request);
    hold(answer);
    hold_shared_elsewhere(compressor_, answer);
    return answer;
  }

 private:
  HostAnswer counts() const { return call({.operation = Operation::counts, .numbers = {number_}}); }

  KeyValue key_value(Operation operation) const {
    return key_value_in(call({.operation = operation, .numbers = {number_}}), 0);
  }
  KeyValue key_value_in(const HostAnswer& answer, size_t first) const {
    const auto rows = [&](size_t i, bool holds) {
      if (!holds) return at::Tensor();
      return answer.tensor(i, at::kFloat, {info().n_kv_heads, -1, info().head_dim});
    };
    return {rows(first, info().holds_k()), rows(first + 1, info().holds_v())};
  }

  std::shared_ptr<HostProcess> process_;
  const Compressor* compressor_;
  HostAbilities abilities_;
  int64_t number_;
  int account_;
};

class HostedSplitCache final : public HostedCache, public SplitAttention {
 public:
  using HostedCache::HostedCache;

  at::Tensor scores(const at::Tensor& q, double scale) const override {
    return call({.operation = Operation::scores, .numbers = {number(), bits_of(scale)}, .tensors = {q}})
        .tensor(0, at::kFloat, {q.size(0), q.size(1), -1});
  }
  at::Tensor mix(const at::Tensor& weights) const override {
    return call({.operation = Operation::mix, .numbers = {number()}, .tensors = {weights}})
        .tensor(0, at::kFloat, {weights.size(0), weights.size(1), info().head_dim});
  }
};

}  // namespace

std::unique_ptr<LayerCache> make_hosted_cache(const LayerInfo& info, std::shared_ptr<HostProcess> process,
                                              const Compressor* compressor, HostAbilities abilities,
                                              const HostAnswer& made) {
  const bool splits = made.number(1) != 0;
  if (splits) return std::make_unique<HostedSplitCache>(info, std::move(process), compressor, abilities, made);
  return std::make_unique<HostedCache>(info, std::move(process), compressor, abilities, made);
}

int64_t number_of(const LayerCache& cache) { return dynamic_cast<const HostedCache&>(cache).number(); }

void hold_elsewhere(const LayerCache& cache, const HostAnswer& answer) {
  dynamic_cast<const HostedCache&>(cache).hold(answer);
}

void hold_elsewhere(const LayerCache& cache, const MemoryMeter::Held& held, int64_t peak) {
  dynamic_cast<const HostedCache&>(cache).hold(held, peak);
}

std::shared_ptr<HostProcess> process_with_steps(const LayerCache& cache) {
  const auto* hosted = dynamic_cast<const HostedCache*>(&cache);
  return hosted && hosted->steps() ? hosted->process() : nullptr;
}

void hold_shared_elsewhere(const Compressor* compressor, const HostAnswer& answer) {
  MemoryMeter::hold_shared_elsewhere(compressor,
                                     {answer.number(protocol::kSharedTensors), answer.number(protocol::kSharedCount),
                                      answer.number(protocol::kSharedElse)});
}

}  // namespace kvc
