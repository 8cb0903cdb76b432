#include "host/serve_host.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <link.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "contract/stopwatch.h"
#include "hosted/contain.h"
#include "hosted/futex.h"
#include "hosted/message.h"
#include "hosted/shape_json.h"
#include "hosted/shared_memory.h"
#include "kvc/joint_prefill.h"
#include "kvc/probed_parts.h"
#include "kvc/split_attention.h"
#include "plugin_loader/plugin_library.h"
#include "sandbox/private_tokens.h"
#include "sandbox/sandboxed_call.h"
#include "text/json.h"
#include "text/message.h"

namespace kvc {
namespace {

using nlohmann::json;
using protocol::bits_of;
using protocol::double_of;
using protocol::Operation;
using protocol::Received;

constexpr size_t kCopiedBytes = 64 << 10;  // of an answer's tensor that is copied at most
constexpr double kSecondsToWait = 60;      // for a request, until it looks again

size_t size_of(int fd) {
  struct stat about {};
  KVC_CHECK(::fstat(fd, &about) == 0, "descriptor ", fd, " is not open");
  return static_cast<size_t>(about.st_size);
}

// The dynamic linker, as this program names it.
std::string dynamic_linker() {
  std::string path;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_INTERP) continue;
          *static_cast<std::string*>(to) = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
        }
        return 1;  // the program is the first
      },
      &path);
  return path;
}

// Where the libraries lie that the plugin links: the linker lists them without running code of theirs.
void add_linked_folders(const std::string& plugin, std::set<std::string>& folders) {
  std::string quoted;
  for (const char c : plugin) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  const std::unique_ptr<FILE, int (*)(FILE*)> listed(
      ::popen(concat(dynamic_linker(), " --list '", quoted, "' 2>/dev/null").c_str(), "re"), &::pclose);
  if (!listed) return;
  char line[4096];
  while (std::fgets(line, sizeof line, listed.get())) {  // "\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x...)"
    const std::string_view text(line);
    const auto from = text.find("=> /"), to = text.rfind(" (0x");
    if (from == text.npos || to == text.npos || to < from) continue;
    folders.insert(std::filesystem::path(text.substr(from + 3, to - from - 3)).parent_path());
  }
}

// Where the libraries that are loaded lie, and those that a plugin may need.
std::set<std::string> library_folders() {
  std::set<std::string> folders{
      "/lib",          "/lib64",     "/usr/lib",           "/usr/local/lib", "/etc/ld.so.cache",
      "/proc/cpuinfo", "/proc/self", "/sys/devices/system"};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        const std::filesystem::path file = info->dlpi_name;
        if (file.has_parent_path()) static_cast<std::set<std::string>*>(to)->insert(file.parent_path());
        return 0;
      },
      &folders);
  return folders;
}

// What a call gives back.
struct Reply {
  std::vector<int64_t> numbers = {};
  std::vector<at::Tensor> tensors = {};
  std::string text = {};
};

class Host {
 public:
  Host()
      : control_(protocol::kControlFd, protocol::kControlBytes, SharedMemory::Access::read_and_write),
        inputs_(protocol::kInputsFd, size_of(protocol::kInputsFd), SharedMemory::Access::read_only),
        outputs_(protocol::kOutputsFd, size_of(protocol::kOutputsFd), SharedMemory::Access::read_and_write) {
    shared_ = meter_.take_account();
  }

  [[noreturn]] void serve() {
    auto& control = this->control();
    for (uint32_t next = 1;; ++next) {
      while (control.asked != next) futex_wait(control.asked, next - 1, kSecondsToWait);
      answer(protocol::read_message(control_.bytes().data() + protocol::kRequestAt, inputs_.bytes().size()));
      if (ended_ >= 0) meter_.return_account(std::exchange(ended_, -1));
      control.answered = next;
      futex_wake(control.answered);
    }
  }

 private:
  // A cache, and whose it is.
  struct Made {
    std::unique_ptr<LayerCache> cache;
    int64_t sequence;
    std::list<std::vector<float>>::iterator frequencies;
  };
  struct Sequence {
    int account;
    int64_t n_caches = 0;
  };

  protocol::Control& control() { return *reinterpret_cast<protocol::Control*>(control_.bytes().data()); }

  void answer(const Received& asked) {
    asked_ = &asked;
    Reply reply;
    reply.numbers.reserve(8), reply.tensors.reserve(8);  // here, and not in the plugin's name
    std::string error;
    auto status = protocol::Status::done;
    try {
      error = handle(static_cast<Operation>(asked.head.operation), reply);
    } catch (...) {
      error = thrown();
    }
    if (error == kOutOfMemory) status = protocol::Status::out_of_memory;
    if (!error.empty()) {
      if (status == protocol::Status::done) status = protocol::Status::failed;
      reply = {{}, {}, error};
    }
    send(reply, status);
  }

  void send(Reply& reply, protocol::Status status) {
    const MemoryMeter::Scope own(meter_, MemoryMeter::kUnseen);
    auto* to = control_.bytes().data() + protocol::kAnswerAt;
    protocol::Message head{asked_->head.operation, static_cast<uint32_t>(status), 0, 0, {}};
    std::copy(reply.numbers.begin(), reply.numbers.end(), head.numbers.begin());
    try {
      protocol::write_message(head, reply.tensors, reply.text, outputs_.bytes(), to);
    } catch (const Error& e) {
      head.status = static_cast<uint32_t>(protocol::Status::failed);
      protocol::write_message(head, {}, e.what(), outputs_.bytes(), to);
    }
    reply = {};  // so that it is not held
    put_held(reinterpret_cast<protocol::Message*>(to)->numbers);
  }

  void put_held(std::array<int64_t, 14>& numbers) const {
    if (account_ >= 0) {
      const auto held = meter_.held_bytes(account_);
      numbers[protocol::kHeldTensors] = held.tensors, numbers[protocol::kHeldCount] = held.n_tensors;
      numbers[protocol::kHeldElse] = held.beside_tensors;
      numbers[protocol::kHeldPeak] = meter_.peak_bytes(account_);
    }
    const auto shared = meter_.held_bytes(shared_);
    numbers[protocol::kSharedTensors] = shared.tensors, numbers[protocol::kSharedCount] = shared.n_tensors;
    numbers[protocol::kSharedElse] = shared.beside_tensors;
  }

  int64_t number(size_t i) const { return asked_->head.numbers.at(i); }
  json text() const { return json::parse(asked_->text); }
  size_t n_tensors() const { return asked_->places.size(); }
  at::Tensor view(size_t i) const { return protocol::tensor_at(asked_->places.at(i), inputs_.bytes().data()); }
  // A copy, which the plugin may do with as it likes.
  at::Tensor tensor(size_t i) const {
    const auto given = view(i);
    return given.defined() ? given.clone() : given;
  }
  LayerCache& cache(int64_t number) const {
    const auto found = caches_.find(number);
    KVC_CHECK(found != caches_.end(), "there is no cache ", number);
    return *found->second.cache;
  }

  // Charged to what all caches share. Files may be read, as the stage of containment says.
  template <class Body>
  std::string shared(const Body& body) {
    account_ = -1;
    std::string error;
    const HostState before;
    try {
      const MemoryMeter::Scope scope(meter_, shared_);
      body();
    } catch (...) {
      error = thrown();
    }
    ledger::forget_opened(shared_);
    const auto changed = before.put_back();
    return error.empty() && !changed.empty() ? concat("the compressor left ", changed, " changed when it was made")
                                             : error;
  }

  // Charged to the sequence of the cache with number 0's value; body gets the cache.
  std::string of_cache(const std::function<void(LayerCache&)>& body) {
    auto& found = cache(number(0));
    account_ = sequences_.at(caches_.at(number(0)).sequence).account;
    const auto mode = number(protocol::kInspecting) != 0 ? CallMode::inspecting : CallMode::plain;
    return sandboxed_call(meter_, account_, mode, [&] { body(found); });
  }

  // A copy that is the harness's, where that is cheap: what the plugin made is freed in its own name.
  void make_own(at::Tensor& x) {
    if (!x.defined() || x.nbytes() > kCopiedBytes) return;
    at::Tensor copy;
    {
      const MemoryMeter::Scope own(meter_, MemoryMeter::kUnseen);
      copy = x.clone();
    }
    x = std::move(copy);
  }

  std::string handle(Operation operation, Reply& reply) {
    const MemoryMeter::Scope own(meter_, MemoryMeter::kUnseen);
    switch (operation) {
      case Operation::describe:
        return describe(reply);
      case Operation::create:
        return create(reply);
      case Operation::check_model:
        return shared([&] { compressor_->check_model(text().get<ModelShape>()); });
      case Operation::contain:
        contain(Stage::computing, reinterpret_cast<uint32_t*>(&control().refused));
        return "";
      case Operation::paper_bytes:
        return shared([&] {
          reply.numbers = {bits_of(compressor_->paper_bytes(text().get<ModelShape>(), number(0), number(1)))};
        });
      case Operation::make_cache:
        return make_cache(reply);
      case Operation::drop_cache:
        return drop_cache();
      case Operation::append:
        return append();
      case Operation::step:
        return step(reply);
      case Operation::observe:
        return observe();
      case Operation::finish_prefill:
        return finish_prefill_of_all();
      case Operation::load_calibration:
        return load_calibration();
      case Operation::make_calibrator:
        return shared([&] { calibrator_ = calibrated().make_calibrator(text().get<ModelShape>()); });
      case Operation::observe_text:
        return observe_text();
      case Operation::finish_calibrator:
        return finish_calibrator(reply);
      case Operation::settle:
        copies_ = {};
        ::malloc_trim(0);
        return "";
      default:
        return of_cache([&](LayerCache& cache) {
          ask(operation, cache, reply);
          for (auto& x : reply.tensors) make_own(x);
        });
    }
  }

  // What is asked of a cache.
  void ask(Operation operation, LayerCache& cache, Reply& reply) {
    const auto input = [&](size_t i) {
      const MemoryMeter::Scope own(meter_, MemoryMeter::kUnseen);
      return tensor(i);
    };
    const auto key_value = [&](const KeyValue& kv) { reply.tensors = {kv.k, kv.v}; };
    switch (operation) {
      case Operation::attend:
        reply.tensors = {cache.attend(input(0), double_of(number(1)))};
        KVC_CHECK(reply.tensors[0].defined(), "attend gave no tensor");
        break;
      case Operation::dequantize:
        return key_value(cache.dequantize());
      case Operation::attended:
        return key_value(cache.attended());
      case Operation::answer: {
        const auto q = input(0), query = cache.attended_query(q);
        const auto attended = cache.attended(), nearest = cache.dequantize();
        reply.tensors = {cache.positions(), attended.k, attended.v};
        const bool is_same = same(nearest, attended), is_same_query = query.is_same(q);
        if (!is_same || !is_same_query) reply.tensors.resize(5);
        if (!is_same) reply.tensors[3] = nearest.k, reply.tensors[4] = nearest.v;
        if (!is_same_query) reply.tensors.push_back(query);
        reply.text = rows_of(cache.footprint());
        break;
      }
      case Operation::attended_query: {
        const auto q = input(0), query = cache.attended_query(q);
        if (!query.is_same(q)) reply.tensors = {query};
        break;
      }
      case Operation::positions:
        reply.tensors = {cache.positions()};
        break;
      case Operation::counts:
        reply.numbers = {cache.length(), cache.n_encoded_tokens(), cache.n_encoded_numbers()};
        break;
      case Operation::footprint:
        reply.text = rows_of(cache.footprint());
        break;
      case Operation::droppable: {
        const auto* drops = dynamic_cast<const DropsTokens*>(&cache);
        reply.numbers = {drops ? drops->droppable(number(1)) : 0};
        break;
      }
      case Operation::drop_oldest:
        if (auto* drops = dynamic_cast<DropsTokens*>(&cache)) drops->drop_oldest(number(1));
        break;
      case Operation::scores:
        reply.tensors = {dynamic_cast<const SplitAttention&>(cache).scores(input(0), double_of(number(1)))};
        break;
      case Operation::mix:
        reply.tensors = {dynamic_cast<const SplitAttention&>(cache).mix(input(0))};
        break;
      case Operation::probed_parts: {
        auto names = json::array();
        if (const auto* parted = dynamic_cast<const ProbedParts*>(&cache)) {
          for (const auto& part : parted->probed_parts()) {
            names.push_back(part.name);
            reply.tensors.push_back(part.values);
          }
        }
        reply.text = names.dump();
        break;
      }
      default:
        throw Error(concat("there is no operation ", static_cast<uint32_t>(operation)));
    }
  }

  static bool same(const KeyValue& a, const KeyValue& b) {
    const auto equal = [](const at::Tensor& x, const at::Tensor& y) {
      return x.is_same(y) || (x.defined() && y.defined() && at::equal(x, y));
    };
    return equal(a.k, b.k) && equal(a.v, b.v);
  }

  std::string rows_of(const Footprint& footprint) {
    const MemoryMeter::Scope own(meter_, MemoryMeter::kUnseen);
    auto rows = json::array();
    for (const auto& row : footprint.rows()) {
      rows.push_back({static_cast<int>(row.tensor), static_cast<int>(row.kind), row.bytes});
    }
    return rows.dump();
  }

  std::string describe(Reply& reply) {
    at::set_num_threads(static_cast<int>(std::max<int64_t>(1, number(0))));
    set_limits(number(1));
    if (number(1) > 0) ledger::set_limit(number(1));
    const auto what = text();
    const std::filesystem::path file = what.at("file").get<std::string>();
    auto readable = library_folders();
    add_linked_folders(file.string(), readable);
    readable.insert(file.parent_path());
    for (const auto& each : what.at("files")) readable.insert(each.get<std::string>());
    allow_reading({readable.begin(), readable.end()});
    contain(Stage::loading, reinterpret_cast<uint32_t*>(&control().refused));
    library_.emplace(file, what.at("sha256").get<std::string>());
    const auto& d = library_->descriptor();
    json said = {{"name", d.name},
                 {"summary", d.summary},
                 {"source", d.source},
                 {"deviations", d.deviations},
                 {"capabilities", d.capabilities},
                 {"options", json::array()},
                 {"runtime", library_->runtime()}};
    for (const auto& option : library_->describe_options()) {
      said["options"].push_back({{"name", option.name},
                                 {"type", option.type},
                                 {"default", option.default_value},
                                 {"allowed", option.allowed},
                                 {"help", option.help}});
    }
    reply.text = said.dump();
    return "";
  }

  std::string create(Reply& reply) {
    const auto options = text().at("options");
    json said = {{"attends", true}, {"steps", true}, {"calibration_file", ""}, {"calibrated_options", json::array()}};
    auto error = shared([&] {
      compressor_.reset();  // of one before, whose caches are gone
      json resolved;
      compressor_ = library_.value().make(options, &resolved);
      const MemoryMeter::Scope own(meter_, MemoryMeter::kUnseen);
      said["resolved"] = resolved;
      said["bits"] = compressor_->bits();
    });
    if (!error.empty()) return error;
    meter_.set_shared_account(compressor_.get(), shared_);
    said["joint"] = dynamic_cast<const JointPrefill*>(compressor_.get()) != nullptr;
    if (const auto* pass = dynamic_cast<const ObservationPass*>(compressor_.get())) {
      const auto asked = pass->observation();
      said["observation"] = {{"before_first", asked.before_first},
                             {"before_next", asked.before_next},
                             {"before_chunk", asked.before_chunk},
                             {"chunk_tokens", asked.chunk_tokens},
                             {"lead_in_tokens", asked.lead_in_tokens}};
    }
    if (const auto* method = dynamic_cast<const Calibrated*>(compressor_.get())) {
      said["calibration_file"] = method->calibration_file();
      said["calibrated_options"] = method->calibrated_options();
    }
    reply.text = said.dump();
    return "";
  }

  Calibrated& calibrated() const { return dynamic_cast<Calibrated&>(*compressor_); }

  std::string load_calibration() {
    const auto said = text();
    NamedTensors tensors;
    for (size_t i = 0; i < n_tensors(); ++i) tensors[said.at("names").at(i)] = tensor(i);
    return shared([&] { calibrated().load(said.at("model").get<ModelShape>(), tensors); });
  }

  std::string observe_text() {
    auto info = text().get<LayerInfo>();
    frequencies_.push_back(frequencies(0));
    info.rope_frequencies = frequencies_.back();
    const CalibrationTokens tokens{tensor(1), tensor(2), tensor(3), tensor(4), tensor(5)};
    return shared([&] { calibrator_->observe(info, tokens); });
  }

  std::string finish_calibrator(Reply& reply) {
    return shared([&] {
      auto names = json::array();
      for (const auto& [name, tensor] : calibrator_->finish()) {
        names.push_back(name);
        reply.tensors.push_back(tensor);
      }
      calibrator_.reset();
      reply.text = names.dump();
    });
  }

  std::vector<float> frequencies(size_t i) const {
    const auto given = tensor(i);
    if (!given.defined()) return {};
    return {given.const_data_ptr<float>(), given.const_data_ptr<float>() + given.numel()};
  }

  std::string make_cache(Reply& reply) {
    auto info = text().get<LayerInfo>();
    const auto own_frequencies = frequencies_.insert(frequencies_.end(), frequencies(0));
    info.rope_frequencies = *own_frequencies;
    info.sinks = tensor(1);
    const int64_t name = number(0);
    auto found = sequences_.find(name);
    if (found == sequences_.end()) {
      found = sequences_.emplace(name, Sequence{meter_.take_account()}).first;
      meter_.share(found->second.account, compressor_.get());
      meter_.reset(found->second.account);
    }
    auto& sequence = found->second;
    account_ = sequence.account;
    std::unique_ptr<LayerCache> cache;
    const auto error = sandboxed_call(meter_, account_, CallMode::plain, [&] {
      cache = compressor_->make_cache(info);
      KVC_CHECK(cache, "make_cache gave none");
    });
    if (!error.empty()) {
      frequencies_.erase(own_frequencies);
      if (sequence.n_caches == 0) end_sequence(found);
      return error;
    }
    reply.numbers = {next_cache_, dynamic_cast<const SplitAttention*>(cache.get()) != nullptr};
    caches_[next_cache_++] = {std::move(cache), name, own_frequencies};
    ++sequence.n_caches;
    return "";
  }

  // Its account is returned after the answer, which says what it holds still: what a returned one holds is forgotten.
  void end_sequence(std::map<int64_t, Sequence>::iterator sequence) {
    ended_ = sequence->second.account;
    sequences_.erase(sequence);
  }

  std::string drop_cache() {
    const auto error = of_cache([&](LayerCache&) { caches_.at(number(0)).cache.reset(); });
    const auto made = caches_.find(number(0));
    const auto sequence = sequences_.find(made->second.sequence);
    frequencies_.erase(made->second.frequencies);
    caches_.erase(made);
    if (--sequence->second.n_caches == 0) end_sequence(sequence);
    return error;
  }

  std::string append() {
    const NewTokens given{view(0), view(1), view(2), number(1), static_cast<AppendKind>(number(2))};
    const auto& tokens = copies_.copy_in(given);
    const auto error = of_cache([&](LayerCache& cache) {
      cache.append(tokens);
      copies_.reclaim();
    });
    copies_.invalidate();
    return error;
  }

  // For each cache a row of the table: whether it failed, seconds of encoding and of attention, what its sequence holds.
  std::string step(Reply& reply) {
    const auto caches = tensor(0);
    const auto n = caches.size(0);
    const auto* named = caches.const_data_ptr<int64_t>();
    auto table = at::zeros({n, protocol::kStepColumns}, at::kDouble);
    auto errors = json::array();
    reply.tensors = {table};
    bool failed = false;
    for (int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(1 + 3 * i);
      auto* row = table.data_ptr<double>() + protocol::kStepColumns * i;
      at::Tensor attention;
      const auto error =
          step_one(named[2 * i], {tensor(at), view(at + 1), view(at + 2), named[2 * i + 1], AppendKind::decoded},
                   double_of(number(0)), row, attention);
      failed |= !error.empty();
      row[protocol::kFailed] = error.empty() ? 0 : 1;
      errors.push_back(error);
      reply.tensors.push_back(attention);
    }
    if (failed) reply.text = errors.dump(-1, ' ', false, json::error_handler_t::replace);
    return "";
  }

  std::string step_one(int64_t number, const NewTokens& given, double scale, double* row, at::Tensor& attention) {
    auto& found = cache(number);
    account_ = sequences_.at(caches_.at(number).sequence).account;
    const auto& tokens = copies_.copy_in(given);
    const auto start = Clock::now();
    auto error = sandboxed_call(meter_, account_, CallMode::plain, [&] {
      found.append(tokens);
      copies_.reclaim();
    });
    row[protocol::kEncodeSeconds] = seconds_since(start);
    copies_.invalidate();
    if (error.empty()) {
      error = sandboxed_call(meter_, account_, CallMode::plain, [&] {
        attention = found.attend(given.q, scale);
        KVC_CHECK(attention.defined(), "attend gave no tensor");
        make_own(attention);
      });
    }
    row[protocol::kAttendSeconds] = seconds_since(start) - row[protocol::kEncodeSeconds];
    if (!error.empty()) attention.reset();
    const auto held = meter_.held_bytes(account_);
    row[protocol::kTensors] = static_cast<double>(held.tensors);
    row[protocol::kCount] = static_cast<double>(held.n_tensors);
    row[protocol::kElse] = static_cast<double>(held.beside_tensors);
    row[protocol::kPeak] = static_cast<double>(meter_.peak_bytes(account_));
    return error;
  }

  std::string observe() {
    const auto& tokens = copies_.copy_in({view(0), view(1), view(2), 0});
    const auto error = of_cache([&](LayerCache& cache) {
      const auto& pass = dynamic_cast<const ObservationPass&>(*compressor_);
      pass.observe(cache, {tokens.q, tokens.k, tokens.v, number(1), number(2)});
      copies_.reclaim();
    });
    copies_.invalidate();
    return error;
  }

  std::string finish_prefill_of_all() {
    const auto numbers = tensor(0);
    std::vector<LayerCache*> caches;
    for (int64_t i = 0; i < numbers.numel(); ++i) caches.push_back(&cache(numbers[i].item<int64_t>()));
    if (caches.empty()) return "";
    account_ = sequences_.at(caches_.at(numbers[0].item<int64_t>()).sequence).account;
    return sandboxed_call(meter_, account_, CallMode::plain, [&] { kvc::finish_prefill(*compressor_, caches); });
  }

  SharedMemory control_, inputs_, outputs_;
  MemoryMeter meter_;
  int shared_;        // account of what all caches share
  int account_ = -1;  // of the sequence that the call is about; -1: none
  int ended_ = -1;    // of a sequence that the call ended
  const Received* asked_ = nullptr;
  std::optional<PluginLibrary> library_;
  std::unique_ptr<Compressor> compressor_;
  std::unique_ptr<Calibrator> calibrator_;
  std::list<std::vector<float>> frequencies_;  // that caches point to
  std::map<int64_t, Sequence> sequences_;      // by the name that the harness gave them
  std::map<int64_t, Made> caches_;
  int64_t next_cache_ = 0;
  PrivateTokens copies_;
};

}  // namespace

void serve_host() {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  Host().serve();
}

}  // namespace kvc
