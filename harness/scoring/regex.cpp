#define PCRE2_CODE_UNIT_WIDTH 8
#include "scoring/regex.h"

#include <pcre2.h>

#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr uint32_t kMatchLimit = 1'000'000;  // backtracking steps; the largest real extraction needs some thousands

using Code = std::unique_ptr<pcre2_code, void (*)(pcre2_code*)>;

std::string pcre2_text(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

Code compile(const std::string& pattern, uint32_t more_options) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | more_options, &error, &offset, nullptr);
  KVC_CHECK(code, "pattern ", in_quotes(pattern), " is wrong at offset ", offset, ": ", pcre2_text(error));
  return Code(code, &pcre2_code_free);
}

// Machine code for the pattern, where the system allows any; without it matching is slower and the same.
Code with_jit(Code code) {
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

Code copy(const pcre2_code* code) {
  Code result(pcre2_code_copy(code), &pcre2_code_free);
  KVC_CHECK(result, "no memory for a pattern");
  return result;
}

// The next place to look for a match after an empty one at `position`: behind the code point there.
size_t next_code_point(std::string_view text, size_t position) {
  ++position;
  while (position < text.size() && (text[position] & 0xC0) == 0x80) ++position;
  return position;
}

}  // namespace

Regex::Regex(const std::string& pattern)
    : pattern_(pattern), code_(with_jit(compile(pattern, 0))), tolerant_(compile(pattern, PCRE2_MATCH_INVALID_UTF)) {}

Regex::Regex(const Regex& other)
    : pattern_(other.pattern_), code_(with_jit(copy(other.code_.get()))), tolerant_(copy(other.tolerant_.get())) {}

Regex& Regex::operator=(const Regex& other) { return *this = Regex(other); }

int Regex::n_groups() const {
  uint32_t n = 0;
  pcre2_pattern_info(code_.get(), PCRE2_INFO_CAPTURECOUNT, &n);
  return static_cast<int>(n);
}

std::optional<std::string> Regex::find(std::string_view text, int group, bool last) const {
  std::optional<std::string> found;
  each_match(text, group, [&](std::optional<std::string> match) {
    found = std::move(match);
    return last;
  });
  return found;
}

std::vector<std::string> Regex::find_all(std::string_view text, int group) const {
  std::vector<std::string> found;
  each_match(text, group, [&](std::optional<std::string> match) {
    found.push_back(match.value_or(""));
    return true;
  });
  return found;
}

void Regex::each_match(std::string_view text, int group,
                       const std::function<bool(std::optional<std::string>)>& visit) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create_from_pattern(code_.get(), nullptr), &pcre2_match_data_free);
  const std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> limits(pcre2_match_context_create(nullptr),
                                                                                    &pcre2_match_context_free);
  KVC_CHECK(match && limits, "no memory for pattern ", in_quotes(pattern_));
  pcre2_set_match_limit(limits.get(), kMatchLimit);
  const bool is_valid = !first_invalid_utf8(text);
  const auto* code = is_valid ? code_.get() : tolerant_.get();
  const uint32_t checked = is_valid ? PCRE2_NO_UTF_CHECK : 0;
  uint32_t options = 0;  // after an empty match: first a longer one at the same place
  const auto match_at = [&](size_t position, uint32_t more) {
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), position, options | checked | more,
                       match.get(), limits.get());
  };
  for (size_t position = 0; position <= text.size();) {
    int result = match_at(position, 0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match_at(position, PCRE2_NO_JIT);  // a deep match on a long text
    KVC_CHECK(result >= 0 || result == PCRE2_ERROR_NOMATCH, "pattern ", in_quotes(pattern_), ": ", pcre2_text(result));
    if (result == PCRE2_ERROR_NOMATCH) {
      if (options == 0) break;
      options = 0;
      position = next_code_point(text, position);
      continue;
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.get());
    const PCRE2_SIZE begin = bounds[2 * group], end = bounds[2 * group + 1];
    if (!visit(begin == PCRE2_UNSET ? std::nullopt : std::optional(std::string(text.substr(begin, end - begin)))))
      return;
    position = bounds[1];
    options = bounds[0] == bounds[1] ? PCRE2_NOTEMPTY_ATSTART | PCRE2_ANCHORED : 0;
  }
}

}  // namespace kvc
