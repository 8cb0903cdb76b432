// throughput MODEL_DIR WORK.json PLUGIN.so: prompts through the generator, as many at a time as WORK says, with the
// uncompressed cache in the model's type. Prints one JSON object: ids, seconds, steps and the process's peak memory.
// WORK: {"dtype": "fp32", "threads": 2, "batch": 8, "shared": 0, "prompts": [[ids], ...], "new_tokens": [n, ...]}
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "contract/stopwatch.h"
#include "generate/generator.h"
#include "kvc/plugin.h"
#include "plugin_loader/plugin_library.h"
#include "text/files.h"
#include "worker/load_model.h"
#include "worker/read_memory.h"

namespace {

constexpr int64_t kReadBytes = 512 << 20;  // that no cache holds: the most that a step can hope for

// Highest resident memory of this program; getrusage would tell of the process that started it, too.
int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: throughput MODEL_DIR WORK.json PLUGIN.so\n"), 2;
  const auto work = nlohmann::json::parse(kvc::read_file(argv[2]));
  const auto dtype = work["dtype"].get<std::string>();
  at::set_num_threads(work["threads"].get<int>());
  kvc::MemoryMeter meter;
  const auto model = kvc::load_model(argv[1], dtype);
  const auto tokenizer = kvc::Tokenizer::load(argv[1]);
  const auto full = kvc::PluginLibrary(argv[3]).make({{"dtype", dtype}});
  kvc::Generator generator(model, tokenizer, meter);

  const auto prompts = work["prompts"].get<std::vector<std::vector<int64_t>>>();
  const auto new_tokens = work["new_tokens"].get<std::vector<int64_t>>();
  std::vector<std::vector<int64_t>> ids(prompts.size());
  std::vector<double> step_seconds;  // of full batches
  double prefill_seconds = 0, forward_seconds = 0, encode_seconds = 0, attend_seconds = 0, other_seconds = 0;
  const auto start = kvc::Clock::now();
  for (size_t next = 0; next < prompts.size() || generator.n_sequences() > 0;) {
    for (; next < prompts.size() && generator.n_sequences() < work["batch"].get<int64_t>(); ++next) {
      kvc::GenerationRequest request;
      request.prompt_ids = prompts[next];
      request.compressors = {full.get()};
      request.stop.max_new_tokens = new_tokens[next];
      request.n_shared_tokens = work["shared"];
      const auto begin = kvc::Clock::now();
      generator.add(std::move(request));
      prefill_seconds += kvc::seconds_since(begin);
    }
    const bool whole = generator.n_sequences() == work["batch"].get<int64_t>();
    const auto begin = kvc::Clock::now();
    auto finished = generator.step();
    if (whole && finished.empty()) step_seconds.push_back(kvc::seconds_since(begin));
    for (auto& one : finished) {
      forward_seconds += one.generation.prefill_seconds;  // without what the cache and its check cost
      encode_seconds += one.generation.encode_seconds;    // the prompts' included
      attend_seconds += one.generation.attend_seconds;
      other_seconds += one.generation.other_seconds;
      ids[static_cast<size_t>(one.ticket)] = std::move(one.generation.ids);
    }
  }
  const double seconds = kvc::seconds_since(start);
  const int64_t peak = peak_bytes();
  std::ranges::sort(step_seconds);
  const nlohmann::json result = {
      {"ids", ids},
      {"seconds", seconds},
      {"prefill_seconds", prefill_seconds},
      {"forward_seconds", forward_seconds},
      {"encode_seconds", encode_seconds},
      {"attend_seconds", attend_seconds},
      {"other_seconds", other_seconds},
      {"median_step_seconds", step_seconds.empty() ? 0 : step_seconds[step_seconds.size() / 2]},
      {"weights_bytes", model.weights_bytes()},
      {"peak_bytes", peak},
      {"read_bytes_per_second", static_cast<double>(kReadBytes) / kvc::MemoryReader().seconds(kReadBytes)}};
  std::printf("%s\n", result.dump().c_str());
}
