#include "hosted/hosted_compressor.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "hosted/hosted_cache.h"
#include "hosted/shape_json.h"
#include "sandbox/ledger.h"
#include "sandbox/memory_meter.h"
#include "text/json.h"

namespace kvc {
namespace {

using nlohmann::json;
using protocol::Operation;

json parsed(const HostAnswer& answer) {
  auto value = try_json(answer.text);
  KVC_CHECK(!value.is_discarded(), "the compressor's process gave a text that is no JSON");
  return value;
}

// Of a text that a host gave, whose fields may be missing or of another type.
template <class Read>
auto read_answer(const HostAnswer& answer, const Read& read) {
  const auto value = parsed(answer);
  try {
    return read(value);
  } catch (const json::exception& e) {
    throw Error(concat("the compressor's process gave a text that is not valid: ", e.what()));
  }
}

// Of a file that is opened already: its process, which has made nothing.
struct Opened {
  std::shared_ptr<HostProcess> process;
  json said;  // its description
};

// files: what it may read besides.
Opened open_plugin(const HostedPlugin& plugin, const json& files) {
  const ledger::Scope nobody(ledger::kNobody);  // the harness's own memory and descriptors
  Opened opened{HostProcess::start(plugin.python), {}};
  const json what = {{"file", plugin.file}, {"sha256", plugin.sha256}, {"files", files}};
  opened.said = parsed(opened.process->call({.operation = Operation::describe,
                                             .numbers = {at::get_num_threads(), HostProcess::memory_limit()},
                                             .text = what.dump()}));
  return opened;
}

// The process that described a plugin makes the first compressor of it, and when that is gone the next: an interpreter
// takes seconds to start. Of this process: a fork has none.
class Descriptions {
 public:
  static json of(const HostedPlugin& plugin) {
    const std::lock_guard lock(mutex_);
    auto& known = known_[key(plugin)];
    if (known.said.is_null()) {
      known = open_plugin(plugin, json::array());
      idle_of_ = ::getpid();
    }
    return known.said;
  }
  static std::shared_ptr<HostProcess> take_idle(const HostedPlugin& plugin) {
    const std::lock_guard lock(mutex_);
    if (idle_of_ != ::getpid()) return nullptr;
    const auto known = known_.find(key(plugin));
    return known == known_.end() ? nullptr : std::exchange(known->second.process, nullptr);
  }
  // Of a compressor that is gone.
  static void give_back(const HostedPlugin& plugin, std::shared_ptr<HostProcess> process) {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(key(plugin));
    if (idle_of_ == ::getpid() && known != known_.end() && !known->second.process) {
      known->second.process = std::move(process);
    }
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;
  static Key key(const HostedPlugin& plugin) { return {plugin.file, plugin.sha256, plugin.python}; }

  static inline std::mutex mutex_;
  static inline std::map<Key, Opened>& known_ =
      *new std::map<Key, Opened>;  // not destroyed: hosts end with this process
  static inline pid_t idle_of_ = -1;
};

// Texts among the options: one may name a file, which the plugin then reads.
json possible_files(const json& options) {
  auto files = json::array();
  for (const auto& [name, value] : options.items()) {
    if (value.is_string() && std::filesystem::is_regular_file(value.get_ref<const std::string&>()))
      files.push_back(value);
  }
  return files;
}

std::vector<float> floats_of(std::span<const float> values) { return {values.begin(), values.end()}; }

at::Tensor frequencies_tensor(std::span<const float> frequencies) {
  if (frequencies.empty()) return {};
  return at::tensor(floats_of(frequencies), at::kFloat);
}

// One calibration, in the process.
class HostedCalibrator final : public Calibrator {
 public:
  explicit HostedCalibrator(std::shared_ptr<HostProcess> process) : process_(std::move(process)) {}

  void observe(const LayerInfo& info, const CalibrationTokens& tokens) override {
    process_->call({.operation = Operation::observe_text,
                    .tensors = {frequencies_tensor(info.rope_frequencies), tokens.k, tokens.v, tokens.k_gradient,
                                tokens.v_gradient, tokens.q},
                    .text = json(info).dump()});
  }
  NamedTensors finish() override {
    const auto answer = process_->call({.operation = Operation::finish_calibrator});
    const auto names = read_answer(answer, [](const json& said) { return said.get<std::vector<std::string>>(); });
    KVC_CHECK(names.size() == answer.tensors.size(), "the compressor's process named ", names.size(),
              " tensors and gave ", answer.tensors.size());
    NamedTensors tensors;
    for (size_t i = 0; i < names.size(); ++i) tensors[names[i]] = answer.tensors[i];
    return tensors;
  }

 private:
  std::shared_ptr<HostProcess> process_;
};

// A process in which the compressor is made, and what it said of it.
struct Started {
  std::shared_ptr<HostProcess> process;
  HostAnswer answer;
  json made;
};

Started start(const HostedPlugin& plugin, const json& options) {
  const auto files = possible_files(options);
  Started started{files.empty() ? Descriptions::take_idle(plugin) : nullptr, {}, {}};
  if (!started.process) started.process = open_plugin(plugin, files).process;
  const ledger::Scope nobody(ledger::kNobody);
  started.answer = started.process->call({.operation = Operation::create, .text = json{{"options", options}}.dump()});
  started.made = parsed(started.answer);
  return started;
}

class HostedCompressor : public Compressor, public Calibrated, public CountedByKernel {
 public:
  HostedCompressor(HostedPlugin plugin, json options, const Started& started)
      : plugin_(std::move(plugin)),
        options_(std::move(options)),
        process_(started.process),
        made_(started.made),
        bits_(made_.at("bits").is_number() ? made_.at("bits").get<double>() : std::nan("")),
        abilities_{made_.at("attends"), made_.value("steps", false)} {
    hold_shared_elsewhere(this, started.answer);
  }
  ~HostedCompressor() override {
    hold_shared_elsewhere(this, {});
    if (process_.use_count() == 1 && !process_->has_ended() && possible_files(options_).empty()) {
      Descriptions::give_back(plugin_, std::move(process_));
    }
  }

  void check_model(const ModelShape& model) const override {
    call({.operation = Operation::check_model, .text = json(model).dump()});
  }

  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    KVC_CHECK(info.device.is_cpu(), "a compressor in a process of its own is on the CPU only, here it is ",
              info.device);
    if (process_->has_ended()) start_again();
    if (!std::exchange(process_->is_contained, true)) call({.operation = Operation::contain});
    const auto answer = call({.operation = Operation::make_cache,
                              .numbers = {MemoryMeter::open_account()},
                              .tensors = {frequencies_tensor(info.rope_frequencies), info.sinks},
                              .text = json(info).dump()});
    return make_hosted_cache(info, process_, this, abilities_, answer);
  }

  double bits() const override { return bits_; }

  double paper_bytes(const ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    try {
      return call({.operation = Operation::paper_bytes,
                   .numbers = {n_prompt_tokens, n_new_tokens},
                   .text = json(model).dump()})
          .real(0);
    } catch (const Error&) {  // no sample fails for it, if its process has died since
      return std::nan("");
    }
  }

  std::string calibration_file() const override { return made_.at("calibration_file"); }
  std::vector<std::string> calibrated_options() const override { return made_.at("calibrated_options"); }
  std::unique_ptr<Calibrator> make_calibrator(const ModelShape& model) const override {
    call({.operation = Operation::make_calibrator, .text = json(model).dump()});
    return std::make_unique<HostedCalibrator>(process_);
  }
  void load(const ModelShape& model, const NamedTensors& tensors) override {
    loaded_ = {model, tensors};
    send_calibration();
  }

  KernelCount count() const override {
    call({.operation = Operation::settle});
    return process_->count();
  }

 protected:
  HostAnswer call(const protocol::Request& request) const {
    auto answer = process_->call(request);
    hold_shared_elsewhere(this, answer);
    return answer;
  }
  const json& made() const { return made_; }

 private:
  void start_again() const {
    process_ = start(plugin_, options_).process;
    if (loaded_) send_calibration();
  }

  void send_calibration() const {
    protocol::Request request{.operation = Operation::load_calibration};
    json names = json::array();
    for (const auto& [name, tensor] : loaded_->second) {
      names.push_back(name);
      request.tensors.push_back(tensor);
    }
    request.text = json{{"model", loaded_->first}, {"names", names}}.dump();
    call(request);
  }

  HostedPlugin plugin_;
  json options_;
  mutable std::shared_ptr<HostProcess> process_;  // another one after it has died
  json made_;
  double bits_;
  HostAbilities abilities_;
  std::optional<std::pair<ModelShape, NamedTensors>> loaded_;
};

// One that acts after the prompt.
template <class Interface>
class HostedJoint : public HostedCompressor, public Interface {
 public:
  using HostedCompressor::HostedCompressor;

  void finish_prefill(std::span<LayerCache* const> caches) const override {
    std::vector<int64_t> numbers;
    for (const auto* cache : caches) numbers.push_back(number_of(*cache));
    const auto answer = call({.operation = Operation::finish_prefill, .tensors = {at::tensor(numbers, at::kLong)}});
    if (!caches.empty()) hold_elsewhere(*caches.front(), answer);
  }
};

class HostedObserver final : public HostedJoint<ObservationPass> {
 public:
  using HostedJoint::HostedJoint;

  Observation observation() const override {
    const auto& said = made().at("observation");
    return {said.at("before_first"), said.at("before_next"), said.at("before_chunk"), said.at("chunk_tokens"),
            said.at("lead_in_tokens")};
  }
  void observe(LayerCache& cache, const ObservedChunk& chunk) const override {
    const auto answer = call({.operation = Operation::observe,
                              .numbers = {number_of(cache), chunk.first_token, chunk.n_tokens},
                              .tensors = {chunk.q, chunk.k, chunk.prompt_k}});
    hold_elsewhere(cache, answer);
  }
};

}  // namespace

json describe_hosted(const HostedPlugin& plugin) { return Descriptions::of(plugin); }

std::unique_ptr<Compressor> make_hosted(const HostedPlugin& plugin, const json& options, json* resolved) {
  const auto started = start(plugin, options);
  const auto& made = started.made;
  try {
    if (resolved) *resolved = made.at("resolved");
    if (made.contains("observation")) return std::make_unique<HostedObserver>(plugin, options, started);
    if (made.at("joint")) return std::make_unique<HostedJoint<JointPrefill>>(plugin, options, started);
    return std::make_unique<HostedCompressor>(plugin, options, started);
  } catch (const json::exception& e) {
    throw Error(concat("the compressor's process gave a text that is not valid: ", e.what()));
  }
}

}  // namespace kvc
