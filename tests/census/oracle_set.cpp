#include "oracle_set.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "kvc/quant/keyed_generator.h"
#include "kvc/quant/low_rank.h"
#include "method.h"
#include "text/files.h"

namespace kvc::census {
namespace {

at::ScalarType scalar_type_named(const std::string& name) {
  if (name == "F32") return at::kFloat;
  if (name == "F16") return at::kHalf;
  if (name == "I32") return at::kInt;
  if (name == "I64") return at::kLong;
  if (name == "U8") return at::kByte;
  throw Error(concat("safetensors: dtype ", name, " is not known to this test"));
}

// An 8-byte header length, a JSON header, raw little-endian data. Empty without the file.
std::map<std::string, at::Tensor> tensors_of(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return {};
  const std::string bytes = read_file(path);
  uint64_t header_bytes = 0;
  KVC_CHECK(bytes.size() >= 8, path.string(), ": too short");
  std::memcpy(&header_bytes, bytes.data(), 8);
  const auto header = nlohmann::json::parse(bytes.substr(8, header_bytes));
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto shape = entry.at("shape").get<std::vector<int64_t>>();
    const auto range = entry.at("data_offsets").get<std::vector<size_t>>();
    auto tensor = at::empty(shape, scalar_type_named(entry.at("dtype")));
    KVC_CHECK(tensor.nbytes() == range[1] - range[0], path.string(), ": ", name, " has a wrong size");
    std::memcpy(tensor.data_ptr(), bytes.data() + 8 + header_bytes + range[0], tensor.nbytes());
    tensors[name] = tensor;
  }
  return tensors;
}

OracleSet read_set() {
  OracleSet set;
  const char* shared = std::getenv("KVC_SHARED");
  if (!shared) return set;
  const auto folder = std::filesystem::path(shared) / "oracle";
  if (!std::filesystem::exists(folder / "oracle.json")) return set;
  set.inputs = tensors_of(folder / "inputs.safetensors");
  set.samples = tensors_of(folder / "samples.safetensors");
  set.full = tensors_of(folder / "full.safetensors");
  set.init = tensors_of(folder / "init.safetensors");
  const auto file = nlohmann::json::parse(read_file(folder / "oracle.json"));
  for (const auto& fields : file.at("records")) {
    auto record = parsed_id(fields.at("id").get<std::string>());
    record.fields = fields;
    set.records.push_back(std::move(record));
  }
  return set;
}

double norm64(const at::Tensor& x) { return x.to(at::kDouble).norm().item<double>(); }

}  // namespace

Record parsed_id(const std::string& id) {
  const auto bar = id.rfind('|'), space = id.find(' ');
  Record record{.id = id, .method = {}, .words = {}, .tensor = id.substr(bar + 1), .tag = {}, .fields = {}};
  record.method = id.substr(0, std::min(space, bar));
  if (space < bar) record.words = id.substr(space + 1, bar - space - 1);
  const bool names_a_side = record.tensor.rfind("K_", 0) == 0 || record.tensor.rfind("V_", 0) == 0;
  record.tag = names_a_side ? record.tensor.substr(2) : record.tensor;  // "K_A", or "A" where both sides are meant
  return record;
}

bool Record::has_word(const std::string& word) const {
  std::istringstream stream(words);
  for (std::string next; stream >> next;)
    if (next == word) return true;
  return false;
}

at::Tensor OracleSet::input(const std::string& name) const {
  const auto found = inputs.find(name);
  KVC_CHECK(found != inputs.end(), "oracle: the inputs hold no ", name);
  KVC_CHECK(found->second.dim() == 4 && found->second.size(0) == 1, "oracle: ", name, " is ", found->second.sizes(),
            ", allowed: [1, heads, tokens, channels]");
  return found->second[0].to(at::kFloat).contiguous();
}

const Record* OracleSet::find(const std::string& id) const {
  for (const auto& record : records)
    if (record.id == id) return &record;
  return nullptr;
}

at::Tensor OracleSet::start(const Record& record, int64_t rank) const {
  const auto seed = record.fields.at("seed").get<uint64_t>();
  const auto x = input(record);
  const auto held = init.find(concat("P0_", record.of_keys() ? "K" : "V", "|", record.tag, "|seed", seed));
  if (held != init.end()) {
    KVC_CHECK(held->second.size(3) == rank, held->first, " has rank ", held->second.size(3), ", not ", rank);
    return held->second[0].to(at::kFloat);
  }
  auto generator = keyed_generator(seed, 0, 0, 0);  // K's start, then V's
  auto drawn = low_rank_start(generator, x.size(0), x.size(1), x.size(2), rank);
  return record.of_keys() ? drawn : low_rank_start(generator, x.size(0), x.size(1), x.size(2), rank);
}

const OracleSet& oracle_set() {
  static const OracleSet set = read_set();
  return set;
}

Tolerance of_quantizer(double samples) {
  return {.samples = samples, .n_beyond = 1e-4, .rel_fro = 1e-6, .max_abs = 2 * samples};
}

std::string sha256_of(const at::Tensor& x) {
  const auto held = x.contiguous();
  return sha256_hex(std::string_view(static_cast<const char*>(held.const_data_ptr()), held.nbytes()));
}

void expect_reproduced(const OracleSet& set, const Record& record, const at::Tensor& y, const Tolerance& allowed,
                       const std::string& how) {
  const auto x = set.input(record);
  ASSERT_EQ(y.sizes(), x.sizes());
  ASSERT_TRUE(set.samples.count(record.id)) << "no samples";
  const auto index = set.samples.at("index_" + record.tag).to(at::kLong);
  const auto difference = (y.flatten().index_select(0, index) - set.samples.at(record.id).to(at::kFloat)).abs();
  const double largest = difference.max().item<double>();
  const auto n_beyond = difference.gt(allowed.samples).sum().item<int64_t>();
  const double rel_fro = norm64(y.to(at::kDouble) - x.to(at::kDouble)) / norm64(x);
  const double max_abs = (y - x).abs().max().item<double>();
  const double expected_rel = record.fields.at("rel_fro").get<double>();
  const double expected_max = record.fields.at("max_abs").get<double>();
  const bool same_bytes = sha256_of(y.to(at::kFloat)) == record.fields.at("sha256").get<std::string>();
  std::printf("%s via %s: samples within %.1e (%.1e), rel_fro %.7g (%+.0e of it), max_abs %.6g (%+.0e)%s\n",
              record.id.c_str(), how.c_str(), largest, allowed.samples, rel_fro, rel_fro / expected_rel - 1, max_abs,
              max_abs - expected_max, same_bytes ? ", every byte" : "");
  const auto n_allowed = static_cast<int64_t>(std::ceil(allowed.n_beyond * static_cast<double>(index.numel())));
  EXPECT_LE(n_beyond, n_allowed) << "samples farther off than " << allowed.samples << ", the farthest by " << largest;
  EXPECT_LE(largest, 2.1 * expected_max + allowed.samples) << "farther off than one step";
  EXPECT_NEAR(rel_fro, expected_rel, allowed.rel_fro * expected_rel + allowed.rel_fro_floor);
  EXPECT_NEAR(max_abs, expected_max, allowed.max_abs);
}

void expect_whole(const std::string& name, const at::Tensor& expected, const at::Tensor& y, double tolerance,
                  double n_beyond, const std::string& how) {
  ASSERT_EQ(y.numel(), expected.numel()) << name;
  const auto difference = (y.flatten().to(at::kDouble) - expected.flatten().to(at::kDouble)).abs();
  const double beyond = difference.gt(tolerance).to(at::kDouble).mean().item<double>();
  std::printf("%s via %s: %ld entries, %.2g of them farther off than %.1e, the farthest by %.1e\n", name.c_str(),
              how.c_str(), static_cast<long>(y.numel()), beyond, tolerance, difference.max().item<double>());
  EXPECT_LE(beyond, n_beyond) << name;
}

at::Tensor through_plugin(const std::string& name, const nlohmann::json& options, const at::Tensor& x, bool as_keys,
                          const at::Tensor& other) {
  const auto compressor = conformance::plugin(name).make(options);
  const auto cache = compressor->make_cache({.n_heads = x.size(0), .n_kv_heads = x.size(0), .head_dim = x.size(2)});
  cache->append({.q = {}, .k = as_keys ? x : other, .v = as_keys ? other : x});
  EXPECT_EQ(cache->n_encoded_tokens(), x.size(1));
  const auto kv = cache->dequantize();
  return (as_keys ? kv.k : kv.v).contiguous();
}

}  // namespace kvc::census
