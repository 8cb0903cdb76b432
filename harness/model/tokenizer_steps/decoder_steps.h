// The steps that decoders are made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer_steps/decoder.h"

namespace kvc {

using ChangeText = std::function<std::string(std::string text, bool is_first)>;

// Each token by itself.
class EachToken : public DecodeStep {
 public:
  explicit EachToken(ChangeText change) : change_(std::move(change)) {}
  void add(std::string token, std::vector<std::string>& out) override;

 private:
  ChangeText change_;
  bool is_first_ = true;
};

// All tokens as one text, which is known at the end only.
class WholeText : public DecodeStep {
 public:
  explicit WholeText(ChangeText change) : change_(std::move(change)) {}
  void add(std::string token, std::vector<std::string>&) override { text_ += token; }
  void finish(std::vector<std::string>& out) override { out.push_back(change_(std::move(text_), true)); }

 private:
  ChangeText change_;
  std::string text_;
};

// Bytes to text; U+FFFD for each broken part. Holds back a character that may not be complete yet.
class BytesToText : public DecodeStep {
 public:
  void add(std::string bytes, std::vector<std::string>& out) override;
  void finish(std::vector<std::string>& out) override;

 private:
  std::string held_;
};

// "<0xE2>" -> 0xE2, or -1
int byte_of(std::string_view token);

// Each run of byte tokens becomes its text, or one U+FFFD a byte where it is not UTF-8 as a whole (the rule of the
// tokenizers package): the run is held back until it ends or is broken.
class ByteRuns : public DecodeStep {
 public:
  void add(std::string token, std::vector<std::string>& out) override;
  void finish(std::vector<std::string>& out) override;

 private:
  std::string held_;
  size_t n_checked_ = 0;  // held bytes that are whole characters
  bool is_broken_ = false;
};

// Each run of byte tokens becomes its text, each byte that is not UTF-8 one U+FFFD (sentencepiece's rule).
class ByteCharacters : public DecodeStep {
 public:
  void add(std::string token, std::vector<std::string>& out) override;
  void finish(std::vector<std::string>& out) override;

 private:
  std::string held_;
};

// Of the whole text, so many signs at its start and at its end are dropped.
class StripEnds : public DecodeStep {
 public:
  StripEnds(std::string sign, int64_t at_start, int64_t at_end)
      : sign_(std::move(sign)), at_start_(at_start), at_end_(at_end) {}
  void add(std::string token, std::vector<std::string>& out) override;
  void finish(std::vector<std::string>& out) override;

 private:
  const std::string sign_;
  int64_t at_start_;  // that may still be dropped
  const int64_t at_end_;
  std::string held_;
};

// The text without so many signs at its start and at its end.
std::string strip_sign(std::string_view text, std::string_view sign, int64_t at_start, int64_t at_end);

}  // namespace kvc
