// A set of reference outputs, $KVC_SHARED/oracle: oracle.json (records and their parameters), inputs (K_<tag>, V_<tag>
// [1, H, n, d], q_<tag>), samples (the output of a record at index_<tag>), full (whole tensors), init (starts of the
// power iteration). Nothing here knows a tag, a shape or how many records there are.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvc::census {

struct Record {
  std::string id;      // "gear.GEARL b2 r4 s0.0 L3|K_A"
  std::string method;  // "gear.GEARL", up to the first space
  std::string words;   // "b2 r4 s0.0 L3"
  std::string tensor;  // "K_A", after the bar
  std::string tag;     // "A"
  nlohmann::json fields;

  bool of_keys() const { return tensor.rfind("K_", 0) == 0; }
  int64_t bits() const { return fields.at("bits").get<int64_t>(); }
  // Entries a group; `whole` where the record says "vector".
  int64_t group(int64_t whole) const {
    return fields.at("group").is_string() ? whole : fields.at("group").get<int64_t>();
  }
  bool has_word(const std::string& word) const;
};

Record parsed_id(const std::string& id);

struct OracleSet {
  std::vector<Record> records;
  std::map<std::string, at::Tensor> inputs, samples, full, init;

  at::Tensor input(const std::string& name) const;  // [H, n, d] fp32; throws where the set lacks it
  at::Tensor input(const Record& record) const { return input(record.tensor); }
  const Record* find(const std::string& id) const;
  // P0 [H, d, r] of a record with a seed: the set's own, or what the public code draws from the seed.
  at::Tensor start(const Record& record, int64_t rank) const;
};

// The set, read once. Empty where KVC_SHARED does not name a folder with oracle/oracle.json.
const OracleSet& oracle_set();

struct Tolerance {
  double samples;                // absolute, at the samples
  double n_beyond;               // fraction of samples that may lie beyond it: codes at half a step
  double rel_fro;                // relative
  double max_abs;                // absolute
  double rel_fro_floor = 1e-12;  // absolute, for records whose error is rounding
};

// The tolerances of quantizers that sum nothing: rounding, and one entry in 10,000 at half a step.
Tolerance of_quantizer(double samples = 1e-6);

// Holds y [H, n, d] fp32 against a record's samples, rel_fro and max_abs, and prints one line.
void expect_reproduced(const OracleSet& set, const Record& record, const at::Tensor& y, const Tolerance& allowed,
                       const std::string& how);

// Holds y against a whole tensor of `full`: the fraction of entries farther apart than `tolerance` is at most n_beyond.
void expect_whole(const std::string& name, const at::Tensor& expected, const at::Tensor& y, double tolerance,
                  double n_beyond, const std::string& how);

std::string sha256_of(const at::Tensor& x);

// What a plugin with these options makes of x [H, n, d] as its prompt, [H, n, d] fp32; as K where as_keys, else as V.
at::Tensor through_plugin(const std::string& name, const nlohmann::json& options, const at::Tensor& x, bool as_keys,
                          const at::Tensor& other);

}  // namespace kvc::census
