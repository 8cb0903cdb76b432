#include "command_line/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>

#include "kvc/check.h"
#include "text/nearest.h"

namespace kvc {

struct CommandLineState {
  CommandLineState(const std::string& name, const std::string& help) : app(help, name) {}

  CLI::App app;
  std::function<int()> action;  // of the verb that was named
  std::vector<Alias> aliases;
  std::map<const CLI::Option*, std::vector<std::string>> choices;  // CLI11 keeps them as text
};

namespace {

// "--max-new-tokens" -> "--max-new-tokens,--max_new_tokens"
std::string both_spellings(const std::string& names) {
  if (names.find(',') != std::string::npos || !names.starts_with("--")) return names;
  auto with_underscores = names;
  std::replace(with_underscores.begin() + 2, with_underscores.end(), '-', '_');
  return names == with_underscores ? names : names + "," + with_underscores;
}

// "-o" and "--output", without the second spelling of a long name.
std::vector<std::string> names_of(const CLI::Option& option) {
  if (option.get_positional()) return {option.get_name(true)};
  std::vector<std::string> names;
  for (const auto& name : option.get_snames()) names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) {
    if (name.find('_') == std::string::npos) names.push_back("--" + name);
  }
  return names;
}

using Choices = std::map<const CLI::Option*, std::vector<std::string>>;

DeclaredOption declared_option(const CLI::Option& option, const Choices& choices) {
  const auto found = choices.find(&option);
  return {.names = names_of(option),
          .help = option.get_description(),
          .by_position = option.get_positional(),
          .takes_value = option.get_items_expected_max() > 0,
          .choices = found == choices.end() ? std::vector<std::string>() : found->second};
}

// `parent`: the words that name the verb's parent.
DeclaredVerb declared_verb(const CLI::App& app, const std::string& parent, const Choices& choices) {
  const auto words = parent.empty() ? app.get_name() : parent + " " + app.get_name();
  DeclaredVerb verb{.name = app.get_name(),
                    .help = app.get_description(),
                    .group = app.get_group(),
                    .help_text = app.get_formatter()->make_help(&app, words, CLI::AppFormatMode::Normal),
                    .options = {},
                    .verbs = {}};
  for (const auto* option : app.get_options()) verb.options.push_back(declared_option(*option, choices));
  for (const auto* below : app.get_subcommands(nullptr)) {
    verb.verbs.push_back(declared_verb(*below, words, choices));
  }
  return verb;
}

const CLI::App* verb_named(const CLI::App& app, const std::string& name) {
  const auto named = app.get_subcommands([&](const CLI::App* verb) { return verb->get_name() == name; });
  return named.empty() ? nullptr : named[0];
}

bool takes_value(const CLI::App& app, const std::string& verb, const std::string& word) {
  const auto* named = verb_named(app, verb);
  const auto* option = named == nullptr ? nullptr : named->get_option_no_throw(word);
  return word.starts_with("-") && option != nullptr && option->get_items_expected_max() > 0;
}

void apply(const Alias& alias, const CLI::App& app, std::vector<std::string>& words) {
  if (words.empty() || words[0] != alias.old_verb) return;
  const bool is_pattern = alias.old_word.starts_with("*");
  for (size_t i = 1; i < words.size(); ++i) {
    if (!(is_pattern ? words[i].ends_with(alias.old_word.substr(1)) : words[i] == alias.old_word)) continue;
    const bool is_flag = is_pattern && words[i].starts_with("-");
    if (is_flag || takes_value(app, alias.old_verb, words[i - 1])) continue;  // an option, or its value
    if (!is_pattern) words.erase(words.begin() + static_cast<std::ptrdiff_t>(i));
    words[0] = alias.verb;
    words.insert(words.begin() + 1, alias.word);
    return;
  }
}

// Aliases resolved; `kvc help VERB` is `kvc VERB --help`; a database as first word of a verb with --db is that option's
// value.
std::vector<std::string> usual_words(const CLI::App& app, const std::vector<Alias>& aliases, int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty()) return words;
  for (const auto& alias : aliases) apply(alias, app, words);
  if (words[0] == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
    return words;
  }
  const auto* named = verb_named(app, words[0]);
  const auto* option = named == nullptr ? nullptr : named->get_option_no_throw("--db");
  const bool is_taken = option == nullptr || option->get_positional() ||
                        std::any_of(words.begin(), words.end(),
                                    [](const auto& word) { return word == "--db" || word.starts_with("--db="); });
  if (!is_taken && words.size() > 1 && words[1].ends_with(".sqlite")) words.insert(words.begin() + 1, "--db");
  return words;
}

// A check of an option's value, or of each of its values. `allowed`: "a number > 0"; `in_help`: what --help adds to its
// type.
CLI::Validator number_check(std::function<bool(double)> holds, std::string allowed, const std::string& in_help) {
  const auto check = [holds = std::move(holds), allowed = std::move(allowed)](const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = error == std::errc() && end == text.data() + text.size();
    return is_number && holds(value) ? std::string() : concat("'", text, "', expected ", allowed);
  };
  return {check, in_help};
}

template <class T>
CLI::Validator range_check(T low, T high) {
  return number_check(
      [=](double value) { return value >= static_cast<double>(low) && value <= static_cast<double>(high); },
      concat("a number from ", low, " to ", high), concat("in [", low, " - ", high, "]"));
}

// The subcommand that the words name, as far as they name one.
const CLI::App& called(const CLI::App& app) {
  const auto below = app.get_subcommands();
  return below.empty() ? app : called(*below.back());
}

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* verb : app.get_subcommands(nullptr)) names.push_back(verb->get_name());
  return names;
}

// "run --bit", what the verb does not know, with the nearest that it does; "" where it knows all.
std::string unknown_word(const CLI::App& verb, const std::vector<std::string>& words) {
  if (words.empty()) return "";
  const auto& word = words.front();
  if (!word.starts_with("-")) {
    if (verb.get_require_subcommand_min() > 0) return unknown_name("subcommand", word, verbs_of(verb));
    return concat("unexpected argument '", word, "'");
  }
  std::vector<std::string> known;
  for (const auto* option : verb.get_options()) {
    if (!option->get_positional()) known.push_back(names_of(*option).back());
  }
  return unknown_name("option", word.substr(0, word.find('=')), known);
}

// One line, for any of CLI11's refusals.
std::string message_of(const CLI::App& program, const CLI::ParseError& error) {
  const auto& verb = called(program);
  const bool wants_verb = verb.get_require_subcommand_min() > 0;
  const auto unknown = unknown_word(verb, program.remaining(true));
  auto text = std::string(error.what());
  if (wants_verb || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    text = unknown.empty() ? concat("a subcommand is required: ", join(verbs_of(verb))) : unknown;
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::string words;
  for (const auto* app = &verb; app != nullptr; app = app->get_parent()) words.insert(0, app->get_name() + " ");
  return concat(program.get_name(), ": ", text, "; see `", words, "--help`");
}

}  // namespace

Option Option::required() { return option_->required(), *this; }
Option Option::show_default() { return option_->capture_default_str(), *this; }
Option Option::positive() {
  return option_->check(number_check([](double value) { return value > 0; }, "a number > 0", "POSITIVE")), *this;
}
Option Option::non_negative() {
  return option_->check(number_check([](double value) { return value >= 0; }, "a number >= 0", "NONNEGATIVE")), *this;
}
Option Option::range(int low, int high) { return option_->check(range_check(low, high)), *this; }
Option Option::range(double low, double high) { return option_->check(range_check(low, high)), *this; }
Option Option::existing_file() { return option_->check(CLI::ExistingFile), *this; }
Option Option::one_each() { return option_->allow_extra_args(false), *this; }
Option Option::delimiter(char between_values) { return option_->delimiter(between_values), *this; }
Option Option::excludes(Option other) { return option_->excludes(other.option_), *this; }

Option Option::choices(std::vector<std::string> allowed) {
  option_->check(CLI::IsMember(allowed));
  state_->choices[option_] = std::move(allowed);
  return *this;
}

Verb Verb::add_subcommand(const std::string& name, const std::string& help) {
  return {app_->add_subcommand(name, help), state_};
}

Option Verb::add_option(const std::string& names, std::string& value, const std::string& help) {
  return {app_->add_option(both_spellings(names), value, help), state_};
}
Option Verb::add_option(const std::string& names, int& value, const std::string& help) {
  return {app_->add_option(both_spellings(names), value, help), state_};
}
Option Verb::add_option(const std::string& names, int64_t& value, const std::string& help) {
  return {app_->add_option(both_spellings(names), value, help), state_};
}
Option Verb::add_option(const std::string& names, double& value, const std::string& help) {
  return {app_->add_option(both_spellings(names), value, help), state_};
}
Option Verb::add_option(const std::string& names, std::optional<int64_t>& value, const std::string& help) {
  return {app_->add_option(both_spellings(names), value, help), state_};
}
Option Verb::add_option(const std::string& names, std::optional<double>& value, const std::string& help) {
  return {app_->add_option(both_spellings(names), value, help), state_};
}
Option Verb::add_option(const std::string& names, std::vector<std::string>& values, const std::string& help) {
  return {app_->add_option(both_spellings(names), values, help), state_};
}
Option Verb::add_option(const std::string& names, std::vector<int64_t>& values, const std::string& help) {
  return {app_->add_option(both_spellings(names), values, help), state_};
}
Option Verb::add_flag(const std::string& names, bool& value, const std::string& help) {
  return {app_->add_flag(both_spellings(names), value, help), state_};
}

void Verb::require_subcommand() { app_->require_subcommand(1); }

void Verb::group(const std::string& heading, const std::vector<std::string>& verbs) {
  for (const auto& verb : verbs) app_->get_subcommand(verb)->group(heading);
}

void Verb::on_call(std::function<int()> action) {
  app_->callback([app = app_, state = state_, action = std::move(action)] {
    if (app->get_subcommands().empty()) state->action = action;  // else the subcommand's, which CLI11 calls first
  });
}

CommandLine::CommandLine(const std::string& name, const std::string& help)
    : state_(std::make_unique<CommandLineState>(name, help)) {}

CommandLine::~CommandLine() = default;

Verb CommandLine::program() { return {&state_->app, state_.get()}; }

void CommandLine::add_version(std::function<std::string()> text) {
  state_->app.set_version_flag("--version", std::move(text), "Print version and build information and exit");
}

void CommandLine::add_aliases(std::vector<Alias> aliases) { state_->aliases = std::move(aliases); }

DeclaredVerb CommandLine::declared() const { return declared_verb(state_->app, "", state_->choices); }

int CommandLine::run(int argc, char** argv, int usage_error) {
  auto words = usual_words(state_->app, state_->aliases, argc, argv);
  try {
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the end
    state_->app.parse(std::move(words));
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return state_->app.exit(e);  // help, the version
    std::fprintf(stderr, "%s\n", message_of(state_->app, e).c_str());
    return usage_error;
  }
  return state_->action();
}

}  // namespace kvc
