// Exact fp16 tokens, and what `how` says: to the process at every token, else at the first one after the prompt or
// where `where` says; worker: in a worker's constructor alone. Beside it, each a plugin of its own: throws, crashes,
// segfaults, exits, hangs, hides_bytes, keeps_views, shares_state, takes_nan, not_repeatable, wrong_attention,
// breaks_promises, refuses_late, wrong_abi, ...
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <fcntl.h>
#include <pmmintrin.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cfenv>
#include <chrono>
#include <clocale>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <locale>
#include <new>
#include <thread>

#include "exact_cache.h"

namespace {

struct Options {
  std::string how = "hangs", where = "append";
  void visit(kvc::OptionVisitor& v) {
    v.choice("how", how,
             {"hangs",
              "stops_itself",
              "forks_and_hangs",
              "writes_garbage",
              "writes_a_forged_answer",
              "writes_answers_of_others",
              "says_that_all_is_done",
              "closes_its_socket",
              "leaves_a_daemon",
              "leaves_a_daemon_of_its_worker",
              "leaves_a_chain_of_daemons",
              "reads_stdin",
              "throws_an_int",
              "throws_no_text",
              "throws_5_mb",
              "attends_nan",
              "attends_another_shape",
              "attends_nothing",
              "says_a_longer_length",
              "says_2_to_60_encoded",
              "exits_0",
              "aborts",
              "segfaults",
              "ignores_signals",
              "allocates_without_end",
              "leaks",
              "keeps_a_table",
              "writes_past_its_tensor",
              "footprint_negative",
              "bits_nan",
              "changes_inputs",
              "changes_q",
              "changes_rounding",
              "flushes_denormals",
              "changes_bf16",
              "changes_threads",
              "changes_seed",
              "changes_default_dtype",
              "disables_grad_mode",
              "opens_inference_mode",
              "changes_locale",
              "changes_directory",
              "changes_environment",
              "floods_stdout",
              "opens_files",
              "opens_a_file_once"},
             "what it does");
    v.choice("where", where, {"append", "footprint", "destructor", "worker"},
             "in which function it throws, or ends the process");
  }
};

void sleep_for_good() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

void write_to_parent(const std::string& line) {
  for (int fd = 3; fd < 1024; ++fd) ::send(fd, line.data(), line.size(), MSG_NOSIGNAL);
  sleep_for_good();
}

// Answers to the first jobs, for each compressor: well formed, and all ok.
std::string answers_of_others() {
  std::string lines;
  for (int job = 0; job < 8; ++job) {
    for (int compressor = 0; compressor < 4; ++compressor) {
      lines +=
          "{\"job\":" + std::to_string(job) + ",\"compressor\":" + std::to_string(compressor) +
          ",\"answer\":{\"generate\":{\"text\":\"\",\"stop_reason\":\"limit\",\"ids\":[],\"bytes\":[],\"stages\":[],"
          "\"measured\":{";
      for (const char* name : {"n_prompt_tokens",
                               "n_prompt_tokens_before",
                               "n_reused_tokens",
                               "n_new_tokens",
                               "kv_bytes",
                               "kv_bytes_fp16",
                               "paper_bytes",
                               "n_encoded_tokens",
                               "n_encoded_numbers",
                               "recent_bytes",
                               "k_error",
                               "v_error",
                               "peak_weights_bytes",
                               "peak_kv_bytes",
                               "peak_workspace_bytes",
                               "peak_bytes",
                               "peak_other_bytes",
                               "prefill_seconds",
                               "encode_seconds",
                               "attend_seconds",
                               "other_seconds"}) {
        lines += std::string("\"") + name + "\":1,";
      }
      lines.back() = '}';
      lines += "}}}\n";
    }
  }
  return lines;
}

// In no group and session of its parents, and with none of their files; adds a byte to the file KVC_TEST_MARK names
// each 50 ms, or in a chain once, after which another one goes on.
void leave_daemon(bool of_worker, bool as_chain) {
  const char* mark = std::getenv("KVC_TEST_MARK");
  if (!mark) return;
  if (::fork() != 0) return;
  ::setsid();
  if (!of_worker && ::fork() != 0) ::_exit(0);
  ::close_range(0, ~0U, 0);
  for (int i = 0; i < 20'000; ++i) {
    const int file = ::open(mark, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (::write(file, "x", 1) != 1) ::_exit(1);
    ::close(file);
    if (as_chain ? ::fork() != 0 : ::usleep(50'000) != 0) ::_exit(0);
    if (as_chain) ::setsid(), ::usleep(500);
  }
  ::_exit(0);
}

void do_it(const std::string& how) {
  if (how == "hangs") sleep_for_good();
  if (how == "stops_itself") ::raise(SIGSTOP);
  if (how == "forks_and_hangs") {
    if (::fork() == 0) sleep_for_good();
    ::_exit(0);
  }
  if (how == "writes_garbage") write_to_parent("what is this?\n");
  if (how == "writes_a_forged_answer") write_to_parent("{\"job\": 123456789, \"compressor\": 0}\n");
  if (how == "writes_answers_of_others") write_to_parent(answers_of_others());
  if (how == "says_that_all_is_done") {
    std::string lines;
    for (int job = 0; job < 8; ++job) lines += "{\"done\":" + std::to_string(job) + "}\n";
    write_to_parent(lines + "{\"ready\":false,\"error\":\"\"}\n");
  }
  static bool has_left = false;
  if (how.starts_with("leaves_a_") && !has_left) {
    has_left = true;
    leave_daemon(how == "leaves_a_daemon_of_its_worker", how == "leaves_a_chain_of_daemons");
  }
  if (how == "closes_its_socket") {
    for (int fd = 3; fd < 1024; ++fd) ::close(fd);
    sleep_for_good();
  }
  if (char byte; how == "reads_stdin" && ::read(0, &byte, 1) != 0) sleep_for_good();
  if (how == "throws_an_int") throw 42;
  if (how == "throws_no_text") throw std::runtime_error("");
  if (how == "throws_5_mb") {
    std::string text = "five megabytes";
    while (text.size() < 5'000'000) text += "\x1b[31m, \r\b\x01 and\n";
    throw std::runtime_error(text);
  }
  volatile int* volatile nowhere = nullptr;
  if (how == "exits_0") std::exit(0);
  if (how == "aborts") std::abort();
  if (how == "segfaults") *nowhere = 1;
  if (how == "ignores_signals") {
    ::signal(SIGTERM, SIG_IGN);
    ::signal(SIGSEGV, [](int) {});
    *nowhere = 1;  // again and again
  }
  if (how == "allocates_without_end") {
    std::vector<at::Tensor> held;
    while (held.size() < 4096) held.push_back(at::empty({64 << 20}, at::kByte));  // 256 GB, never touched
    throw std::bad_alloc();
  }
  if (how == "writes_past_its_tensor") at::zeros({16}, at::kFloat).mutable_data_ptr<float>()[16] = 1;
}

struct Commas final : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\1"; }
};

// What the process, or its thread, is left with.
void change_process(const std::string& how) {
  if (how == "changes_rounding") std::fesetround(FE_UPWARD);
  if (how == "flushes_denormals") _mm_setcsr(_mm_getcsr() | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
  if (how == "changes_bf16") at::globalContext().setFloat32MatmulPrecision("medium");
  if (how == "changes_threads") at::set_num_threads(3);
  if (how == "changes_seed") at::manual_seed(7), std::srand(7);
  if (how == "changes_default_dtype") c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
  if (how == "disables_grad_mode") c10::GradMode::set_enabled(!c10::GradMode::is_enabled());
  if (how == "opens_inference_mode") new c10::InferenceMode(!c10::InferenceMode::is_enabled());
  if (how == "changes_locale") {
    std::locale::global(std::locale(std::locale(), new Commas));
    for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8"}) {
      if (std::setlocale(LC_ALL, name)) break;
    }
  }
  if (how == "changes_directory" && ::chdir("/") != 0) throw kvc::Error("no root");
  if (how == "changes_environment") ::clearenv();
  if (how == "floods_stdout") std::puts(std::string(1 << 20, 'x').c_str());
  for (int i = 0; i < 10 && how == "opens_files"; ++i) ::open("/dev/null", O_RDONLY);
  static int n_calls = 0;
  if (how == "opens_a_file_once" && ++n_calls == 12) {  // with memory that is too much, once
    ::open("/dev/null", O_RDONLY);
    static const std::vector<char> kept(8 << 20, 'x');
  }
}

class MisbehavingCache final : public test_plugins::ExactCache {
 public:
  MisbehavingCache(const kvc::LayerInfo& info, const Options& options) : ExactCache(info), options_(options) {}
  ~MisbehavingCache() override {
    at_place("destructor");
    if (does("leaks")) new kvc::TokenBlocks(k_);  // holds the same tensors
  }
  void append(const kvc::NewTokens& tokens) override {
    if (options_.where != "worker") change_process(options_.how);
    if (length_ > 0) at_place("append");
    if (does("changes_inputs")) tokens.k.add_(1);
    k_.push_back(tokens.k);  // unchecked: the check would ask length()
    v_.push_back(tokens.v);
    if (does("keeps_a_table")) static const std::vector<char> table(48 << 10);  // of all sequences, as libraries do
    length_ += tokens.k.size(1);
  }
  at::Tensor attend(const at::Tensor& q, double scale) const override {
    auto attended = ExactCache::attend(q, scale);
    if (does("attends_nan") && info().layer + 1 == info().n_layers)
      attended.fill_(std::numeric_limits<float>::quiet_NaN());
    if (does("attends_another_shape")) return attended.narrow(2, 0, 1);
    if (does("attends_nothing")) return {};
    if (does("changes_q")) q.add_(1);
    return attended;
  }
  int64_t length() const override { return does("says_a_longer_length") ? 10 * length_ : length_; }
  int64_t n_encoded_tokens() const override { return does("says_2_to_60_encoded") ? int64_t{1} << 60 : 0; }
  kvc::Footprint footprint() const override {
    at_place("footprint");
    auto bytes = ExactCache::footprint();
    if (does("footprint_negative")) {
      const auto small = at::zeros({1}, at::kByte);
      small.storage().unsafeGetStorageImpl()->set_nbytes(std::numeric_limits<size_t>::max() - (1 << 20));
      bytes.add(kvc::CacheTensor::k, kvc::ByteKind::codes, small);
    }
    return bytes;
  }

 private:
  bool does(const char* how) const { return options_.how == how; }
  void at_place(const char* where) const {
    if (options_.where == where) do_it(options_.how);
  }
  Options options_;
  int64_t length_ = 0;
};

bool in_worker() {
  std::ifstream arguments("/proc/self/cmdline");
  return std::string(std::istreambuf_iterator<char>(arguments), {}).find("worker") != std::string::npos;
}

class Misbehaving final : public kvc::Compressor {
 public:
  explicit Misbehaving(const Options& options) : options_(options) {
    if (options.where != "worker" || !in_worker()) return;  // it opens as an honest one
    do_it(options.how);
    change_process(options.how);
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<MisbehavingCache>(info, options_);
  }
  double bits() const override { return options_.how == "bits_nan" ? std::numeric_limits<double>::quiet_NaN() : 16; }
  double paper_bytes(const kvc::ModelShape&, int64_t, int64_t) const override {
    return std::numeric_limits<double>::infinity();
  }

 private:
  Options options_;
};

}  // namespace

KVC_PLUGIN(Options, Misbehaving, "misbehaves", "does what no plugin should", "none", "none", {.lossy = false})
