// What a cache holds and where: the allocator's count, the process's memory, and what its answers say.
#include <ATen/ATen.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "conformance/filled_cache.h"
#include "contract/stopwatch.h"
#include "hosted/hosted_compressor.h"
#include "hosted/kernel_watch.h"
#include "kvc/joint_prefill.h"
#include "sandbox/audit.h"
#include "sandbox/sandboxed_call.h"
#include "text/files.h"

namespace kvc::conformance {
namespace {

// Of a file of /proc: the number behind `name`; 0 where there is none.
int64_t number_in(const std::string& file, const std::string& name) {
  const auto text = read_file(file);
  const auto at = text.find(name);
  return at == std::string::npos ? 0 : std::atoll(text.c_str() + at + name.size());
}

// What of the process does not lie in its program's files.
struct Process {
  int64_t memory_bytes, written_bytes, n_files;
  bool has_children;

  static Process now() {
    ::malloc_trim(0);
    const auto files = std::filesystem::directory_iterator("/proc/self/fd");
    return {1024 * (number_in("/proc/self/status", "RssAnon:") + number_in("/proc/self/status", "RssShmem:")),
            number_in("/proc/self/io", "wchar:"), std::distance(begin(files), end(files)),
            !read_file("/proc/thread-self/children").empty()};
  }
};

}  // namespace

Outcome answers_come_from_what_is_held(const Subject& subject) {
  Outcome outcome;
  constexpr int64_t kPrompt = 200, kTokens = 260;
  constexpr double kBitsGranted = 0.5;  // the tokens are Gaussian
  const auto compressor = make_compressor(subject);
  const auto input = ordinary_input(subject.model, kTokens, 5);
  for (int64_t layer = 0; layer < subject.model.n_layers; ++layer) {
    const auto info = info_of(subject.model, layer, 7);
    const auto cache = compressor->make_cache(info);
    const auto prompt = tokens_of(input, 0, kPrompt);
    LayerAudit audit(std::make_shared<AuditedPrompt>(info, prompt.k, prompt.v, kBitsGranted),
                     subject.plugin.descriptor().capabilities.evicts);
    append_prompt(*compressor, *cache, prompt);
    audit.audit_prompt(*cache, prompt.q);
    for (int64_t t = kPrompt; t < kTokens; ++t) {
      const auto token = tokens_of(input, t, 1);
      append(*cache, token);
      audit.add(token.k, token.v);
      if (t % 7 != 0 && t > kPrompt + 2) continue;
      audit.compare(*cache, token.q, cache->attend(token.q, subject.model.attention_scale));
    }
  }
  return outcome;
}

// Over keys of random direction an unbiased estimate has on average as much of the key as the key itself; the nearest
// vectors have less.
Outcome estimates_are_unbiased(const Subject& subject) {
  Outcome outcome;
  auto input = ordinary_input(subject.model, 600, 6);
  input.k = input.q.narrow(0, 0, subject.model.n_kv_heads).clone();  // of no direction
  const auto made = filled(subject, input, 590);
  const auto held = made.cache->dequantize(), attended = made.cache->attended();
  if (equal(held, attended)) return {.not_applicable = "attended() is dequantize()"};
  expect(subject.plugin.descriptor().capabilities.estimates,
         "attended() is not dequantize(), but the plugin does not declare `estimates`", outcome);
  if (attended.k.size(1) != input.k.size(1)) return outcome;
  for (const bool is_k : {true, false}) {
    const auto &exact = is_k ? input.k : input.v, &estimate = is_k ? attended.k : attended.v;
    if (at::equal(estimate, is_k ? held.k : held.v)) continue;
    const auto shares = (estimate * exact).sum(2).div_((exact * exact).sum(2)).to(at::kDouble);
    const double mean = shares.mean().item<double>();
    const double error = shares.std().item<double>() / std::sqrt(static_cast<double>(shares.numel()));
    expect(std::abs(mean - 1) <= 4 * error + 0.02,
           concat("estimates of ", is_k ? "K" : "V", " have ", mean,
                  " of the exact vectors on average (standard error ", error, ")"),
           outcome);
  }
  return outcome;
}

Outcome footprint_equals_allocated_bytes(const Subject& subject) {
  Outcome outcome;
  const auto input = ordinary_input(subject.model, 200);
  for (const int64_t n_prompt : {1, 64, 130, 199}) {
    MemoryMeter meter;
    const int account = meter.take_account();
    const auto compressor = make_compressor(subject);  // what it holds for all is not a cache's
    std::vector<std::unique_ptr<LayerCache>> caches(1);
    const auto sandboxed = [&](auto body) {
      const auto error = sandboxed_call(meter, account, CallMode::plain, body);
      KVC_CHECK(error.empty(), error);
    };
    sandboxed([&] { caches[0] = make_cache(*compressor, subject); });
    int64_t n_encoded = 0;
    Footprint claimed;
    for (int64_t t = 0; t < input.k.size(1); t += t == 0 ? n_prompt : 1) {
      const auto tokens = tokens_of(input, t, t == 0 ? n_prompt : 1);
      sandboxed([&] { t == 0 ? append_prompt_alone(*compressor, *caches[0], tokens) : caches[0]->append(tokens); });
      const bool at_border = caches[0]->n_encoded_tokens() > n_encoded + 1;
      n_encoded = caches[0]->n_encoded_tokens();
      if (t % 7 != 0 && !at_border) continue;
      const int64_t live = meter.live_bytes(account);
      sandboxed([&] {
        claimed = caches[0]->footprint();
        const int64_t n_tokens = t + tokens.k.size(1);
        check_counts(*caches[0], n_tokens, 2 * n_tokens * subject.model.n_kv_heads * subject.model.head_dim);
      });
      const auto [least, most] = claimed.allocated();
      expect(least <= live && live <= most,
             concat("footprint() is ", claimed.total_bytes(), " bytes at ", t + tokens.k.size(1),
                    " tokens, the allocator holds ", live),
             outcome);
    }
    const auto held = meter.held_bytes(account);
    const auto error = destroy_caches(meter, account, caches, held, claimed.total_bytes());
    expect(error.empty(), error, outcome);
  }
  return outcome;
}

namespace {

// Of a compressor in a process of its own, that is given one sequence after another.
class HostGrowth {
 public:
  HostGrowth(const Subject& subject, const Compressor& compressor, const CountedByKernel& host)
      : subject_(subject), compressor_(compressor), host_(host), account_(meter_.take_account()) {
    fill_one();
    caches_.clear();
    fill_one();  // what libraries keep is there
  }

  // Sequences until they are as many as are judged, or for kSeconds. -> how the memory has grown too much, "": it has not
  std::string judged(Outcome& outcome) {
    constexpr double kSeconds = 10;
    constexpr int64_t kNoise = 1 << 20;
    const auto& model = subject_.model;
    const int64_t most =
        subject_.options.empty() && model.n_kv_heads * model.head_dim >= 128 ? kJudgedBytes : kJudgedBytes / 16;
    const auto first_claimed = claimed(), first_held = held();
    const auto first_n = caches_.size();
    const auto before = host_.count();
    const auto start = Clock::now();
    int64_t appended = 0;
    while (appended < most && seconds_since(start) < kSeconds) appended += fill_one();
    const auto after = host_.count();
    const int64_t grown = after.memory_bytes - before.memory_bytes;
    const auto n_caches = static_cast<int64_t>(caches_.size() - first_n);
    const int64_t allowed = allowed_growth(appended, n_caches) + (appended < kJudgedBytes ? kNoise : 0);
    expect(after.n_files <= before.n_files, concat(after.n_files - before.n_files, " more open files than before"),
           outcome);
    expect(after.n_processes == 0, concat("started ", after.n_processes, " processes"), outcome);
    if (grown <= held() - first_held + allowed) return "";
    return concat("footprint() is ", claimed() - first_claimed, " bytes in all after ", appended,
                  " bytes of K and V in ", n_caches, " sequences, the process has grown by ", grown,
                  " (allowed beyond: ", allowed, ")");
  }

 private:
  static constexpr int64_t kTokens = 4096;

  int64_t fill_one() {  // -> bytes of K and V at 16 bits
    const MemoryMeter::Scope scope(meter_, account_);
    caches_.push_back(make_cache(compressor_, subject_));
    fill(compressor_, *caches_.back(), input_, kTokens);
    return 4 * input_.k.numel();
  }
  // Tensors, and what LibTorch and the cache need for each, as it may be in a run.
  int64_t held() const {
    const auto now = meter_.held_bytes(account_);
    const auto n = static_cast<int64_t>(caches_.size());
    return now.tensors + std::min(now.beside_tensors, n * kBytesACache + now.n_tensors * kBytesATensor) +
           now.n_tensors * MemoryMeter::kAllocatorBytesATensor;
  }
  int64_t claimed() const {
    int64_t bytes = 0;
    for (const auto& cache : caches_) bytes += cache->footprint().total_bytes();
    return bytes;
  }

  const Subject& subject_;
  const Compressor& compressor_;
  const CountedByKernel& host_;
  MemoryMeter meter_;
  int account_;
  Input input_ = ordinary_input(subject_.model, kTokens + 4, 8);
  std::vector<std::unique_ptr<LayerCache>> caches_;
};

// Between two fillings with the same tokens: the first brings what libraries keep. -> as HostGrowth::judged
std::string growth_of_this_process(const Subject& subject, Outcome& outcome) {
  constexpr int64_t kNoise = 1 << 20;
  const int64_t n_tokens = subject.options.empty() ? 8192 : 2048;
  const auto input = ordinary_input(subject.model, n_tokens + 8, 8);
  filled(subject, input, n_tokens);
  const auto before = Process::now();
  const auto made = filled(subject, input, n_tokens);
  const auto after = Process::now();
  const int64_t claimed = made.cache->footprint().total_bytes(), grown = after.memory_bytes - before.memory_bytes;
  const int64_t written = after.written_bytes - before.written_bytes, n_files = after.n_files - before.n_files;
  expect(written <= kNoise / 16, concat("wrote ", written, " bytes while it compressed"), outcome);
  expect(n_files <= 0, concat(n_files, " more open files, sockets or similar than before"), outcome);
  expect(before.has_children || !after.has_children, "started a process", outcome);
  if (grown <= claimed + claimed / 20 + kNoise) return "";
  return concat("footprint() is ", claimed, " bytes at ", n_tokens + 8, " tokens, the process has grown by ", grown);
}

// Memory that grows too much once may be what a library keeps for a thread's first work: it does not grow again.
template <class Judged>
Outcome judged_twice(Judged judged) {
  Outcome outcome;
  if (judged(outcome).empty()) return outcome;
  const auto again = judged(outcome);
  expect(again.empty(), again, outcome);
  return outcome;
}

}  // namespace

Outcome process_grows_by_the_footprint(const Subject& subject) {
  if (ledger::is_guarded()) return {.not_applicable = "guard pages are memory, too"};
  if (!check_device().is_cpu()) return {.not_applicable = "a device's memory is not the process's"};
  if (!ledger::is_kept()) return {.not_applicable = "a sanitizer keeps what was freed"};
  const auto compressor = make_compressor(subject);
  if (const auto* host = dynamic_cast<const CountedByKernel*>(compressor.get())) {
    HostGrowth growth(subject, *compressor, *host);
    return judged_twice([&](Outcome& outcome) { return growth.judged(outcome); });
  }
  return judged_twice([&](Outcome& outcome) { return growth_of_this_process(subject, outcome); });
}

}  // namespace kvc::conformance
