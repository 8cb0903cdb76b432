// What an experiment or a command line says of chat prompts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "text/yaml_read.h"

namespace kvc {

// What strftime_now says unless another day is asked for: the day that Llama 3.1 and 3.2 name where there is no clock.
inline constexpr const char* kChatDate = "2024-07-26";

struct ChatSettings {
  std::string form = "auto";  // auto: the model's own where it has one; own; none; or a name of prompts/chat
  nlohmann::ordered_json options = nlohmann::ordered_json::object();  // variables of the template: enable_thinking
  std::string date = kChatDate;                                       // of strftime_now
};

// A map as variables. Throws Error file:line:column for names that the prompt itself takes.
nlohmann::ordered_json read_chat_options(const YamlValue& value);

// Throws Error file:line:column unless it is a day.
std::string read_chat_date(const YamlValue& value);

}  // namespace kvc
