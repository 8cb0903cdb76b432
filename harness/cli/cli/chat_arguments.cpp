#include "cli/chat_arguments.h"

namespace kvc {

void add_chat_options(Verb verb, ChatArguments& arguments) {
  verb.add_option("--chat", arguments.form,
                  "a user's turn in a chat template: auto (the model's own, where it has one), own, none, or a name of "
                  "prompts/chat")
      .show_default();
  verb.add_option("--chat-options", arguments.options, "variables of the chat template, as 'enable_thinking: false'");
  verb.add_option("--chat-date", arguments.date, "what a chat template that asks for the date is told").show_default();
}

ChatSettings chat_settings(const ChatArguments& arguments) {
  ChatSettings settings;
  settings.form = arguments.form;
  settings.date = arguments.date;
  if (arguments.options.empty()) return settings;
  const bool is_map = arguments.options.starts_with('{');
  settings.options =
      read_chat_options(parse_yaml("--chat-options", is_map ? arguments.options : "{" + arguments.options + "}"));
  return settings;
}

}  // namespace kvc
