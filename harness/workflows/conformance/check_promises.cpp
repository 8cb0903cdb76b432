// Bits and promises: what a cache holds, and that it holds the same whenever it should.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <thread>

#include "conformance/filled_cache.h"

namespace kvc::conformance {
namespace {

// What the option `bits` may be, ascending, of fewer bits than exact storage has; none without that option.
std::vector<int64_t> bits_below_16(const PluginLibrary& plugin) {
  std::vector<int64_t> choices;
  for (const auto& option : plugin.describe_options()) {
    if (option.name != "bits") continue;
    std::istringstream allowed(option.allowed);  // "2, 4, 8"
    for (std::string word; std::getline(allowed, word, ',');) {
      const int64_t bits = std::atoll(word.c_str());
      if (bits > 0 && bits < 16) choices.push_back(bits);
    }
  }
  std::sort(choices.begin(), choices.end());
  return choices;
}

// One of two sequences of one compressor, from its prompt to its last step.
struct Sequence {
  KeyValue held;
  at::Tensor attention;
  std::exception_ptr thrown;

  void run(const Compressor& compressor, const ModelShape& model, int which) try {
    at::set_num_threads(1);  // of this thread: sums in one order
    const auto input = ordinary_input(model, 160, static_cast<uint64_t>(11 + which));
    const auto cache = compressor.make_cache(info_of(model, 0, static_cast<uint64_t>(which)));
    fill(compressor, *cache, input, 100);
    held = cache->dequantize();
    attention = cache->attend(input.q.narrow(1, 159, 1), model.attention_scale);
  } catch (...) {
    thrown = std::current_exception();
  }
};

}  // namespace

Outcome same_input_gives_same_bits(const Subject& subject) {
  Outcome outcome;
  const auto input = ordinary_input(subject.model, 180);
  const auto one = filled(subject, input, 140), other = filled(subject, input, 140);
  const auto q = input.q.narrow(1, 179, 1);
  expect(equal(one.cache->dequantize(), other.cache->dequantize()), "two caches of the same tokens differ", outcome);
  expect(at::equal(one.cache->attend(q, 0.1), other.cache->attend(q, 0.1)), "attention differs between equal caches",
         outcome);
  expect(at::equal(one.cache->attend(q, 0.1), one.cache->attend(q, 0.1)), "attention differs when repeated", outcome);
  return outcome;
}

Outcome two_threads_do_not_mix(const Subject& subject) {
  Outcome outcome;
  const auto compressor = make_compressor(subject);
  frequencies_of(subject.model);  // made before there are two threads
  const int n_threads = at::get_num_threads();
  Sequence alone[2];
  for (int i : {0, 1}) std::thread([&, i] { alone[i].run(*compressor, subject.model, i); }).join();
  for (int round = 0; round < 3 && outcome.complaints.empty(); ++round) {
    Sequence together[2];
    std::barrier start(2);
    const auto run = [&](int i) {
      start.arrive_and_wait();
      together[i].run(*compressor, subject.model, i);
    };
    std::thread other(run, 1);
    run(0);
    other.join();
    for (int i : {0, 1}) {
      for (const auto& thrown : {alone[i].thrown, together[i].thrown}) {
        if (thrown) std::rethrow_exception(thrown);
      }
      expect(equal(alone[i].held, together[i].held) && at::equal(alone[i].attention, together[i].attention),
             concat("sequence ", i, " differs when another thread fills a cache of the same compressor"), outcome);
    }
  }
  at::set_num_threads(n_threads);
  return outcome;
}

// Compared after one more token, since a decode step may leave its encoding to the next append.
Outcome one_by_one_equals_at_once(const Subject& subject) {
  Outcome outcome;
  if (!subject.plugin.descriptor().capabilities.one_by_one_same) return {.not_applicable = "not promised"};
  for (const int64_t n : {33, 64, 129, 257}) {
    const auto input = ordinary_input(subject.model, n);
    const auto at_once = filled(subject, input, n - 1), one_by_one = filled(subject, input, 1);
    expect(equal(at_once.cache->dequantize(), one_by_one.cache->dequantize()),
           concat("one by one differs from at once at ", n, " tokens"), outcome);
    expect(at_once.cache->footprint().total_bytes() == one_by_one.cache->footprint().total_bytes(),
           concat("bytes of one by one and at once differ at ", n, " tokens"), outcome);
  }
  return outcome;
}

Outcome prefix_is_local(const Subject& subject) {
  Outcome outcome;
  if (!subject.plugin.descriptor().capabilities.prefix_local) return {.not_applicable = "not promised"};
  const auto input = ordinary_input(subject.model, 200);
  const auto whole = filled(subject, input, 150).cache->dequantize();
  const auto prefix =
      filled(subject, {"prefix", input.q, input.k.narrow(1, 0, 90), input.v.narrow(1, 0, 90)}, 90).cache->dequantize();
  expect(at::equal(whole.k.narrow(1, 0, 90), prefix.k) && at::equal(whole.v.narrow(1, 0, 90), prefix.v),
         "what is stored for a prefix depends on the tokens after it", outcome);
  return outcome;
}

Outcome lossy_means_lossy(const Subject& subject) {
  Outcome outcome;
  const auto input = ordinary_input(subject.model, 400);
  const auto made = filled(subject, input, 380);
  const auto kv = made.cache->dequantize();
  const bool lossy = subject.plugin.descriptor().capabilities.lossy;
  const bool all_kept = kv.k.sizes() == input.k.sizes();
  const bool exact = all_kept && relative_error(kv.k, input.k) < 5e-3 && relative_error(kv.v, input.v) < 5e-3;
  expect(lossy || exact, "the plugin is declared lossless, but changes K or V", outcome);
  expect(!lossy || made.cache->n_encoded_tokens() > 0, "nothing is compressed after 400 tokens", outcome);
  const auto is_exact = [](const at::Tensor& x, const at::Tensor& given) {
    return at::equal(x, given.to(at::kHalf).to(at::kFloat));
  };
  expect(!lossy || !all_kept || !is_exact(kv.k, input.k) || !is_exact(kv.v, input.v),
         "the plugin is declared lossy, but returns exact keys and values", outcome);
  const double share =
      static_cast<double>(made.cache->footprint().total_bytes()) / static_cast<double>(4 * input.k.numel());
  outcome.notes.push_back(concat(
      "400 tokens take ", std::round(1000 * share) / 10, " % of 16-bit storage",
      all_kept ? concat("; relative error of K ", relative_error(kv.k, input.k), ", V ", relative_error(kv.v, input.v))
               : concat("; ", kv.k.size(1), " tokens are kept")));
  return outcome;
}

// An error where bits() rises with the option, as the plugin then says that its codes get finer; a note elsewhere.
Outcome error_falls_as_bits_rise(const Subject& subject) {
  Outcome outcome;
  const auto with_bits = [&](int64_t bits) {
    auto options = subject.options;
    options["bits"] = bits;
    return options;
  };
  auto choices = bits_below_16(subject.plugin);
  std::erase_if(choices, [&](int64_t bits) {  // not with these options, or not for this model
    return refuses([&] { subject.plugin.make(with_bits(bits))->check_model(subject.model); });
  });
  if (choices.size() < 2) return {.not_applicable = "no option 'bits' with two listed values below 16"};
  std::vector<double> stated;
  for (const int64_t bits : choices) stated.push_back(subject.plugin.make(with_bits(bits))->bits());
  if (stated.front() == 16 && stated.back() == 16) return {.not_applicable = "another option turns quantization off"};
  const bool rises = std::adjacent_find(stated.begin(), stated.end(), std::greater_equal<>()) == stated.end();

  const auto input = ordinary_input(subject.model, 400);  // of which a lossy method has encoded some
  double last_k = INFINITY, last_v = INFINITY;
  for (const int64_t bits : choices) {
    const auto kv = filled({subject.plugin, with_bits(bits), subject.model}, input, 380).cache->dequantize();
    const double k = relative_error(kv.k, input.k), v = relative_error(kv.v, input.v);
    if (k >= last_k || v >= last_v) {
      (rises ? outcome.complaints : outcome.notes)
          .push_back(concat("error of K, V at ", bits, " bits is ", k, ", ", v, ", before ", last_k, ", ", last_v));
    }
    last_k = k, last_v = v;
  }
  return outcome;
}

}  // namespace kvc::conformance
