// text_scores < lines: {"cut": text} a line in, its words out; {"scorer", "answer", "gold", "classes"} in, a score out;
// {"task": YAML file, "extractor": name, "texts": [...]} in, the answers out.
#include <iostream>
#include <nlohmann/json.hpp>

#include "scoring/answer_scorer.h"
#include "task/task_spec.h"
#include "text/utf8.h"

namespace {

using nlohmann::json;

json words(const kvc::ChineseWords& segmenter, const std::string& text) {
  json result = json::array();
  for (const auto& word : segmenter.cut(kvc::to_code_points(text))) result.push_back(kvc::to_utf8(word));
  return result;
}

json answers(const json& request) {
  const auto spec = kvc::load_task(request.at("task").get<std::string>());
  const auto& extractor = *kvc::find_extractor(spec, request.at("extractor"));
  json result = json::array();
  for (const auto& text : request.at("texts")) {
    const auto answer = kvc::extract_answer(extractor, text.get<std::string>());
    result.push_back(answer ? json(*answer) : json());
  }
  return result;
}

json reply(const json& request, const kvc::ChineseWords& segmenter) {
  if (request.contains("cut")) return words(segmenter, request.at("cut"));
  if (request.contains("texts")) return answers(request);
  const std::string answer = request.at("answer"), gold = request.at("gold");
  const auto classes = request.value("classes", std::vector<std::string>());
  return kvc::find_scorer(request.at("scorer").get<std::string>())->score({answer, gold, classes, &segmenter});
}

}  // namespace

int main() {
  const kvc::ChineseWords segmenter(kvc::jieba_folder());
  for (std::string line; std::getline(std::cin, line);) std::cout << reply(json::parse(line), segmenter).dump() << '\n';
}
