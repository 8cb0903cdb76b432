// tokenize TOKENIZER_DIR < lines: a JSON string per line in, {"ids": [...], "text": "...", "all": "..."} per line out:
// the ids with special tokens, and their text without and with them. A line {"ids": [...]} is only decoded.
#include <iostream>
#include <nlohmann/json.hpp>

#include "tokenizer/tokenizer.h"

int main(int argc, char** argv) {
  if (argc != 2) return std::cerr << "usage: tokenize TOKENIZER_DIR < lines\n", 2;
  const auto tokenizer = kvc::Tokenizer::load(argv[1]);
  for (std::string line; std::getline(std::cin, line);) {
    const auto input = nlohmann::json::parse(line);
    const auto ids = input.is_string() ? tokenizer.encode(input.get<std::string>(), true)
                                       : input.at("ids").get<std::vector<int64_t>>();
    std::cout << nlohmann::json{{"ids", ids},
                                {"text", tokenizer.decode(ids, true)},
                                {"all", tokenizer.decode(ids, false)}}
              << '\n';
  }
}
