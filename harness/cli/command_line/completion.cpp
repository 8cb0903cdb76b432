#include "command_line/completion.h"

#include <algorithm>

#include "kvc/check.h"

namespace kvc {
namespace {

// A verb by the words that name it: "" the program, "model list".
struct NamedVerb {
  std::string words;
  const DeclaredVerb* verb;
};

void add_verbs(const DeclaredVerb& verb, const std::string& words, std::vector<NamedVerb>& all) {
  all.push_back({words, &verb});
  for (const auto& below : verb.verbs) add_verbs(below, words.empty() ? below.name : words + " " + below.name, all);
}

std::vector<NamedVerb> all_verbs(const DeclaredVerb& program) {
  std::vector<NamedVerb> all;
  add_verbs(program, "", all);
  return all;
}

std::string joined(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

// "VERB/WORD" of each verb, separated by `between`: the steps by which a script finds the verb of a line.
std::string steps(const DeclaredVerb& program, const std::string& between) {
  std::vector<std::string> all;
  for (const auto& [words, verb] : all_verbs(program)) {
    for (const auto& below : verb->verbs) all.push_back("'" + words + "/" + below.name + "'");
  }
  return joined(all, between);
}

// The arms of a case over "VERB options", "VERB verbs", "VERB --option" and "VERB 1" (its first argument).
std::string bash_words(const DeclaredVerb& program) {
  std::string arms;
  const auto arm = [&](const std::string& key, const std::vector<std::string>& words) {
    arms += "    '" + key + "') words='" + joined(words, " ") + "' ;;\n";
  };
  for (const auto& [words, verb] : all_verbs(program)) {
    std::vector<std::string> options, verbs;
    int n_arguments = 0;
    for (const auto& below : verb->verbs) verbs.push_back(below.name);
    for (const auto& option : verb->options) {
      const std::vector<std::string> values = option.choices.empty() ? std::vector<std::string>{"*"} : option.choices;
      if (option.by_position) {
        arm(concat(words, " ", ++n_arguments), values);
        continue;
      }
      options.insert(options.end(), option.names.begin(), option.names.end());
      if (option.takes_value) arm(words + " " + joined(option.names, "' | '" + words + " "), values);
    }
    arm(words + " options", options);
    if (!verbs.empty()) arm(words + " verbs", verbs);
  }
  return arms;
}

std::string bash_script(const DeclaredVerb& program) {
  static constexpr const char* kScript = R"(# Completion of NAME for bash: source <(NAME completion bash)
_NAME_words() {  # -> words: what may stand there; * for any value, {} for nothing known
  words=
  case "$1" in
$ARMS  esac
}
_NAME() {
  local current=${COMP_WORDS[COMP_CWORD]} verb= before= words= word i n=1
  [ "$current" != = ] || current=
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    [ "$word" != = ] || continue
    _NAME_words "$verb verbs"
    case " $words " in *" $word "*) verb=${verb:+$verb }$word; continue ;; esac
    _NAME_words "$verb $before"
    if [ -n "$words" ]; then before=; continue; fi
    case $word in -*) before=${word//_/-} ;; *) n=$((n + 1)) ;; esac
  done
  _NAME_words "$verb $before"
  if [ -z "$words" ]; then
    case $current in
      -*) _NAME_words "$verb options" ;;
      *) _NAME_words "$verb verbs"; [ -n "$words" ] || _NAME_words "$verb $n" ;;
    esac
  fi
  COMPREPLY=()
  [ "$words" = '*' ] || COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _NAME NAME
)";
  return replaced(replaced(kScript, "NAME", program.name), "$ARMS", bash_words(program));
}

// As a specification of zsh's _arguments holds it, in single quotes.
std::string zsh_text(const std::string& text) {
  auto escaped = replaced(text, "\\", "\\\\");
  for (const char* special : {"[", "]", ":"}) escaped = replaced(escaped, special, std::string("\\") + special);
  return replaced(escaped, "'", "'\\''");
}

std::string zsh_values(const DeclaredOption& option) {
  return option.choices.empty() ? "_files" : "(" + joined(option.choices, " ") + ")";
}

std::string zsh_arguments(const DeclaredVerb& verb) {
  std::string text = "      _arguments -s";
  for (const auto& option : verb.options) {
    const auto help = zsh_text(option.help);
    if (option.by_position) text += " \\\n        '*:" + help + ":" + zsh_values(option) + "'";
    for (const auto& name : option.by_position ? std::vector<std::string>() : option.names) {
      const bool with_equals = option.takes_value && name.starts_with("--");
      text += " \\\n        '*" + name + (with_equals ? "=[" : "[") + help + "]" +
              (option.takes_value ? ":value:" + zsh_values(option) : "") + "'";
    }
  }
  return text;
}

std::string zsh_arm(const NamedVerb& named) {
  std::string text = "    ('" + named.words + "')\n";
  auto arguments = zsh_arguments(*named.verb);
  if (!named.verb->verbs.empty()) {
    text += "      local -a verbs=(";
    for (const auto& below : named.verb->verbs) text += "\n        '" + below.name + ":" + zsh_text(below.help) + "'";
    text += ")\n";
    arguments += " \\\n        '1: :{_describe verb verbs}'";
  }
  return text + arguments + " ;;\n";
}

std::string zsh_script(const DeclaredVerb& program) {
  static constexpr const char* kScript = R"(#compdef NAME
# Completion of NAME for zsh: source <(NAME completion zsh), or a file _NAME in a folder of $fpath
_NAME() {
  local verb=
  local -i i=2
  while (( i < CURRENT )); do
    case "$verb/$words[i]" in
      ($STEPS) verb="${verb:+$verb }$words[i]" ;;
      (*) break ;;
    esac
    (( i++ ))
  done
  words=(NAME "${(@)words[i,-1]}")
  (( CURRENT -= i - 2 ))
  case $verb in
$ARMS  esac
}
if [[ $funcstack[1] = _NAME ]]; then _NAME; else compdef _NAME NAME; fi
)";
  std::string arms;
  for (const auto& named : all_verbs(program)) arms += zsh_arm(named);
  const auto script = replaced(replaced(kScript, "NAME", program.name), "$STEPS", steps(program, "|"));
  return replaced(script, "$ARMS", arms);
}

std::string fish_text(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string fish_option(const DeclaredOption& option) {
  std::string text;
  for (const auto& name : option.names) {
    if (!option.by_position) text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!option.choices.empty()) text += " -x -a " + fish_text(joined(option.choices, " "));
  if (option.choices.empty() && option.takes_value) text += " -r -F";
  return text + " -d " + fish_text(option.help);
}

std::string fish_script(const DeclaredVerb& program) {
  static constexpr const char* kScript = R"(# Completion of NAME for fish: NAME completion fish | source
function __NAME_at
  set -l verb ''
  for word in (commandline -opc)[2..-1]
    switch "$verb/$word"
      case $STEPS
        set verb (string trim -- "$verb $word")
    end
  end
  test "$verb" = "$argv[1]"
end
)";
  auto script = replaced(replaced(kScript, "NAME", program.name), "$STEPS", steps(program, " "));
  for (const auto& [words, verb] : all_verbs(program)) {
    const auto line = "complete -c " + program.name + " -n \"__" + program.name + "_at '" + words + "'\"";
    for (const auto& below : verb->verbs)
      script += line + " -f -a " + below.name + " -d " + fish_text(below.help) + "\n";
    for (const auto& option : verb->options) {
      if (!option.by_position || !option.choices.empty()) script += line + fish_option(option) + "\n";
    }
  }
  return script;
}

}  // namespace

std::vector<std::string> completion_shells() { return {"bash", "zsh", "fish"}; }

std::string completion_script(const std::string& shell, const DeclaredVerb& program) {
  if (shell == "bash") return bash_script(program);
  if (shell == "zsh") return zsh_script(program);
  KVC_CHECK(shell == "fish", "completion: shell '", shell, "', allowed: bash, zsh, fish");
  return fish_script(program);
}

}  // namespace kvc
