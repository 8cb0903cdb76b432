#include "command_line/verbs_page.h"

namespace kvc {
namespace {

void add_section(const DeclaredVerb& verb, const std::string& words, std::string& page) {
  page += "\n## " + words + "\n\n```text\n" + verb.help_text + "```\n";
  for (const auto& below : verb.verbs) add_section(below, words + " " + below.name, page);
}

}  // namespace

std::string verbs_page(const DeclaredVerb& program) {
  std::string page = "# Verbs\n\nWhat `" + program.name + " VERB --help` prints. Made by `" + program.name +
                     " page verbs`; a test fails when it is stale.\n\n";
  page += "| verb | what it does |\n| --- | --- |\n";
  for (const auto& verb : program.verbs) {
    page += "| [" + verb.name + "](#" + program.name + "-" + verb.name + ") | " + verb.help + " |\n";
  }
  for (const auto& verb : program.verbs) add_section(verb, program.name + " " + verb.name, page);
  return page;
}

}  // namespace kvc
