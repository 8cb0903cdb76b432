#include "conformance/report.h"

#include <map>

#include "conformance/checks.h"
#include "render/escape.h"

namespace kvc::conformance {
namespace {

struct Counts {
  int64_t n_passed = 0, n_failed = 0, n_not_applicable = 0;
};

std::string claim_of(const std::string& name) {
  for (const auto& check : all_checks()) {
    if (name == check.name) return check.claim;
  }
  return "the plugin can be opened and asked";
}

// Each text once, in the order they came, with the cases it was said of.
using Said = std::vector<std::pair<std::string, std::vector<std::string>>>;

void say(Said& said, const std::string& text, const std::string& on) {
  for (auto& [known, cases] : said) {
    if (known != text) continue;
    if (cases.back() != on) cases.push_back(on);
    return;
  }
  said.push_back({text, {on}});
}

void write_list(std::string& text, const char* title, const Said& said) {
  if (said.empty()) return;
  text += concat("\n## ", title, "\n\n");
  for (const auto& [what, cases] : said) {
    text += concat("- ", what, " (", cases.front());
    text += cases.size() > 1 ? concat("; and ", cases.size() - 1, " more)\n") : ")\n";
  }
}

}  // namespace

std::string write_markdown(const Report& report) {
  std::vector<std::string> order;
  std::map<std::string, Counts> counts;
  Said failures, reasons, facts;
  for (const auto& result : report.results) {
    if (!counts.contains(result.check)) order.push_back(result.check);
    auto& c = counts[result.check];
    (result.verdict == Verdict::passed   ? c.n_passed
     : result.verdict == Verdict::failed ? c.n_failed
                                         : c.n_not_applicable)++;
    const bool whole_case = !result.messages.empty() && result.messages[0].starts_with(kRefusesModel);
    for (const auto& message : result.messages) {
      say(result.verdict == Verdict::failed ? failures : reasons,
          whole_case ? message : concat("**", result.check, "**: ", message), result.on);
    }
    for (const auto& note : result.notes) say(facts, concat("**", result.check, "**: ", note), result.on);
  }
  std::string text =
      concat("# ", report.plugin, ": ", report.count(Verdict::failed) == 0 ? "conforms" : "does not conform", "\n\n",
             report.summary, "\n\nsha256 ", report.sha256, "\n\n",
             "| check | property | passed | failed | not applicable |\n", "| --- | --- | ---: | ---: | ---: |\n");
  for (const auto& name : order) {
    const auto& c = counts[name];
    text += concat("| ", name, " | ", claim_of(name), " | ", c.n_passed, " | ", c.n_failed, " | ", c.n_not_applicable,
                   " |\n");
  }
  write_list(text, "Failures", failures);
  write_list(text, "Not applicable", reasons);
  write_list(text, "Facts", facts);
  return text;
}

std::string write_junit(const Report& report) {
  std::string text =
      concat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"", escape_html(report.plugin),
             "\" tests=\"", report.results.size(), "\" failures=\"", report.count(Verdict::failed), "\" skipped=\"",
             report.count(Verdict::not_applicable), "\">\n");
  for (const auto& result : report.results) {
    text += concat("  <testcase classname=\"", escape_html(report.plugin + ": " + result.on), "\" name=\"",
                   escape_html(result.check), "\"");
    if (result.verdict == Verdict::passed) {
      text += "/>\n";
      continue;
    }
    std::string messages;
    for (const auto& message : result.messages) messages += (messages.empty() ? "" : "; ") + message;
    text += concat("><", result.verdict == Verdict::failed ? "failure" : "skipped", " message=\"",
                   escape_html(messages), "\"/></testcase>\n");
  }
  return text + "</testsuite>\n";
}

}  // namespace kvc::conformance
