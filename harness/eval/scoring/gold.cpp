#include "scoring/gold.h"

#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {

std::string gold_text(const Gold& gold, bool is_structured) {
  if (!is_structured) {
    KVC_CHECK(gold.answers.size() == 1 && gold.classes.empty(), "a plain gold has ", gold.answers.size(),
              " answers and ", gold.classes.size(), " classes, expected one answer");
    return gold.answers[0];
  }
  nlohmann::ordered_json json = {{"answers", gold.answers}};
  if (!gold.classes.empty()) json["classes"] = gold.classes;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Gold parse_gold(const std::string& text, bool is_structured) {
  if (!is_structured) return {{text}, {}};
  try {
    const auto json = nlohmann::json::parse(text);
    return {json.at("answers").get<std::vector<std::string>>(), json.value("classes", std::vector<std::string>())};
  } catch (const nlohmann::json::exception&) {
    throw Error(concat("gold ", in_quotes(text), " is no {\"answers\": [...], \"classes\": [...]}"));
  }
}

}  // namespace kvc
