#include "scoring/extractor.h"

#include <algorithm>

#include "scoring/latex_answer.h"
#include "scoring/unicode.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using Kind = ExtractStep::Kind;
using Text = std::optional<std::string>;

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

std::string_view without_leading(std::string_view text, std::string_view part) {
  while (text.starts_with(part)) text.remove_prefix(part.size());
  return text;
}

std::string_view without_trailing(std::string_view text, std::string_view part) {
  while (text.ends_with(part)) text.remove_suffix(part.size());
  return text;
}

bool holds_any(std::string_view text, const std::vector<std::string>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const auto& part) { return text.find(part) != std::string_view::npos; });
}

std::string first_line_without(std::string_view text, const std::vector<std::string>& parts) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const auto line = text.substr(begin, end - begin);
    if (!holds_any(line, parts)) return std::string(line);
    begin = end + 1;
  }
  return "";
}

Text first_listed(const std::string& text, const std::vector<std::string>& parts) {
  const auto found =
      std::find_if(parts.begin(), parts.end(), [&](const auto& part) { return text.find(part) != std::string::npos; });
  return found == parts.end() ? std::nullopt : Text(*found);
}

// A span that is not closed takes the rest; one that is closed only, all before: a prompt may have opened it.
std::string without_spans(std::string text, const std::string& open, const std::string& close) {
  std::string result;
  for (size_t at = 0;;) {
    const size_t begin = text.find(open, at), end = text.find(close, at);
    if (end == std::string::npos) return result + text.substr(at, begin == std::string::npos ? begin : begin - at);
    if (begin < end) {
      result += text.substr(at, begin - at);
    } else {
      result.clear();
    }
    at = end + close.size();
  }
}

Text apply_steps(const std::vector<ExtractStep>& steps, std::string_view text);

Text any_of(const std::vector<std::vector<ExtractStep>>& alternatives, const std::string& text) {
  for (const auto& steps : alternatives) {
    if (auto found = apply_steps(steps, text)) return found;
  }
  return std::nullopt;
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
    case Kind::kReplace:
      return step.regex->replace(text, step.text);
    case Kind::kStrip:
      return strip(text);
    case Kind::kLower:
      return lower(text);
    case Kind::kDropFinal:
      return text.ends_with(step.text) ? text.substr(0, text.size() - step.text.size()) : text;
    case Kind::kDropLeading:
      return std::string(without_leading(text, step.text));
    case Kind::kDropTrailing:
      return std::string(without_trailing(text, step.text));
    case Kind::kFirstLineWithout:
      return first_line_without(text, step.texts);
    case Kind::kFirstListed:
      return first_listed(text, step.texts);
    case Kind::kWithoutSpans:
      return without_spans(text, step.texts[0], step.texts[1]);
    case Kind::kFirstBoxed:
      return boxed(text, false);
    case Kind::kLastBoxed:
      return boxed(text, true);
    case Kind::kAnyOf:
      return any_of(step.alternatives, text);
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

}  // namespace

std::optional<std::string> extract_answer(const Extractor& extractor, std::string_view generation) {
  try {
    return apply_steps(extractor.steps, generation);
  } catch (const Error& error) {
    throw Error(concat("extractor '", extractor.name, "': ", error.what()));
  }
}

std::optional<std::string> gold_answer(const Extractor& extractor, std::string_view gold) {
  auto answer = apply_steps(extractor.gold_steps, gold);
  const auto accepts = extractor.scorer->accepts_gold;
  if (answer && accepts && !accepts(*answer)) return std::nullopt;
  return answer;
}

}  // namespace kvc
