// bench_tokenizer TOKENIZER_DIR TEXTS: reads a JSON string a line from TEXTS, then for each line on standard input
// encodes all texts once and prints {"seconds": CPU time, "ids": how many}. Driven by tokenizer.py.
#include "tokenizer/tokenizer.h"

#include <ctime>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

int main(int argc, char** argv) {
  if (argc != 3) return std::cerr << "usage: bench_tokenizer TOKENIZER_DIR TEXTS\n", 2;
  const auto tokenizer = kvc::Tokenizer::load(argv[1]);
  std::vector<std::string> texts;
  std::ifstream file(argv[2]);
  for (std::string line; std::getline(file, line);) texts.push_back(nlohmann::json::parse(line).get<std::string>());
  const auto cpu_seconds = [] {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  for (std::string line; std::getline(std::cin, line);) {
    const double start = cpu_seconds();
    size_t n_ids = 0;
    for (const auto& text : texts) n_ids += tokenizer.encode(text, true).size();
    const double seconds = cpu_seconds() - start;
    std::cout << nlohmann::json{{"seconds", seconds}, {"ids", n_ids}} << std::endl;
  }
}
