// The command line as verbs declare it: what each takes, says of itself and does. CLI11 stands behind it in
// command_line.cpp alone: each file that includes it costs ten seconds.
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

// An option or argument that is declared: a handle, whose functions add to it.
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
  Option one_each();  // of several values one behind each mention of its name
  Option delimiter(char between_values);
  Option excludes(Option other);

 private:
  friend class Verb;
  Option(CLI::Option* option, CommandLineState* state) : option_(option), state_(state) {}

  CLI::Option* option_;
  CommandLineState* state_;
};

// A verb, or the program itself: a handle, as cheap to copy as a pointer. Variables that options write into must live
// until the verb has run. A name without dashes is an argument by position; "--two-words" is also "--two_words", for
// users' fingers know both.
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
  // What the verb does when it is named, after the whole command line was read -> exit code.
  void on_call(std::function<int()> action);

 private:
  friend class CommandLine;
  Verb(CLI::App* app, CommandLineState* state) : app_(app), state_(state) {}

  CLI::App* app_;
  CommandLineState* state_;
};

// Declarations as data, for shell completion and pages.
struct DeclaredOption {
  std::vector<std::string> names;  // "-o", "--output"; of an argument by position its name alone
  std::string help;
  bool by_position = false, takes_value = true;
  std::vector<std::string> choices;  // {}: any value
};

struct DeclaredVerb {
  std::string name, help;
  std::string help_text;  // what --help prints
  std::vector<DeclaredOption> options;
  std::vector<DeclaredVerb> verbs;
};

class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& help);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Verb program();
  void add_version(std::function<std::string()> text);  // what --version prints
  DeclaredVerb declared() const;

  // Reads the words, and does what their verb does -> exit code: the verb's; 0 after help; usage_error where the words
  // are wrong, which is said on standard error.
  int run(int argc, char** argv, int usage_error);

 private:
  std::unique_ptr<CommandLineState> state_;
};

}  // namespace kvc
