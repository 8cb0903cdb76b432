#include "experiment/fill_label.h"

#include <map>
#include <set>

#include "kvc/check.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using nlohmann::json;

// What each option says, in words; of a composition's parts several things.
std::map<std::string, std::set<std::string>> words_of(const CellRecord& record) {
  std::map<std::string, std::set<std::string>> words;
  const auto add = [&](const std::string& options) {
    const auto parsed = json::parse(options);
    for (const auto& [name, value] : parsed.items()) {
      words[name].insert(value.is_string() ? value.get<std::string>() : value.dump());
    }
  };
  if (record.stages.empty()) add(record.options_json);
  for (const auto& stage : record.stages) add(stage.options_json);
  return words;
}

}  // namespace

std::string filled_label(const CompressorChoice& choice, const CellRecord& record) {
  if (choice.label.find('{') == std::string::npos) return choice.label;
  const auto words = words_of(record);
  std::vector<std::string> known;
  for (const auto& [name, values] : words) known.push_back(name);
  std::string filled;
  for (size_t at = 0; at < choice.label.size();) {
    const auto open = choice.label.find('{', at), close = choice.label.find('}', open);
    filled += choice.label.substr(at, open - at);
    if (open == std::string::npos) break;
    const auto where = concat(choice.where, ": error: the label '", choice.label, "': ");
    KVC_CHECK(close != std::string::npos, where, "a '{' without its '}'");
    const auto name = choice.label.substr(open + 1, close - open - 1);
    const auto found = words.find(name);
    KVC_CHECK(found != words.end(), where, unknown_name("option", name, known));
    KVC_CHECK(found->second.size() == 1, where, "{", name, "} is ", join({found->second.begin(), found->second.end()}),
              " in its parts, expected an option with one value");
    filled += *found->second.begin();
    at = close + 1;
  }
  return filled;
}

}  // namespace kvc
