#include "text/several_errors.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "text/message.h"

namespace kvc {
namespace {

// Line and column of "file:3:14: error: ..."; zeros where a message names none.
std::pair<int, int> place_of(const std::string& message) {
  const auto end = message.find(": error: ");
  if (end == std::string::npos) return {0, 0};
  const auto column = message.rfind(':', end - 1), line = message.rfind(':', column - 1);
  if (column == std::string::npos || line == std::string::npos) return {0, 0};
  std::pair<int, int> place{0, 0};
  std::from_chars(message.data() + line + 1, message.data() + column, place.first);
  std::from_chars(message.data() + column + 1, message.data() + end, place.second);
  return place;
}

std::string summary_of(const std::vector<std::string>& messages) {
  const auto more = messages.size() - 1;
  return concat(messages.front(), "; and ", more, more == 1 ? " more error" : " more errors");
}

}  // namespace

SeveralErrors::SeveralErrors(std::vector<std::string> messages)
    : Error(summary_of(messages)), messages_(std::move(messages)) {}

std::vector<std::string> lines_of(const std::exception& error) {
  const auto* several = dynamic_cast<const SeveralErrors*>(&error);
  auto lines = several ? several->messages() : std::vector{said_by(error)};
  for (auto& line : lines) line = one_line(line);
  return lines;
}

void ErrorList::add(const Error& error) {
  for (auto& line : lines_of(error)) {
    if (std::ranges::find(messages_, line) == messages_.end()) messages_.push_back(std::move(line));
  }
}

void ErrorList::throw_all() {
  if (messages_.empty()) return;
  std::ranges::stable_sort(messages_, {}, place_of);
  if (messages_.size() == 1) throw Error(messages_.front());
  throw SeveralErrors(messages_);
}

}  // namespace kvc
