// Seeded mutations of a valid text: of its bytes, and of the JSON values in it. A case is its seed and number, nothing
// else: the same two give the same bytes on every machine.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace kvc_fuzz {

class Mutator {
 public:
  // `words` are strings of the format: names of fields and types, values that matter.
  Mutator(uint64_t seed, uint64_t case_number, const std::vector<std::string>& words);

  // One to four mutations of one of the seeds: of JSON, or where they are strings, of these bytes.
  std::string mutate(const std::vector<nlohmann::json>& seeds);

  uint64_t below(uint64_t n) { return random_() % n; }  // n > 0
  bool one_in(uint64_t n) { return below(n) == 0; }
  std::string word();       // of the format, repeated, joined, spoiled
  nlohmann::json number();  // at the edges of types

 private:
  nlohmann::json any_value(const nlohmann::json& root);
  void mutate_json(nlohmann::json& root);
  void mutate_scalar(nlohmann::json& value);
  void mutate_children(nlohmann::json& parent, const nlohmann::json& root);
  void mutate_text(std::string& text, size_t at);
  void mutate_bytes(std::string& text, const std::string& other);

  std::mt19937_64 random_;
  const std::vector<std::string>& words_;
};

}  // namespace kvc_fuzz
