#include "tokenizer_steps/decoder_steps.h"

#include <charconv>
#include <utility>

#include "text/utf8.h"

namespace kvc {
namespace {

void append(std::string text, std::vector<std::string>& out) {
  if (!text.empty()) out.push_back(std::move(text));
}

std::string replacements(size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += "\uFFFD";
  return text;
}

}  // namespace

void EachToken::add(std::string token, std::vector<std::string>& out) {
  out.push_back(change_(std::move(token), is_first_));
  is_first_ = false;
}

void BytesToText::add(std::string bytes, std::vector<std::string>& out) {
  held_ += bytes;
  const size_t n = complete_utf8(held_);
  append(replace_broken_utf8(std::string_view(held_).substr(0, n)), out);
  held_.erase(0, n);
}

void BytesToText::finish(std::vector<std::string>& out) { append(replace_broken_utf8(held_), out); }

int byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with(">")) return -1;
  int byte = -1;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return error == std::errc() && end == token.data() + 5 ? byte : -1;
}

void ByteRuns::add(std::string token, std::vector<std::string>& out) {
  const int byte = byte_of(token);
  if (byte < 0) {
    finish(out);
    out.push_back(std::move(token));
    return;
  }
  held_ += static_cast<char>(byte);
  while (!is_broken_ && n_checked_ < held_.size()) {
    const auto rest = std::string_view(held_).substr(n_checked_);
    const auto point = next_code_point(rest, 0);
    if (!point.is_valid && complete_utf8(rest) == 0) return;  // not complete yet
    is_broken_ = !point.is_valid;
    n_checked_ += point.n_bytes;
  }
  if (is_broken_) append(replacements(std::exchange(held_, {}).size()), out);
}

void ByteRuns::finish(std::vector<std::string>& out) {
  const bool is_text = n_checked_ == held_.size();
  append(is_text ? std::move(held_) : replacements(held_.size()), out);
  *this = {};
}

void ByteCharacters::add(std::string token, std::vector<std::string>& out) {
  const int byte = byte_of(token);
  if (byte < 0) {
    finish(out);
    out.push_back(std::move(token));
    return;
  }
  held_ += static_cast<char>(byte);
  while (!held_.empty() && complete_utf8(held_) > 0) {
    const auto point = next_or_byte(held_, 0);
    append(point.is_valid ? held_.substr(0, point.n_bytes) : replacements(1), out);
    held_.erase(0, point.n_bytes);
  }
}

void ByteCharacters::finish(std::vector<std::string>& out) {  // held: the start of a character
  append(replacements(std::exchange(held_, {}).size()), out);
}

std::string strip_sign(std::string_view text, std::string_view sign, int64_t at_start, int64_t at_end) {
  if (sign.empty()) return std::string(text);
  for (int64_t i = 0; i < at_start && text.starts_with(sign); ++i) text.remove_prefix(sign.size());
  for (int64_t i = 0; i < at_end && text.ends_with(sign); ++i) text.remove_suffix(sign.size());
  return std::string(text);
}

void StripEnds::add(std::string token, std::vector<std::string>& out) {
  held_ += token;
  size_t n_gone = 0;
  for (; at_start_ > 0 && std::string_view(held_).substr(n_gone).starts_with(sign_); --at_start_)
    n_gone += sign_.size();
  held_.erase(0, n_gone);
  if (at_start_ > 0 && sign_.starts_with(held_)) return;  // the sign's first bytes, or nothing yet
  at_start_ = 0;
  const size_t may_go = sign_.size() * static_cast<size_t>(at_end_);
  size_t n = held_.size() > may_go ? held_.size() - may_go : 0;
  if (may_go > 0) n = complete_utf8(std::string_view(held_).substr(0, n));
  append(held_.substr(0, n), out);
  held_.erase(0, n);
}

void StripEnds::finish(std::vector<std::string>& out) { append(strip_sign(held_, sign_, 0, at_end_), out); }

}  // namespace kvc
