// Each plugin's footprint, tensor by tensor and kind by kind, against the formula at the head of its file, at every
// token of caches that start on, one before and one after each border of its flushes and run past the next ones.
#include <algorithm>
#include <set>

#include "method.h"
#include "pencils.h"

namespace kvc::conformance {

static void PrintTo(const Pencil& pencil, std::ostream* out) { *out << pencil.plugin; }

namespace {

std::string text_of(const Bytes& bytes) {
  std::string text;
  for (const auto& [row, n] : bytes) text += concat(" ", to_string(row.first), ".", to_string(row.second), "=", n);
  return text;
}

Bytes held_by(const LayerCache& cache) {
  Bytes bytes;
  const auto footprint = cache.footprint();
  for (const auto& row : footprint.rows())
    if (row.bytes != 0) bytes[{row.tensor, row.kind}] += row.bytes;
  return bytes;
}

// Values decide how many outliers there are; each has a value and a 16-bit channel. Takes them out of `held`.
void take_counted_outliers(Bytes& held, const nlohmann::json& options) {
  const int64_t number = options.value("precision", "real") == "real" ? 2 : 4;
  for (const auto tensor : {CacheTensor::k, CacheTensor::v}) {
    const auto values = held.find({tensor, ByteKind::sparse_values});
    if (values == held.end()) continue;
    held[{tensor, ByteKind::sparse_index}] -= values->second / number * 2;
    held.erase(values);
  }
}

struct PencilOf : testing::TestWithParam<Pencil> {};

// The prompts of a pencil: each border, one before and one after, and one token alone.
std::set<int64_t> prompts_of(const Pencil& pencil) {
  std::set<int64_t> all = {1};
  for (const int64_t border : pencil.borders)
    for (const int64_t n : {border - 1, border, border + 1}) all.insert(std::max<int64_t>(n, 1));
  return all;
}

// Tokens of K and of V that are encoded: of n all but those that wait exactly.
std::pair<int64_t, int64_t> encoded(const Bytes& bytes, const nlohmann::json& options, const ModelShape& model,
                                    int64_t n) {
  const bool wide = options.value("precision", "real") == "exact" || options.value("dtype", "") == "fp32";
  const auto waiting = [&](CacheTensor tensor) {
    const auto row = bytes.find({tensor, ByteKind::recent});
    return row == bytes.end() ? 0 : row->second / (model.n_kv_heads * model.head_dim * (wide ? 4 : 2));
  };
  return {n - waiting(CacheTensor::k), n - waiting(CacheTensor::v)};
}

void expect_pencil(const Pencil& pencil, const Compressor& compressor, const nlohmann::json& options,
                   const ModelShape& model, int64_t n_prompt, int64_t n_new) {
  const auto input = ordinary_input(model, n_prompt + n_new);
  const auto cache = compressor.make_cache(layer_info(model, 0, 0, {}));
  cache->append(tokens_of(input, 0, n_prompt));
  for (int64_t step = 0; step <= n_new; ++step) {
    if (step > 0) cache->append(tokens_of(input, n_prompt + step - 1, 1));
    const auto expected = pencil.formula(options, {model.n_kv_heads, model.head_dim, n_prompt, step});
    auto held = held_by(*cache);
    int64_t total = 0;
    for (const auto& [row, n] : held) total += n;
    ASSERT_EQ(cache->footprint().total_bytes(), total);
    const auto [n_k, n_v] = encoded(expected, options, model, n_prompt + step);
    ASSERT_EQ(cache->n_encoded_tokens(), std::max(n_k, n_v)) << pencil.plugin;
    const int64_t n_evicted = cache->length() - cache->positions().size(1);
    ASSERT_EQ(cache->n_encoded_numbers(), (n_k + n_v - 2 * n_evicted) * model.n_kv_heads * model.head_dim)
        << pencil.plugin;
    if (pencil.has_counted_outliers) take_counted_outliers(held, options);
    ASSERT_EQ(held, expected) << pencil.plugin << " " << options.dump() << ", " << model.n_kv_heads << " x "
                              << model.head_dim << ", " << n_prompt << " + " << step << "\n  held  " << text_of(held)
                              << "\n  pencil" << text_of(expected);
  }
}

TEST_P(PencilOf, FootprintIsTheFormula) {
  const auto& pencil = GetParam();
  for (const auto& options : pencil.options) {
    const auto compressor = plugin(pencil.plugin).make(options);
    for (const auto& model : {ModelShape{1, 4, 2, 64}, ModelShape{1, 4, 4, pencil.other_head_dim}}) {
      compressor->check_model(model);
      const int64_t past_all = 2 * *std::max_element(pencil.borders.begin(), pencil.borders.end()) + 2;
      for (const int64_t n_prompt : prompts_of(pencil))
        expect_pencil(pencil, *compressor, options, model, n_prompt, past_all);
      expect_pencil(pencil, *compressor, options, model, 300, 2);  // an index into it takes two bytes
    }
  }
}

TEST_P(PencilOf, SizesAt4KAnd32KTokensAreTheFormula) {
  const auto& pencil = GetParam();
  const auto& options = pencil.options.front();
  const ModelShape model{1, 4, 2, 64};
  const auto compressor = plugin(pencil.plugin).make(options);
  compressor->check_model(model);
  for (const int64_t n_tokens : {4096, 32768}) {
    const bool is_quadratic = std::string(pencil.plugin) == "h2o";  // half a minute at 32K
    if (n_tokens == 4096 || !is_quadratic) expect_pencil(pencil, *compressor, options, model, n_tokens, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, PencilOf, testing::ValuesIn(pencils()),
                         [](const auto& info) { return std::string(info.param.plugin); });

}  // namespace
}  // namespace kvc::conformance
