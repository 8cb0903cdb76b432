// The scripts, read by the shells they are for; skipped where a shell is not installed.
#include "command_line/completion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "example.h"
#include "kvc/check.h"

namespace kvc::test {
namespace {

class Completion : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string shell = GetParam();
    if (std::system(("command -v " + shell + " >/dev/null").c_str()) != 0) GTEST_SKIP() << shell << " is not installed";
    std::string name = ::testing::TempDir() + "completion-XXXXXX";
    ASSERT_TRUE(::mkdtemp(name.data()));
    folder_ = name;
    write("script", completion_script(shell, Example().line.declared()));
    write("driver", driver(shell));
    write("notes.txt", "");
  }
  void TearDown() override {
    if (!folder_.empty()) std::system(("rm -r '" + folder_ + "'").c_str());
  }

  // What the shell offers for the last word of "prog ...", in order of the words.
  std::vector<std::string> offered(const std::string& line) {
    const auto command = "cd '" + folder_ + "' && " + GetParam() + " ./driver '" + line + "' 2>&1";
    std::vector<std::string> words;
    auto* output = ::popen(command.c_str(), "r");
    char buffer[4096];
    const std::string mark = "offered ";
    while (std::fgets(buffer, sizeof buffer, output)) {
      std::string word = buffer;
      word.erase(word.find_last_not_of(" \r\n") + 1);
      if (word.starts_with(mark)) words.push_back(word.substr(mark.size()));
    }
    ::pclose(output);
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    return words;
  }

 private:
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ + "/" + name) << text; }

  // Prints "offered WORD" for each.
  static std::string driver(const std::string& shell) {
    if (shell == "bash") {
      return R"(source ./script
line=${1//=/ = }  # as bash does
COMP_WORDS=($line)
[[ $line != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_prog
[ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
printf 'offered %s\n' "${COMPREPLY[@]}"
)";
    }
    if (shell == "fish") {
      return "source ./script\n"
             "complete -C $argv[1] | cut -f1 | string replace -r '^(--format=)?(.)' 'offered $2'\n";
    }
    // zsh completes in a terminal alone; compadd, which takes what is offered, prints it.
    return R"(zmodload zsh/zpty
print -r 'PROMPT="at your service"; unset zle_bracketed_paste; autoload -Uz compinit; compinit -u -D; source ./script
compadd() {
  [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]] || { builtin compadd "$@"; return }
  local -a hits
  builtin compadd -A hits "$@"
  (( ! $#hits )) || print -rl -- "" "offered "${^hits}
  builtin compadd "$@"
}
bindkey "^I" list-choices' > inner
zpty shell zsh -f -i
zpty -w shell 'source ./inner'
zpty -r -m shell out '*service*'
zpty -w -n shell "$1"$'\t\C-uprint do""ne\n'
zpty -r -m shell out '*done*'
print -r -- "$out"
)";
  }

  std::string folder_;
};

using Words = std::vector<std::string>;

TEST_P(Completion, OffersVerbsAndTheVerbsBelowThem) {
  EXPECT_EQ(offered("prog "), (Words{"draw", "model"}));
  EXPECT_EQ(offered("prog mo"), Words{"model"});
  EXPECT_EQ(offered("prog model "), (Words{"get", "list"}));
  EXPECT_EQ(offered("prog model g"), Words{"get"});
}

TEST_P(Completion, OffersTheOptionsOfTheVerbInOneSpelling) {
  EXPECT_EQ(offered("prog draw --dr"), Words{"--dry-run"});
  EXPECT_EQ(offered("prog draw a.yaml --n"), Words{"--n-samples"});
  EXPECT_EQ(offered("prog draw --out"), Words{"--output"});
  EXPECT_EQ(offered("prog model get --he"), Words{"--help"});
  EXPECT_EQ(offered("prog --ver"), Words{"--version"});
}

TEST_P(Completion, OffersTheValuesOfOptionsAndArgumentsThatHaveChoices) {
  EXPECT_EQ(offered("prog draw --format "), (Words{"csv", "json"}));
  EXPECT_EQ(offered("prog draw a.yaml --dry-run --format j"), Words{"json"});
  EXPECT_EQ(offered("prog model get sm"), Words{"small"});
}

TEST_P(Completion, OffersFilesForAllElse) {
  EXPECT_EQ(offered("prog draw no"), Words{"notes.txt"});
  EXPECT_EQ(offered("prog draw --output no"), Words{"notes.txt"});
  EXPECT_EQ(offered("prog draw -o no"), Words{"notes.txt"});
}

TEST_P(Completion, TakesAValueForNoVerb) {
  EXPECT_EQ(offered("prog draw --output model --form"), Words{"--format"});
  EXPECT_EQ(offered("prog draw model --format "), (Words{"csv", "json"}));
}

TEST_P(Completion, TakesAValueBehindAnEqualsSign) { EXPECT_EQ(offered("prog draw --format=j"), Words{"json"}); }

INSTANTIATE_TEST_SUITE_P(Shells, Completion, ::testing::Values("bash", "zsh", "fish"),
                         [](const auto& shell) { return std::string(shell.param); });

TEST(CompletionScript, RefusesAShellThatItDoesNotKnow) {
  EXPECT_THROW(completion_script("tcsh", Example().line.declared()), Error);
}

}  // namespace
}  // namespace kvc::test
