// Methods that encode chunks of tokens together: kcvt, outlier, gear, gearx, decoquant.
#include "pencil_formulas.h"

namespace kvc::conformance::pencil {

namespace {

// Codes, steps and minima of one chunk of n tokens of K and V over a backbone.
void add_backbone_chunk(Sheet& sheet, const json& options, const Lengths& x, int64_t n) {
  const std::string name = options.value("backbone", "kcvt");
  if (name == "none" || n == 0) return;
  const int64_t b = bits_of(options), g = options.value("group_size", 64), H = x.n_kv_heads, D = x.head_dim;
  const auto of = [&](CacheTensor tensor, int64_t code_bytes, int64_t n_groups) {
    sheet.add(tensor, codes, code_bytes);
    sheet.add(tensor, scales, n_groups * number(options)), sheet.add(tensor, zeros, n_groups * number(options));
  };
  const int64_t by_token = H * n * words(D, b);
  if (name == "kcvt") {
    of(CacheTensor::k, H * D * words(n, b), H * D);
    of(CacheTensor::v, by_token, n);
  } else if (name == "kivi") {
    of(CacheTensor::k, H * D * words(n, b), H * D * (n / g));
    of(CacheTensor::v, by_token, H * n * (D / g));
  } else {
    of(CacheTensor::k, by_token, H * n * (D / g));
    of(CacheTensor::v, by_token, H * n * (D / g));
  }
}

// Chunks of a prompt and of full buffers after it: what each holds, then the tokens that wait.
void add_chunks(Sheet& sheet, const json& options, const Lengths& x, int64_t buffer, int64_t prompt_unit,
                const std::function<void(int64_t n, bool prompt)>& add) {
  const int64_t in_prompt = x.n_prompt / prompt_unit * prompt_unit, waiting = x.n_prompt - in_prompt;
  // A prompt that leaves more than a buffer is brought down to one at once.
  const int64_t at_once = waiting > buffer ? (waiting - 1) / buffer * buffer : 0;
  const int64_t later = at_once + passed_on(waiting - at_once, x.n_new, buffer);
  if (in_prompt > 0) add(in_prompt, true);
  for (int64_t i = 0; i < later / buffer; ++i) add(buffer, false);
  sheet.both(recent, (x.n() - in_prompt - later) * x.width() * number(options));
}

int64_t per_side(double s, int64_t len) {
  return std::min(static_cast<int64_t>(std::nearbyint(s * static_cast<double>(len) / 2)), len / 2);
}

void add_outliers(Sheet& sheet, const json& options, const Lengths& x, int64_t n) {
  const double s = options.at("sparsity").get<double>();
  const auto of = [&](CacheTensor tensor, int64_t len, int64_t n_vectors) {
    const int64_t entries = 2 * per_side(s, len) * n_vectors;
    sheet.add(tensor, sparse_values, entries * number(options));
    sheet.add(tensor, sparse_index, entries * (len <= 256 ? 1 : 2));
  };
  of(CacheTensor::k, n, x.width()), of(CacheTensor::v, x.width(), n);
}

void add_low_rank(Sheet& sheet, const json& options, const Lengths& x, int64_t n, int64_t rank) {
  const int64_t numbers = n + x.head_dim;  // a column of each factor; of 8 bits with two scales and two zeros
  const int64_t column =
      options.value("factor_bits", 16) == 8 ? numbers + 4 * number(options) : numbers * number(options);
  sheet.both(low_rank, x.n_kv_heads * std::min({rank, n, x.head_dim}) * column);
}

int64_t buffer_of(const json& options) {
  const int64_t buffer = options.at("buffer").get<int64_t>();
  if (buffer > 0) return buffer;
  return options.at("backbone") == "kcvt" ? 20 : 64;
}
int64_t prompt_unit_of(const json& options) {
  const std::string name = options.at("backbone");
  return name == "kcvt" || name == "none" ? 1 : buffer_of(options);
}

// Channels of a token in the mask of n tokens: the smallest multiple of m / gcd(m, n) at the density, both degrees 2.
int64_t mask_degree(int64_t m, int64_t n, double density) {
  const int64_t step = m / std::gcd(m, n);
  for (int64_t d = step;; d += step)
    if (d >= 2 && n * d >= 2 * m && static_cast<double>(d) >= density * static_cast<double>(m)) return d;
}

// Rows of a small tensor: exact, or each as codes with a step.
void add_decoquant_small(Sheet& sheet, const json& options, int64_t rows, int64_t width) {
  const int64_t b = options.at("small_bits").get<int64_t>(), f = number(options);
  if (b == 16) return sheet.both(low_rank, rows * width * f);
  sheet.both(codes, rows * words(width, b));
  sheet.both(scales, rows * f);
}

void add_decoquant_large(Sheet& sheet, const json& options, int64_t rows, int64_t parts, int64_t width) {
  const int64_t b = bits_of(options), f = number(options);
  if (b == 16) return sheet.both(low_rank, rows * parts * width * f);
  sheet.both(codes, rows * parts * words(width, b));
  sheet.both(scales, rows * f);
}

void add_decoquant_chunk(Sheet& sheet, const json& options, const Lengths& x, int64_t n) {
  const int64_t all = x.width(), D = x.head_dim;
  const int64_t tensors = options.at("tensors").get<int64_t>();
  if (options.at("form") != "icl") {
    const int64_t r = std::min(n, all);
    const bool right = options.at("form") == "lm" || n < all;  // which factor is quantized
    add_decoquant_large(sheet, options, right ? all : n, 1, r);
    return add_decoquant_small(sheet, options, right ? n : r, right ? r : all);
  }
  const int64_t c = tensors == 2 ? options.at("factor").get<int64_t>() : tensors == 3 ? 64 : 128;
  const int64_t r = std::min(n * all / c, c), r1 = std::min<int64_t>(8 * r, tensors == 3 ? 8 : 16);
  const int64_t parts = D % c == 0 ? x.n_kv_heads : c % D == 0 ? all / c : 1;
  add_decoquant_large(sheet, options, n, parts, all / c * r / parts);
  if (tensors == 2) return add_decoquant_small(sheet, options, r, c);
  add_decoquant_small(sheet, options, r, 8 * r1);
  if (tensors == 3) return add_decoquant_small(sheet, options, r1, 8);
  const int64_t r2 = std::min<int64_t>(4 * r1, 4);
  add_decoquant_small(sheet, options, r1, 4 * r2);
  add_decoquant_small(sheet, options, r2, 4);
}

}  // namespace

Bytes kcvt(const json& options, const Lengths& x) {
  Sheet sheet;
  add_chunks(sheet, options, x, options.at("buffer").get<int64_t>(), 1,
             [&](int64_t n, bool) { add_backbone_chunk(sheet, options, x, n); });
  return sheet.bytes;
}

Bytes outlier(const json& options, const Lengths& x) {
  Sheet sheet;
  add_chunks(sheet, options, x, buffer_of(options), prompt_unit_of(options), [&](int64_t n, bool) {
    add_backbone_chunk(sheet, options, x, n);
    add_outliers(sheet, options, x, n);
  });
  return sheet.bytes;
}

Bytes gear(const json& options, const Lengths& x) {
  Sheet sheet;
  add_chunks(sheet, options, x, buffer_of(options), prompt_unit_of(options), [&](int64_t n, bool prompt) {
    add_backbone_chunk(sheet, options, x, n);
    add_outliers(sheet, options, x, n);
    const double share = prompt ? options.at("correct_fraction").get<double>() : 1;
    const auto m = static_cast<int64_t>(std::nearbyint(share * static_cast<double>(n)));
    if (m > 0) add_low_rank(sheet, options, x, m, options.at(prompt ? "rank" : "decode_rank").get<int64_t>());
  });
  return sheet.bytes;
}

Bytes gearx(const json& options, const Lengths& x) {
  Sheet sheet;
  const int64_t buffer = options.at("buffer").get<int64_t>();
  const bool merged = options.at("slice") == "merged";
  const int64_t m = merged ? x.width() : x.head_dim;
  const int64_t unit = options.at("stream") == "grouped"  ? buffer
                       : options.at("backbone") == "kivi" ? options.at("group_size").get<int64_t>()
                                                          : 1;
  add_chunks(sheet, options, x, buffer, unit, [&](int64_t n, bool prompt) {
    add_backbone_chunk(sheet, options, x, n);
    const double density = options.at(prompt ? "prompt_density" : "decode_density").get<double>();
    const int64_t degree = mask_degree(m, up(n, buffer) * buffer, density) * (merged ? 1 : x.n_kv_heads);
    sheet.both(sparse_values, n * degree * number(options));
    add_low_rank(sheet, options, x, n, options.at(prompt ? "rank" : "decode_rank").get<int64_t>());
  });
  return sheet.bytes;
}

Bytes decoquant(const json& options, const Lengths& x) {
  Sheet sheet;
  add_chunks(sheet, options, x, options.at("buffer").get<int64_t>(), 1,
             [&](int64_t n, bool) { add_decoquant_chunk(sheet, options, x, n); });
  return sheet.bytes;
}

}  // namespace kvc::conformance::pencil
