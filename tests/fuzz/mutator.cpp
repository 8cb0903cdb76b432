#include "mutator.h"

#include <algorithm>

#include "values.h"

namespace kvc_fuzz {
namespace {

using nlohmann::json;

json nested(size_t depth, bool objects) {
  json value = 1;
  while (depth-- > 0) value = objects ? json{{"a", std::move(value)}} : json(json::array_t{std::move(value)});
  return value;
}

std::string text_of(const json& seed) {
  return seed.is_string() ? seed.get<std::string>() : seed.dump(-1, ' ', false, json::error_handler_t::replace);
}

json* random_child(json& value, uint64_t at) {
  if (value.is_array()) return &value[at % value.size()];
  return &std::next(value.begin(), static_cast<std::ptrdiff_t>(at % value.size())).value();
}

}  // namespace

Mutator::Mutator(uint64_t seed, uint64_t case_number, const std::vector<std::string>& words)
    : random_(seed * 0x9e3779b97f4a7c15u ^ case_number), words_(words) {}

std::string Mutator::word() {
  switch (below(8)) {
    case 0:
      return "";
    case 1:
      return repeated(words_[below(words_.size())], 1 + below(2000));
    case 2:
      return std::string("\n\t\x7f\0", 4) + words_[below(words_.size())];
    case 3:
      return words_[below(words_.size())] + words_[below(words_.size())];
    default:
      return words_[below(words_.size())];
  }
}

json Mutator::number() { return numbers()[below(numbers().size())]; }

json Mutator::any_value(const json& root) {
  switch (below(12)) {
    case 0:
      return nullptr;
    case 1:
      return one_in(2);
    case 2:
      return json::array();
    case 3:
      return json::object();
    case 4:
      return nested(1 + below(100), one_in(2));
    case 5:
      return json::array_t(below(300), number());
    case 6:
      return root;
    case 7:
    case 8:
      return word();
    default:
      return number();
  }
}

void Mutator::mutate_scalar(json& value) {
  if (value.is_number_integer() && !one_in(4)) {
    const auto now = value.get<uint64_t>();
    const json near[] = {now + 1, now - 1, now * 2, now / 2, ~now, static_cast<double>(now), std::to_string(now)};
    value = near[below(std::size(near))];
  } else if (value.is_string() && !one_in(4)) {
    auto text = value.get<std::string>();
    const size_t at = below(text.size() + 1);
    if (one_in(2)) {
      text.insert(at, one_in(2) ? words_[below(words_.size())] : std::string(1, static_cast<char>(below(128))));
    } else {
      text.erase(at, below(4));
    }
    std::replace_if(
        text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; }, '?');  // dump() wants UTF-8
    value = text;
  } else {
    value = any_value(nullptr);
  }
}

void Mutator::mutate_children(json& parent, const json& root) {
  auto& child = *random_child(parent, below(parent.size()));
  switch (below(5)) {
    case 0:
      if (parent.is_array()) {
        parent.erase(below(parent.size()));
      } else {
        parent.erase(std::next(parent.begin(), static_cast<std::ptrdiff_t>(below(parent.size()))));
      }
      return;
    case 1: {
      auto copy = child;
      if (parent.is_array()) {
        parent.insert(parent.end(), one_in(20) ? 2000 : 1 + below(3), copy);
      } else {
        parent[word()] = std::move(copy);
      }
      return;
    }
    case 2:
      std::swap(child, *random_child(parent, below(parent.size())));
      return;
    case 3:
      child = one_in(2) ? json(json::array_t{child}) : json{{"a", child}};
      return;
    default:
      child = any_value(root);
  }
}

// Walks down from the root, and stops more often the deeper it is: what stands above is what a reader decides by.
void Mutator::mutate_json(json& root) {
  json* here = &root;
  while (here->is_structured() && !here->empty() && !one_in(5)) {
    auto* child = random_child(*here, below(here->size()));
    if (!child->is_structured() || child->empty()) {
      if (one_in(3)) return mutate_children(*here, root);
      return mutate_scalar(*child);
    }
    here = child;
  }
  if (here->is_structured() && !here->empty()) return mutate_children(*here, root);
  *here = any_value(root);
}

// The first run of digits behind `at` becomes another number, or the line around it is there a second time.
void Mutator::mutate_text(std::string& text, size_t at) {
  if (one_in(3)) {
    const auto begin = text.rfind('\n', at) + 1, end = text.find('\n', at);  // npos + 1 is the start
    if (begin < text.size()) text.insert(begin, text.substr(begin, end == text.npos ? end : end + 1 - begin));
    return;
  }
  constexpr const char* kDigits = "0123456789";
  const auto begin = text.find_first_of(kDigits, at);
  if (begin == text.npos) return;
  const auto end = std::min(text.find_first_not_of(kDigits, begin), text.size());
  text.replace(begin, end - begin, number().dump());
}

void Mutator::mutate_bytes(std::string& text, const std::string& other) {
  const size_t at = below(text.size() + 1), n = one_in(4) ? below(text.size() + 1) : below(16);
  switch (below(10)) {
    case 0:
      if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      return;
    case 1:
      if (at < text.size()) text[at] = static_cast<char>(below(256));
      return;
    case 2:
      text.erase(at, n);
      return;
    case 3:
      text.resize(at);
      return;
    case 4:
      text.insert(at, text.substr(below(text.size() + 1), n));
      return;
    case 5:
      text = text.substr(0, at) + other.substr(below(other.size() + 1));
      return;
    case 6: {  // a field a second time
      const auto begin = text.find("\"", at), end = text.find(",", std::min(begin, text.size()));
      if (end != std::string::npos) text.insert(begin, text.substr(begin, end + 1 - begin));
      return;
    }
    case 7:
      return mutate_text(text, at);
    case 8:
      text.insert(at, words_[below(words_.size())]);
      return;
    default:
      text.insert(at, fragments()[below(fragments().size())]);
  }
}

std::string Mutator::mutate(const std::vector<json>& seeds) {
  auto root = seeds[below(seeds.size())];
  const uint64_t n = 1 + below(4);
  if (root.is_string()) {  // not JSON, but the bytes of another format
    auto bytes = root.get<std::string>();
    const auto other = text_of(seeds[below(seeds.size())]);
    for (uint64_t i = 0; i < n; ++i) mutate_bytes(bytes, other);
    return bytes;
  }
  const bool of_values = !one_in(3);
  for (uint64_t i = 0; of_values && i < n; ++i) mutate_json(root);
  auto text = text_of(root);
  if (!of_values || one_in(8)) {
    const auto other = text_of(seeds[below(seeds.size())]);
    for (uint64_t i = 0; i < n; ++i) mutate_bytes(text, other);
  }
  return text;
}

}  // namespace kvc_fuzz
