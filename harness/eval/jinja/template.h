// Jinja templates as models bring them for chats, rendered as jinja2's immutable sandbox and transformers do:
// trim_blocks and lstrip_blocks, break and continue, {% generation %}, raise_exception, strftime_now, a tojson that
// escapes no HTML. A template is a stranger's: its steps, bytes and depth are bounded, and what is not supported is
// refused by its name.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kvc::jinja {

struct Day {
  int year = 0, month = 0, day = 0;
};

// "2024-07-26"; throws Error for anything else and for days that there are not.
Day parse_day(const std::string& text);

struct Given {
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  std::map<std::string, std::string> refused = {};  // variables that may not be read, and why
  Day today = {};                                   // of strftime_now
};

class Template {
 public:
  // Throws Error "line N: ...".
  explicit Template(std::string source);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  const std::string& source() const { return source_; }

  // Throws Error "line N: ..."; what the template raises is "line N: the template says: ...".
  std::string render(const Given& given) const;

 private:
  struct Tree;
  std::string source_;
  std::unique_ptr<const Tree> tree_;
};

}  // namespace kvc::jinja
