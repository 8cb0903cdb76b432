// chat MODEL_DIR SETTING [OPTIONS] < lines: {"system": ..., "user": ...} a line in, {"name": ..., "text": ..., "ids":
// [...]} a line out: the chat template that an experiment with chat_template SETTING and chat_options OPTIONS takes for
// the model, and the prompt in it.
#include <iostream>
#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "prompt/model_chat.h"
#include "tokenizer/tokenizer.h"

int main(int argc, char** argv) try {
  if (argc != 3 && argc != 4) return std::cerr << "usage: chat MODEL_DIR SETTING [OPTIONS] < lines\n", 2;
  const auto tokenizer = kvc::Tokenizer::load(argv[1]);
  kvc::ChatSettings settings{.form = argv[2]};
  if (argc == 4) settings.options = nlohmann::ordered_json::parse(argv[3]);
  const auto chat = kvc::choose_chat_template(settings, argv[1], KVC_SOURCE_DIR);
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
