// chat MODEL_DIR SETTING < lines: {"system": ..., "user": ...} a line in, {"name": ..., "text": ..., "ids": [...]} a
// line out: the chat format that an experiment with chat_template SETTING takes for the model, and the prompt in it.
#include <iostream>
#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "prompt/model_chat.h"
#include "tokenizer/tokenizer.h"

int main(int argc, char** argv) try {
  if (argc != 3) return std::cerr << "usage: chat MODEL_DIR SETTING < lines\n", 2;
  const auto tokenizer = kvc::Tokenizer::load(argv[1]);
  const auto chat = kvc::choose_chat_template(argv[2], argv[1], KVC_SOURCE_DIR);
  for (std::string line; std::getline(std::cin, line);) {
    const auto input = nlohmann::json::parse(line);
    const auto turn =
        kvc::render_turn(chat, input.at("system").get<std::string>(), input.at("user").get<std::string>());
    std::cout << nlohmann::json{{"name", chat ? chat->name : "none"},
                                {"text", turn.text},
                                {"ids", tokenizer.encode(turn.text, turn.add_special_tokens)}}
              << '\n';
  }
} catch (const kvc::Error& e) {
  return std::cerr << e.what() << '\n', 2;
}
