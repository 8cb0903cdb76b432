#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pcre.h"

#include <pcre2.h>

#include <algorithm>

namespace kvc {
namespace {

struct Free {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

PcreError failure(size_t at, int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return {at, reinterpret_cast<const char*>(text)};
}

template <class T>
std::unique_ptr<T, Free> owned(T* made) {
  if (!made) throw failure(0, PCRE2_ERROR_NOMEMORY);
  return std::unique_ptr<T, Free>(made);
}

// Behind the character that begins at `at`.
size_t next_character(std::string_view text, size_t at) {
  ++at;
  while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;
  return at;
}

// One text, and what PCRE2 needs to look for matches in it.
class Matcher {
 public:
  Matcher(const pcre2_code* code, const PcreOptions& options, std::string_view text)
      : code_(code), options_(options), text_(text), data_(owned(pcre2_match_data_create_from_pattern(code, nullptr))) {
    if (options.match_limit > 0) pcre2_set_match_limit(context(), options.match_limit);
  }

  // The bounds of the first match from `at` on; nullptr where there is none.
  const size_t* match(size_t at, uint32_t how) {
    int result = try_match(at, how);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && !stack_) {
      if (options_.stack > 0) grow_stack();
      result = try_match(at, how | (options_.stack > 0 ? 0 : PCRE2_NO_JIT));
    }
    if (result == PCRE2_ERROR_NOMATCH) return nullptr;
    if (result < 0) throw failure(at, result);
    return pcre2_get_ovector_pointer(data_.get());
  }

 private:
  int try_match(size_t at, uint32_t how) {
    return pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), at,
                       how | (options_.any_bytes ? 0 : PCRE2_NO_UTF_CHECK), data_.get(), context_.get());
  }

  void grow_stack() {
    stack_ = owned(pcre2_jit_stack_create(std::min(options_.stack, size_t{1} << 20), options_.stack, nullptr));
    pcre2_jit_stack_assign(context(), nullptr, stack_.get());
  }

  pcre2_match_context* context() {  // made when something is set: short texts are many
    if (!context_) context_ = owned(pcre2_match_context_create(nullptr));
    return context_.get();
  }

  const pcre2_code* code_;
  const PcreOptions& options_;
  std::string_view text_;
  std::unique_ptr<pcre2_match_data, Free> data_;
  std::unique_ptr<pcre2_match_context, Free> context_;
  std::unique_ptr<pcre2_jit_stack, Free> stack_;
};

}  // namespace

Pcre::Pcre(const std::string& pattern, const PcreOptions& options) : options_(options) {
  const uint32_t checks_text = options.any_bytes ? PCRE2_MATCH_INVALID_UTF : 0;
  int error = 0;
  size_t at = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | checks_text, &error, &at, nullptr),
              &pcre2_code_free);
  if (!code_) throw failure(at, error);
  // Machine code, where the system allows any; without it matching is slower and the same.
  if (!options.any_bytes) pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
}

int Pcre::n_groups() const {
  uint32_t n = 0;
  pcre2_pattern_info(code_.get(), PCRE2_INFO_CAPTURECOUNT, &n);
  return static_cast<int>(n);
}

void Pcre::each_match(std::string_view text, const std::function<bool(const size_t* bounds)>& visit) const {
  Matcher matcher(code_.get(), options_, text);
  bool after_empty = false;  // a longer match is looked for at the same place
  for (size_t at = 0; at <= text.size();) {
    const auto* bounds = matcher.match(at, after_empty ? PCRE2_NOTEMPTY_ATSTART | PCRE2_ANCHORED : 0);
    if (!bounds && !after_empty) return;
    if (bounds && !visit(bounds)) return;
    const bool is_empty = bounds && bounds[0] == bounds[1];
    if (bounds) at = bounds[1];
    if (!bounds || (is_empty && !options_.longer_after_empty)) at = next_character(text, at);
    after_empty = is_empty && options_.longer_after_empty;
  }
}

}  // namespace kvc
