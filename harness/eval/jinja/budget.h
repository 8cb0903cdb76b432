// What a template may take: steps, bytes, depth. Templates come with models of strangers.
#pragma once

#include <cstdint>
#include <string>

#include "kvc/check.h"

namespace kvc::jinja {

constexpr int kMaxNesting = 100;    // of parentheses and blocks in the text, of values in values
constexpr int kMaxNodeDepth = 250;  // of an expression, such as a sum of as many terms
constexpr int kMaxCallDepth = 400;  // of expressions and blocks under way at once, macros included
constexpr int64_t kMaxSteps = 3'000'000;
constexpr int64_t kMaxBytes = 32 << 20;  // of all texts and lists made, plus kBytesPerInput per byte of input
constexpr int64_t kBytesPerInput = 48;

// One rendering.
class Run {
 public:
  explicit Run(int64_t n_input_bytes) : bytes_left_(kMaxBytes + kBytesPerInput * n_input_bytes) {
    steps_left_ += n_input_bytes;
  }

  void step(int64_t n = 1) { KVC_CHECK((steps_left_ -= n) >= 0, "the template takes more than ", kMaxSteps, " steps"); }
  void take(size_t n_bytes) {
    KVC_CHECK(n_bytes <= static_cast<size_t>(bytes_left_), "the template makes more than ", kMaxBytes >> 20,
              " MiB of text");
    bytes_left_ -= static_cast<int64_t>(n_bytes);
    step(static_cast<int64_t>(n_bytes >> 8));
  }

  int line = 0;   // of the template, where it is now
  int depth = 0;  // of what is under way

 private:
  int64_t steps_left_ = kMaxSteps, bytes_left_;
};

// Text that grows on the budget.
class Builder {
 public:
  explicit Builder(Run& run) : run_(run) {}
  Builder& operator<<(std::string_view text) {
    run_.take(text.size());
    text_ += text;
    return *this;
  }
  std::string finish() { return std::move(text_); }
  const std::string& text() const { return text_; }

 private:
  Run& run_;
  std::string text_;
};

// Counts one level while it lives.
class Level {
 public:
  Level(int& depth, int most) : depth_(depth) {
    KVC_CHECK(depth < most, "the template nests deeper than ", most, " levels");
    ++depth_;
  }
  ~Level() { --depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  int& depth_;
};

}  // namespace kvc::jinja
