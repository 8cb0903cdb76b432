// What verbs that make prompts say of chats: --chat, --chat-options, --chat-date.
#pragma once

#include <string>

#include "command_line/command_line.h"
#include "prompt/chat_settings.h"

namespace kvc {

struct ChatArguments {
  std::string form = "auto", options = {}, date = kChatDate;
};

void add_chat_options(Verb verb, ChatArguments& arguments);
ChatSettings chat_settings(const ChatArguments& arguments);

}  // namespace kvc
