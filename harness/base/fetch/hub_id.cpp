#include "fetch/hub_id.h"

#include <algorithm>
#include <string_view>

#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr size_t kLongest = 96;  // as the Hub allows

bool is_alphanumeric(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Letters, digits and any of `more`; at both ends neither - nor dot; nothing twice that the Hub forbids twice.
bool is_plain(std::string_view text, std::string_view more) {
  const auto is_end = [](char c) { return is_alphanumeric(c) || c == '_'; };
  const auto is_allowed = [&](char c) { return is_alphanumeric(c) || more.find(c) != more.npos; };
  return !text.empty() && text.size() <= kLongest && is_end(text.front()) && is_end(text.back()) &&
         std::all_of(text.begin(), text.end(), is_allowed) && text.find("..") == text.npos &&
         text.find("//") == text.npos;
}

// Part of a folder's name, where two lines stand between organization and name.
bool is_name(std::string_view text) { return is_plain(text, "._-") && text.find("--") == text.npos; }

}  // namespace

bool is_hub_id(const std::string& as_written) { return as_written.starts_with("hf:"); }

HubId parse_hub_id(const std::string& as_written) {
  HubId id;
  const auto slash = as_written.find('/'), at = as_written.find('@');
  const bool has_slash = is_hub_id(as_written) && slash != std::string::npos && slash < at;
  if (has_slash) {
    id.org = as_written.substr(3, slash - 3);
    id.name = as_written.substr(slash + 1, at == std::string::npos ? at : at - slash - 1);
    if (at != std::string::npos) id.revision = as_written.substr(at + 1);
  }
  KVC_CHECK(has_slash && is_name(id.org) && is_name(id.name) && is_plain(id.revision, "._-/"), "model ",
            in_quotes(as_written),
            ": expected hf:ORG/NAME or hf:ORG/NAME@REVISION, of letters, digits and any of . _ -, as in "
            "hf:HuggingFaceTB/SmolLM2-135M-Instruct@main");
  return id;
}

bool is_hub_path(const std::string& path) { return is_plain(path, "._-/"); }

bool is_commit(const std::string& revision) {
  return revision.size() == 40 && revision.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace kvc
