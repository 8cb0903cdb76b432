// fuzz_files --target NAME|all --cases N [--seed S] [--first N]: each case is one mutated file, which is read or
// refused with a clear kvc::Error in bounded time and memory. Anything else ends the target with the case's number and
// its file. The cases of "all" are shared out among the targets.
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <numeric>

#include "kvc/check.h"
#include "target.h"

namespace kvc_fuzz {

namespace fs = std::filesystem;

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

void promise(bool holds, const std::string& what) {
  if (!holds) throw BrokenPromise(what);
}

std::vector<Target> targets() {
  return {header_target(),      index_target(),   tokenizer_target(),  special_target(),  merges_target(),
          pieces_target(),      config_target(),  generation_target(), gguf_target(),     gguf_tokenizer_target(),
          experiment_target(),  task_target(),    chat_target(),       template_target(), dataset_target(),
          predictions_target(), lm_eval_target(), kvpress_target(),    database_target()};
}

namespace {

constexpr time_t kHangSeconds = 60;  // of the processor: a machine that is busy or paused is not a reader that hangs
constexpr double kSlowSeconds = 10;  // of the processor, one case, sanitized
constexpr size_t kLongestMessage = 4000;
constexpr int64_t kMostMemory = int64_t{1} << 30;  // resident, of the whole process

struct Arguments {
  std::string target = "all";
  uint64_t cases = 1000, seed = 1, first = 0;
};

struct Summary {
  uint64_t n_accepted = 0, n_refused = 0;
  double slowest_seconds = 0;
  uint64_t slowest_case = 0;
};

char at_work[512];  // what a handler of signals prints

void on_death(int signal) {
  const char* why = signal == SIGPROF ? "\nfuzz: a case does not end: " : "\nfuzz: a case crashed: ";
  if (write(2, why, std::strlen(why)) < 0 || write(2, at_work, std::strlen(at_work)) < 0) _exit(3);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// SIGPROF after so many seconds of the processor; 0: never.
void set_timer(time_t seconds) {
  const itimerval timer{{0, 0}, {seconds, 0}};
  setitimer(ITIMER_PROF, &timer, nullptr);
}

int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

// One line of readable text that names a file.
void check_message(const std::string& message, const fs::path& dir) {
  promise(message.size() <= kLongestMessage, "an error of " + std::to_string(message.size()) + " bytes");
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
  promise(std::none_of(message.begin(), message.end(), is_control), "an error with control characters: " + message);
  promise(message.find(dir.string()) != std::string::npos || message.starts_with("tokenizer:"),
          "an error that names no file: " + message);
}

Summary run(const Target& target, const Arguments& arguments, const fs::path& dir) {
  Summary summary;
  target.prepare(dir);
  for (uint64_t i = arguments.first; i < arguments.first + arguments.cases; ++i) {
    std::snprintf(at_work, sizeof at_work, "--target %s --seed %lu --first %lu --cases 1, the file is in %s\n",
                  target.name, arguments.seed, i, dir.c_str());
    set_timer(kHangSeconds);
    Mutator mutator(arguments.seed, i, target.words);
    target.write(dir, mutator.mutate(target.seeds), mutator);
    const std::clock_t start = std::clock();
    try {
      target.read(dir);
      ++summary.n_accepted;
    } catch (const kvc::Error& error) {
      check_message(error.what(), dir);
      ++summary.n_refused;
    }
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    promise(seconds < kSlowSeconds, "a case of " + std::to_string(seconds) + " s");
    promise(peak_bytes() < kMostMemory, "a peak of " + std::to_string(peak_bytes()) + " bytes");
    if (seconds > summary.slowest_seconds) summary.slowest_seconds = seconds, summary.slowest_case = i;
  }
  set_timer(0);
  return summary;
}

void print(const Target& target, const Arguments& arguments, const Summary& summary, double seconds) {
  std::printf(
      "%s: seed %lu, %lu cases, %lu accepted, %lu refused, 0 failures, %.1f s, slowest %.3f s (case %lu), "
      "peak %ld MiB\n",
      target.name, arguments.seed, arguments.cases, summary.n_accepted, summary.n_refused, seconds,
      summary.slowest_seconds, summary.slowest_case, peak_bytes() >> 20);
}

int fuzz(const Target& target, const Arguments& arguments) {
  const fs::path base = fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
  const auto dir = base / kvc::concat("kvc_fuzz_", getpid(), "_", target.name);
  fs::create_directory(dir);
  const auto start = std::chrono::steady_clock::now();
  try {
    const auto summary = run(target, arguments, dir);
    print(target, arguments, summary, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz: %s\nfuzz: %s", error.what(), at_work);
    return 1;
  }
  fs::remove_all(dir);
  return 0;
}

// Each in a process of its own, so that the death of one does not keep the others from their cases.
int fuzz_all(Arguments arguments) {
  const auto all = targets();
  const auto add = [](uint64_t sum, const Target& target) { return sum + target.share; };
  const uint64_t shares = std::accumulate(all.begin(), all.end(), uint64_t{0}, add), cases = arguments.cases;
  bool failed = false;
  for (const auto& target : all) {
    arguments.cases = cases * target.share / shares;
    const pid_t child = fork();
    if (child == 0) std::exit(fuzz(target, arguments));
    int status = 0;
    failed |= waitpid(child, &status, 0) != child || status != 0;
  }
  return failed ? 1 : 0;
}

int fuzz(const Arguments& arguments) {
  if (arguments.target == "all") return fuzz_all(arguments);
  for (const auto& target : targets()) {
    if (arguments.target == target.name) return fuzz(target, arguments);
  }
  std::fprintf(stderr, "fuzz: no target '%s'\n", arguments.target.c_str());
  return 2;
}

}  // namespace
}  // namespace kvc_fuzz

int main(int argc, char** argv) {
  kvc_fuzz::Arguments arguments;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--target") arguments.target = argv[i + 1];
    if (name == "--cases") arguments.cases = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--seed") arguments.seed = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--first") arguments.first = std::strtoull(argv[i + 1], nullptr, 10);
  }
  for (const int signal : {SIGPROF, SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, kvc_fuzz::on_death);
  return kvc_fuzz::fuzz(arguments);
}
