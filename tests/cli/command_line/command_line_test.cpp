#include "command_line/command_line.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "command_line/verbs_page.h"
#include "example.h"

namespace kvc::test {
namespace {

// What a run prints on standard error, and its exit code.
std::pair<int, std::string> told(Example& example, const std::vector<std::string>& words) {
  ::testing::internal::CaptureStderr();
  const int code = example.run(words);
  return {code, ::testing::internal::GetCapturedStderr()};
}

void expect_refused(const std::vector<std::string>& words, const std::string& why) {
  Example example;
  const auto [code, text] = told(example, words);
  EXPECT_EQ(code, 2) << text;
  EXPECT_NE(text.find(why), std::string::npos) << text;
  EXPECT_EQ(example.called, "");
}

TEST(CommandLine, WritesEachOptionIntoItsVariableAndReturnsTheVerbsCode) {
  Example example;
  EXPECT_EQ(example.run({"draw",        "a.yaml", "--format", "json", "-o",      "x", "--set",    "a=1",
                         "--set",       "b=2",    "--levels", "2,4",  "-L",      "5", "--share",  "0.5",
                         "--n_samples", "3",      "--port",   "0",    "--power", "0", "--dry-run"}),
            7);
  EXPECT_EQ(example.called, "draw");
  EXPECT_EQ(example.file, "a.yaml");
  EXPECT_EQ(example.format, "json");
  EXPECT_EQ(example.output, "x");
  EXPECT_EQ(example.settings, (std::vector<std::string>{"a=1", "b=2"}));
  EXPECT_EQ(example.levels, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(example.limit, 5);
  EXPECT_EQ(example.share, 0.5);
  EXPECT_EQ(example.n_samples, 3);
  EXPECT_EQ(example.port, 0);
  EXPECT_EQ(example.power, 0);
  EXPECT_TRUE(example.dry_run);
}

TEST(CommandLine, LeavesWhatIsNotGivenAsItWas) {
  Example example;
  EXPECT_EQ(example.run({"draw", "a.yaml"}), 7);
  EXPECT_EQ(example.limit, std::nullopt);
  EXPECT_EQ(example.n_samples, 8);
  EXPECT_FALSE(example.dry_run);
}

TEST(CommandLine, CallsTheVerbBelowAVerb) {
  Example example;
  EXPECT_EQ(example.run({"model", "get", "large"}), 0);
  EXPECT_EQ(example.called, "model get");
}

TEST(CommandLine, SaysWhatIsWrongWithTheWordsAndCallsNoVerb) {
  expect_refused({}, "prog: a subcommand is required: draw, model; see `prog --help`");
  expect_refused({"model"}, "prog: a subcommand is required: list, get; see `prog model --help`");
  expect_refused({"drawn"},
                 "prog: unknown subcommand 'drawn' (did you mean 'draw'?); known: draw, model; see `prog --help`");
  expect_refused({"model", "lst"}, "unknown subcommand 'lst' (did you mean 'list'?)");
  expect_refused({"draw", "a", "--levls=3"}, "prog: unknown option '--levls' (did you mean '--levels'?)");
  expect_refused({"draw"}, "file is required");
  expect_refused({"draw", "a", "b"}, "prog: unexpected argument 'b'; see `prog draw --help`");
  expect_refused({"draw", "a", "--format", "xml"}, "--format: xml not in {csv,json}");
  expect_refused({"draw", "a", "--set", "b", "c"}, "unexpected argument 'c'");
  expect_refused({"draw", "a", "--levels", "2,x"}, "--levels");
  expect_refused({"draw", "a", "-L", "1.5"}, "Could not convert: --limit = 1.5");
  expect_refused({"draw", "a", "--share", "1.01"}, "--share: '1.01', expected a number from 0 to 1");
  expect_refused({"draw", "a", "--n-samples", "0"}, "--n-samples: '0', expected a number > 0");
  expect_refused({"draw", "a", "--port", "65536"}, "--port: '65536', expected a number from 0 to 65535");
  expect_refused({"draw", "a", "--power", "-1"}, "--power: '-1', expected a number >= 0");
  expect_refused({"draw", "a", "--text", "/none"}, "--text: File does not exist: /none");
  expect_refused({"draw", "a", "--text", "/etc/passwd", "-o", "x"}, "excludes");
}

TEST(CommandLine, TakesAnOldSpellingForTheNewOneAndLeavesValuesAlone) {
  const auto called = [](const std::vector<std::string>& words) {
    Example example;
    example.line.add_aliases({{"draw", "--old", "model", "list"},
                              {"draw", "levels", "draw", "by_size"},
                              {"draw", "*.old", "draw", "--dry-run"}});
    EXPECT_NE(example.run(words), 2);
    return example.called + " " + example.file + (example.dry_run ? " dry" : "") + example.output;
  };
  EXPECT_EQ(called({"draw", "--old"}), "model list ");
  EXPECT_EQ(called({"draw", "-L", "1", "levels"}), "draw by_size");
  EXPECT_EQ(called({"draw", "x", "-o", "levels"}), "draw xlevels") << "an option's value is no old name";
  EXPECT_EQ(called({"draw", "x", "--output=levels"}), "draw xlevels");
  EXPECT_EQ(called({"draw", "x.old"}), "draw x.old dry");
  EXPECT_EQ(called({"draw", "x", "--output=y.old"}), "draw xy.old");
  EXPECT_EQ(called({"model", "list"}), "model list ");
}

TEST(CommandLine, ListsVerbsByGroupInItsHelpAndItsPage) {
  Example example;
  example.line.program().group("Pictures", {"draw"});
  example.line.program().group("Data", {"model"});
  const auto page = verbs_page(example.line.declared());
  EXPECT_NE(page.find("| Pictures | |\n| --- | --- |\n| [draw](#prog-draw) |"), std::string::npos) << page;
  EXPECT_NE(page.find("| Data | |\n| --- | --- |\n| [model](#prog-model) |"), std::string::npos) << page;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(example.run({"--help"}), 0);
  const auto help = ::testing::internal::GetCapturedStdout();
  EXPECT_LT(help.find("Pictures:\n"), help.find("  draw ")) << help;
  EXPECT_LT(help.find("  draw "), help.find("Data:\n")) << help;
}

TEST(CommandLine, PrintsItsVersionWithoutAVerb) {
  Example example;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(example.run({"--version"}), 0);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "prog: 1\ncommit: 2\n");
}

TEST(CommandLine, DeclaresVerbsWithChoicesAndOneSpelling) {
  const Example example;
  const auto program = example.line.declared();
  ASSERT_EQ(program.verbs.size(), 2U);
  const auto& draw = program.verbs[0];
  const auto named = [&](const std::string& name) {
    for (const auto& option : draw.options) {
      if (option.names.back() == name) return option;
    }
    return DeclaredOption{};
  };
  EXPECT_TRUE(named("file").by_position);
  EXPECT_EQ(named("--format").choices, (std::vector<std::string>{"csv", "json"}));
  EXPECT_EQ(named("--output").names, (std::vector<std::string>{"-o", "--output"}));
  EXPECT_EQ(named("--n-samples").names, (std::vector<std::string>{"--n-samples"}));
  EXPECT_TRUE(named("--n-samples").takes_value);
  EXPECT_FALSE(named("--dry-run").takes_value);
  EXPECT_EQ(program.verbs[1].verbs.size(), 2U);
  EXPECT_EQ(program.verbs[1].verbs[1].options.back().choices, (std::vector<std::string>{"small", "large"}));
}

TEST(CommandLine, PageHoldsTheHelpOfEveryVerbAsItIsPrinted) {
  Example example;
  const auto page = verbs_page(example.line.declared());
  for (const std::vector<std::string>& words : {std::vector<std::string>{"draw"}, {"model"}, {"model", "get"}}) {
    auto asked = words;
    asked.push_back("--help");
    Example fresh;
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(fresh.run(asked), 0);
    EXPECT_NE(page.find("```text\n" + ::testing::internal::GetCapturedStdout() + "```\n"), std::string::npos) << page;
  }
}

// groff reads it without a warning, and what it shows is what --help says.
TEST(ManPage, ShowsWhatHelpSays) {
  const auto page = man_page(Example().line.declared());
  if (std::system("command -v groff >/dev/null") != 0) GTEST_SKIP() << "groff is not installed";
  std::string file = ::testing::TempDir() + "man-XXXXXX";
  const int held = ::mkstemp(file.data());
  ASSERT_GE(held, 0);
  ASSERT_EQ(::write(held, page.data(), page.size()), static_cast<ssize_t>(page.size()));
  ::close(held);
  auto* output = ::popen(("groff -man -ww -Tascii -P-cbou '" + file + "' 2>&1").c_str(), "r");
  std::string shown;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, output)) shown += buffer;
  EXPECT_EQ(::pclose(output), 0);
  ::unlink(file.c_str());
  EXPECT_EQ(shown.find("warning"), std::string::npos) << shown;
  for (const char* text :
       {"prog(1)", "prog draw", "Draws a file's [figure]: it's done", "--format", "prog model get"}) {
    EXPECT_NE(shown.find(text), std::string::npos) << text << " in " << shown;
  }
}

}  // namespace
}  // namespace kvc::test
