#include "command_line/verbs_page.h"

namespace kvc {
namespace {

void add_section(const DeclaredVerb& verb, const std::string& words, std::string& page) {
  page += "\n## " + words + "\n\n```text\n" + verb.help_text + "```\n";
  for (const auto& below : verb.verbs) add_section(below, words + " " + below.name, page);
}

// Text as it stands, for roff: no line of it is a request, and hyphens are minus signs.
std::string as_roff(const std::string& text) {
  std::string roff;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) roff += "\\&";
    roff += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
    begins = c == '\n';
  }
  return roff;
}

void add_man_section(const DeclaredVerb& verb, const std::string& words, std::string& page) {
  page += ".SS " + as_roff(words) + "\n.nf\n" + as_roff(verb.help_text) + ".fi\n";
  for (const auto& below : verb.verbs) add_man_section(below, words + " " + below.name, page);
}

}  // namespace

std::string man_page(const DeclaredVerb& program) {
  const auto name = as_roff(program.name);
  std::string page = ".TH " + name + " 1\n.SH NAME\n" + name + " \\- " + as_roff(program.help) + "\n.SH SYNOPSIS\n.B " +
                     name + "\n.I verb\n[words ...]\n.SH VERBS\n";
  for (const auto& verb : program.verbs) add_man_section(verb, program.name + " " + verb.name, page);
  return page;
}

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
