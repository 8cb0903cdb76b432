// A program of the tests' own: a verb with everything, one with verbs below it.
#pragma once

#include "command_line/command_line.h"

namespace kvc::test {

struct Example {
  std::string file, format = "csv", kind, output;
  std::vector<std::string> settings;
  std::vector<int64_t> levels;
  std::optional<int64_t> limit;
  std::optional<double> share;
  int64_t n_samples = 8;
  int port = 80;
  double power = 0.8;
  bool dry_run = false;
  std::string called;  // the verb that was
  CommandLine line{"prog", "Does [this], 'that': or nothing"};

  Example() {
    auto program = line.program();
    program.require_subcommand();
    line.add_version([] { return std::string("prog: 1\ncommit: 2"); });
    add_draw(program.add_subcommand("draw", "Draws a file's [figure]: it's done"));
    auto model = program.add_subcommand("model", "Lists models");
    model.require_subcommand();
    model.add_subcommand("list", "Names").on_call([this] { return called = "model list", 0; });
    auto get = model.add_subcommand("get", "Fetches");
    get.add_option("kind", kind, "which").required().choices({"small", "large"});
    get.on_call([this] { return called = "model get", 0; });
  }

  int run(std::vector<std::string> words) {
    words.insert(words.begin(), "prog");
    std::vector<char*> pointers;
    for (auto& word : words) pointers.push_back(word.data());
    return line.run(static_cast<int>(pointers.size()), pointers.data(), 2);
  }

 private:
  void add_draw(Verb verb) {
    verb.add_option("file", file, "what to draw").required();
    verb.add_option("--format", format, "csv or json").choices({"csv", "json"}).show_default();
    auto out = verb.add_option("-o,--output", output, "where");
    verb.add_option("--set", settings, "path=value").one_each();
    verb.add_option("--levels", levels, "of bits").delimiter(',');
    verb.add_option("-L,--limit", limit, "at most");
    verb.add_option("--share", share, "of all").range(0.0, 1.0);
    verb.add_option("--n-samples", n_samples, "how many").positive().show_default();
    verb.add_option("--port", port, "of this machine").range(0, 65535);
    verb.add_option("--power", power, "of the test").non_negative();
    verb.add_option("--text", file, "a file that is there").existing_file().excludes(out);
    verb.add_flag("--dry-run", dry_run, "only say it");
    verb.on_call([this] { return called = "draw", 7; });
  }
};

}  // namespace kvc::test
