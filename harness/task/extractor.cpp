#include "task/extractor.h"

#include <unicode/locid.h>
#include <unicode/unistr.h>

#include <charconv>

#include "text/utf8.h"

namespace kvc {
namespace {

using Kind = ExtractStep::Kind;
using Text = std::optional<std::string>;

std::string lower(const std::string& text) {
  std::string result;
  icu::UnicodeString::fromUTF8(text).toLower(icu::Locale::getRoot()).toUTF8String(result);
  return result;
}

std::string without(std::string text, const std::string& part) {
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) text.erase(at, part.size());
  return text;
}

Text before(const std::string& text, size_t at, const Text& otherwise) {
  return at == std::string::npos ? otherwise : text.substr(0, at);
}

Text after(const std::string& text, size_t at, size_t length) {
  return at == std::string::npos ? std::nullopt : Text(text.substr(at + length));
}

Text apply_step(const ExtractStep& step, const std::string& text) {
  switch (step.kind) {
    case Kind::kCutBefore:
      return before(text, text.find(step.text), text);
    case Kind::kBeforeFirst:
      return before(text, text.find(step.text), std::nullopt);
    case Kind::kAfterFirst:
      return after(text, text.find(step.text), step.text.size());
    case Kind::kAfterLast:
      return after(text, text.rfind(step.text), step.text.size());
    case Kind::kDelete:
      return without(text, step.text);
    case Kind::kRegex:
      return step.regex->find(text, step.group, step.last_match);
    case Kind::kStrip:
      return strip(text);
    case Kind::kLower:
      return lower(text);
    case Kind::kDropFinal:
      return text.ends_with(step.text) ? text.substr(0, text.size() - step.text.size()) : text;
  }
  return std::nullopt;
}

Text apply_steps(const std::vector<ExtractStep>& steps, std::string_view text) {
  Text result{std::string(text)};
  for (const auto& step : steps) {
    if (!result) break;
    result = apply_step(step, *result);
  }
  return result;
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::string> extract_answer(const Extractor& extractor, std::string_view generation) {
  return apply_steps(extractor.steps, generation);
}

std::optional<std::string> gold_answer(const Extractor& extractor, std::string_view gold) {
  auto answer = apply_steps(extractor.gold_steps, gold);
  if (answer && extractor.compare == Extractor::Compare::kNumber && !number(*answer)) return std::nullopt;
  return answer;
}

double score_answer(const Extractor& extractor, const std::optional<std::string>& answer, std::string_view gold) {
  const auto expected = gold_answer(extractor, gold);
  if (!answer || !expected) return 0;
  if (extractor.compare == Extractor::Compare::kExact) return *answer == *expected ? 1 : 0;
  const auto value = number(*answer);
  return value && *value == *number(*expected) ? 1 : 0;
}

}  // namespace kvc
