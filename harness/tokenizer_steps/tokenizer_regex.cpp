#include "tokenizer_steps/tokenizer_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <utility>

#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

// Oniguruma's \s and \w follow the Unicode properties, PCRE2's differ by some characters (U+180E, combining marks).
constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}";

std::string to_pcre2(const std::string& pattern, const std::string& where) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      if (pattern[i] == '[') in_class = true;
      if (pattern[i] == ']') in_class = false;
      out += pattern[i];
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's') {
      out += "\\p{White_Space}";
    } else if (escaped == 'S') {
      out += "\\P{White_Space}";
    } else if (escaped == 'w') {
      out += in_class ? std::string(kWord) : concat("[", kWord, "]");
    } else if (escaped == 'W') {
      KVC_CHECK(!in_class, where, ": regex ", in_quotes(pattern), ": \\W within [...] is not supported");
      out += concat("[^", kWord, "]");
    } else {
      out += {'\\', escaped};
    }
  }
  return out;
}

std::string pcre2_message(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

}  // namespace

TokenizerRegex::TokenizerRegex(std::string pattern, std::string where)
    : pattern_(std::move(pattern)), where_(std::move(where)) {
  check_utf8(pattern_, where_ + ": regex");
  const auto translated = to_pcre2(pattern_, where_);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                        PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  KVC_CHECK(code_, where_, ": regex ", in_quotes(pattern_), ": ", pcre2_message(error), " at offset ", offset, " of ",
            in_quotes(translated));
  pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);  // where the machine has no JIT, pcre2_match interprets
}

TokenizerRegex::TokenizerRegex(TokenizerRegex&& other) noexcept
    : pattern_(std::move(other.pattern_)),
      where_(std::move(other.where_)),
      code_(std::exchange(other.code_, nullptr)) {}

TokenizerRegex::~TokenizerRegex() { pcre2_code_free(code_); }

std::vector<Match> TokenizerRegex::find_all(std::string_view text) const {
  constexpr size_t kStackMin = 1 << 20, kStackMax = 64 << 20;
  const std::unique_ptr<pcre2_match_data, FreeMatch> data(pcre2_match_data_create_from_pattern(code_, nullptr));
  KVC_CHECK(data, where_, ": no memory for a regex match");
  std::unique_ptr<pcre2_match_context, FreeMatch> context;  // the compiled code's own 32 KiB are nearly always enough
  std::unique_ptr<pcre2_jit_stack, FreeMatch> stack;
  std::vector<Match> matches;
  matches.reserve(text.size() / 4);
  for (size_t at = 0; at <= text.size();) {
    const int found = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, PCRE2_NO_UTF_CHECK,
                                  data.get(), context.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && !stack) {
      context.reset(pcre2_match_context_create(nullptr));
      stack.reset(pcre2_jit_stack_create(kStackMin, kStackMax, nullptr));
      KVC_CHECK(context && stack, where_, ": no memory for a regex match");
      pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
      continue;
    }
    KVC_CHECK(found >= 0, where_, ": regex ", in_quotes(pattern_), " at byte ", at,
              " of the text: ", pcre2_message(found));
    const auto* bounds = pcre2_get_ovector_pointer(data.get());
    const bool is_empty = bounds[1] == bounds[0];
    if (!is_empty) matches.push_back({bounds[0], bounds[1]});
    at = bounds[1];
    if (is_empty) at += at < text.size() ? next_code_point(text, at).n_bytes : 1;
  }
  return matches;
}

std::string TokenizerRegex::escape(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}-#/&~ ").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace kvc
