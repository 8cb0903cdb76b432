// The command line as verbs declare it: arguments, help and action of each. Only command_line.cpp includes CLI11, which
// adds ten seconds to each file's compile time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace kvc {

struct CommandLineState;  // what the handles of one command line share

// Handle of a declared option or argument; its functions add to it.
class Option {
 public:
  Option required();
  Option show_default();  // the value that its variable has now
  Option choices(std::vector<std::string> allowed);
  Option positive();
  Option non_negative();
  Option range(int low, int high);
  Option range(double low, double high);
  Option existing_file();
  Option one_each();  // repeatable, with one value each time
  Option delimiter(char between_values);
  Option excludes(Option other);

 private:
  friend class Verb;
  Option(CLI::Option* option, CommandLineState* state) : option_(option), state_(state) {}

  CLI::Option* option_;
  CommandLineState* state_;
};

// Handle of a verb, or of the program itself; as cheap to copy as a pointer. Variables that options write into must
// live until the verb has run. A name without dashes is a positional argument; "--two-words" is also accepted as
// "--two_words".
class Verb {
 public:
  Verb add_subcommand(const std::string& name, const std::string& help);
  Option add_option(const std::string& names, std::string& value, const std::string& help = "");
  Option add_option(const std::string& names, int& value, const std::string& help = "");
  Option add_option(const std::string& names, int64_t& value, const std::string& help = "");
  Option add_option(const std::string& names, double& value, const std::string& help = "");
  Option add_option(const std::string& names, std::optional<int64_t>& value, const std::string& help = "");
  Option add_option(const std::string& names, std::optional<double>& value, const std::string& help = "");
  Option add_option(const std::string& names, std::vector<std::string>& values, const std::string& help = "");
  Option add_option(const std::string& names, std::vector<int64_t>& values, const std::string& help = "");
  Option add_flag(const std::string& names, bool& value, const std::string& help);
  void require_subcommand();
  // The heading under which --help lists these of its verbs.
  void group(const std::string& heading, const std::vector<std::string>& verbs);
  // The verb's action, called after the whole command line was read -> exit code.
  void on_call(std::function<int()> action);

 private:
  friend class CommandLine;
  Verb(CLI::App* app, CommandLineState* state) : app_(app), state_(state) {}

  CLI::App* app_;
  CommandLineState* state_;
};

// Declarations as data, for shell completion and generated pages.
struct DeclaredOption {
  std::vector<std::string> names;  // "-o", "--output"; a positional argument has one name
  std::string help;
  bool by_position = false, takes_value = true;
  std::vector<std::string> choices;  // {}: any value
};

struct DeclaredVerb {
  std::string name, help;
  std::string group;      // heading in the program's help
  std::string help_text;  // output of --help
  std::vector<DeclaredOption> options;
  std::vector<DeclaredVerb> verbs;
};

// An old spelling that still works: "table levels" means "table by_size". old_word: a positional word or a flag
// anywhere after old_verb, which is replaced; or "*.yaml", any word with that ending, which is kept.
struct Alias {
  std::string old_verb, old_word, verb, word;
};

class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& help);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Verb program();
  void add_version(std::function<std::string()> text);  // output of --version
  void add_aliases(std::vector<Alias> aliases);
  DeclaredVerb declared() const;

  // Parses the words and runs their verb -> exit code: the verb's; 0 after help; usage_error for invalid words, with a
  // message on standard error.
  int run(int argc, char** argv, int usage_error);

 private:
  std::unique_ptr<CommandLineState> state_;
};

}  // namespace kvc
