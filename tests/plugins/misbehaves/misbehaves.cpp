// Exact fp16 tokens until the first token after the prompt, where it does what `how` says.
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <limits>
#include <thread>

#include "exact_cache.h"

namespace {

struct Options {
  std::string how = "hangs";
  void visit(kvc::OptionVisitor& v) {
    v.choice("how", how,
             {"hangs", "stops_itself", "forks_and_hangs", "writes_garbage", "writes_a_forged_answer",
              "closes_its_socket", "reads_stdin", "throws_an_int", "throws_no_text", "attends_nan",
              "attends_another_shape", "attends_nothing", "says_a_longer_length", "says_2_to_60_encoded"},
             "what it does");
  }
};

void sleep_for_good() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

void write_to_parent(const std::string& line) {
  for (int fd = 3; fd < 64; ++fd) ::send(fd, line.data(), line.size(), MSG_NOSIGNAL);
  sleep_for_good();
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
  if (how == "closes_its_socket") {
    for (int fd = 3; fd < 64; ++fd) ::close(fd);
    sleep_for_good();
  }
  if (char byte; how == "reads_stdin" && ::read(0, &byte, 1) != 0) sleep_for_good();
  if (how == "throws_an_int") throw 42;
  if (how == "throws_no_text") throw std::runtime_error("");
}

class MisbehavingCache final : public test_plugins::ExactCache {
 public:
  MisbehavingCache(const kvc::LayerInfo& info, const std::string& how) : ExactCache(info), how_(how) {}
  void append(const kvc::NewTokens& tokens) override {
    if (length_ > 0) do_it(how_);
    k_.push_back(tokens.k);  // unchecked: the check would ask length()
    v_.push_back(tokens.v);
    length_ += tokens.k.size(1);
  }
  at::Tensor attend(const at::Tensor& q, double scale) const override {
    auto attended = ExactCache::attend(q, scale);
    if (how_ == "attends_nan" && info().layer + 1 == info().n_layers)
      attended.fill_(std::numeric_limits<float>::quiet_NaN());
    if (how_ == "attends_another_shape") return attended.narrow(2, 0, 1);
    if (how_ == "attends_nothing") return {};
    return attended;
  }
  int64_t length() const override { return how_ == "says_a_longer_length" ? 10 * length_ : length_; }
  int64_t n_encoded_tokens() const override { return how_ == "says_2_to_60_encoded" ? int64_t{1} << 60 : 0; }

 private:
  std::string how_;
  int64_t length_ = 0;
};

class Misbehaving final : public kvc::Compressor {
 public:
  explicit Misbehaving(const Options& options) : how_(options.how) {}
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<MisbehavingCache>(info, how_);
  }
  double bits() const override { return 16; }
  double paper_bytes(const kvc::ModelShape&, int64_t, int64_t) const override {
    return std::numeric_limits<double>::infinity();
  }

 private:
  std::string how_;
};

}  // namespace

KVC_PLUGIN(Options, Misbehaving, "misbehaves", "does what no plugin should", "none", "none", {.lossy = false})
