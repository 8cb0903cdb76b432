// render_template < lines: {"template": ..., "variables": {...}} a line in, {"text": ...} or {"error": ...} a line out.
// strftime_now is at 26 July 2024.
#include <iostream>
#include <nlohmann/json.hpp>

#include "jinja/template.h"
#include "kvc/check.h"

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const auto input = nlohmann::ordered_json::parse(line);
    nlohmann::ordered_json output;
    try {
      const kvc::jinja::Template text(input.at("template").get<std::string>());
      output["text"] = text.render({input.at("variables"), {}, kvc::jinja::parse_day("2024-07-26")});
    } catch (const kvc::Error& e) {
      output["error"] = e.what();
    }
    std::cout << output << std::endl;
  }
}
