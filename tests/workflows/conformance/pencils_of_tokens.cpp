// Methods that encode token by token, that encode all again, and that keep some.
#include "pencil_formulas.h"

namespace kvc::conformance::pencil {

namespace {

// quanto and hqq: the window is full at `residual` tokens, but never at one, and leaves with the next append.
Bytes requantized(const json& options, const Lengths& x, bool rows_k, bool rows_v) {
  Sheet sheet;
  const int64_t w = std::max<int64_t>(2, options.at("residual").get<int64_t>()), b = bits_of(options);
  const int64_t g = options.at("group_size").get<int64_t>(), waiting = x.n_new == 0 ? 0 : (x.n_new - 1) % w + 1;
  const int64_t n = x.n() - waiting;
  const auto of = [&](CacheTensor tensor, bool rows) {
    const int64_t groups = rows ? x.head_dim * up(x.n_kv_heads * n, g) : up(x.width() * n, g);
    sheet.add(tensor, codes, groups * g * b / 8);
    sheet.add(tensor, scales, groups * number(options)), sheet.add(tensor, zeros, groups * number(options));
    sheet.add(tensor, recent, waiting * x.width() * number(options));
  };
  of(CacheTensor::k, rows_k), of(CacheTensor::v, rows_v);
  return sheet.bytes;
}
}  // namespace

Bytes full(const json& options, const Lengths& x) {
  Sheet sheet;
  sheet.both(recent, x.width() * x.n() * (options.at("dtype") == "fp32" ? 4 : 2));
  return sheet.bytes;
}

Bytes token_group(const json& options, const Lengths& x) {
  Sheet sheet;
  const int64_t g = options.at("group_size").get<int64_t>(), rows = x.n_kv_heads * x.n();
  sheet.both(codes, rows * words(x.head_dim, bits_of(options)));
  sheet.both(scales, rows * (x.head_dim / g) * number(options));
  sheet.both(zeros, rows * (x.head_dim / g) * number(options));
  return sheet.bytes;
}

// recent > 0: K in runs of `recent`, V one by one beyond the window; 0: K in runs of g, V at once but the newest.
Bytes kivi(const json& options, const Lengths& x) {
  Sheet sheet;
  const int64_t b = bits_of(options), g = options.at("group_size").get<int64_t>(),
                r = options.at("recent").get<int64_t>();
  const int64_t run = r > 0 ? r : g, n_k0 = x.n_prompt / run * run, n_v0 = std::max<int64_t>(0, x.n_prompt - r);
  const int64_t n_k = n_k0 + passed_on(x.n_prompt - n_k0, x.n_new, run);
  const int64_t n_v = x.n_new == 0 ? n_v0 : std::max(n_v0, x.n() - 1 - r);
  const auto of = [&](CacheTensor tensor, int64_t n) {
    sheet.add(tensor, codes, x.width() * n * b / 8);
    sheet.add(tensor, scales, x.width() * n / g * number(options));
    sheet.add(tensor, zeros, x.width() * n / g * number(options));
    sheet.add(tensor, recent, x.width() * (x.n() - n) * number(options));
  };
  of(CacheTensor::k, n_k), of(CacheTensor::v, n_v);
  return sheet.bytes;
}

Bytes window(const json& options, const Lengths& x) {
  Sheet sheet;
  const int64_t most = options.at("sinks").get<int64_t>() + options.at("recent").get<int64_t>();
  sheet.both(recent, x.width() * std::min(x.n(), most) * number(options));
  return sheet.bytes;
}

Bytes h2o(const json& options, const Lengths& x) {
  Sheet sheet;
  const auto share = [&](const char* name) {
    return static_cast<int64_t>(options.at(name).get<double>() * static_cast<double>(x.n_prompt));
  };
  const int64_t budget = share("heavy_ratio") + std::max<int64_t>(4, share("recent_ratio"));
  const int64_t held = std::min(x.n(), budget + (x.n_new > 0 ? 1 : 0));
  sheet.both(recent, x.width() * held * number(options));
  sheet.add(CacheTensor::shared, index, 4 * x.n_kv_heads * held);
  sheet.add(CacheTensor::shared, scores, 4 * x.n_kv_heads * held);
  return sheet.bytes;
}

Bytes snapkv(const json& options, const Lengths& x) {
  Sheet sheet;
  const int64_t capacity = options.at("capacity").get<int64_t>();
  sheet.both(recent, x.width() * (std::min(x.n_prompt, capacity) + x.n_new) * number(options));
  if (x.n_prompt > capacity) sheet.add(CacheTensor::shared, index, 4 * x.n_kv_heads * capacity);
  return sheet.bytes;
}

Bytes tada(const json& options, const Lengths& x) {
  Sheet sheet;
  const int64_t r = options.at("recent").get<int64_t>(), in_prompt = r == 0 ? x.n_prompt : x.n_prompt / r * r;
  const int64_t n = r == 0 ? x.n() : in_prompt + passed_on(x.n_prompt - in_prompt, x.n_new, r);
  const int64_t b = std::stoll(options.at("bits").get<std::string>()), rows = x.n_kv_heads * n;  // the lowest layer's
  sheet.both(means, n * x.head_dim * number(options));
  sheet.both(codes, rows * words(x.head_dim, b));
  sheet.both(scales, rows * number(options)), sheet.both(zeros, rows * number(options));
  sheet.both(recent, (x.n() - n) * x.width() * number(options));
  return sheet.bytes;
}

Bytes rtn(const json& options, const Lengths& x) {
  Sheet sheet;
  const bool one_step = options.at("scope") == "tensor";
  sheet.both(codes, x.n_kv_heads * x.n() * words(x.head_dim, bits_of(options)));
  sheet.both(scales, (one_step ? 1 + x.n_new : x.n()) * number(options));
  return sheet.bytes;
}

Bytes quanto(const json& options, const Lengths& x) {
  return requantized(options, x, options.at("axis_k") == -1, options.at("axis_v") == -1);
}
Bytes hqq(const json& options, const Lengths& x) { return requantized(options, x, false, false); }

Bytes fp8(const json&, const Lengths& x) {
  Sheet sheet;
  sheet.both(codes, x.width() * x.n());
  sheet.both(scales, 4 * x.n_kv_heads);
  return sheet.bytes;
}

Bytes nvfp4(const json&, const Lengths& x) {
  Sheet sheet;
  sheet.both(codes, x.n_kv_heads * x.n() * words(x.head_dim, 4));
  sheet.both(scales, x.n_kv_heads * x.n() * (x.head_dim / 16) + 4);
  return sheet.bytes;
}

Bytes mxfp4(const json&, const Lengths& x) {
  Sheet sheet;
  sheet.both(codes, x.n_kv_heads * x.n() * words(x.head_dim, 4));
  sheet.both(scales, x.n_kv_heads * x.n() * (x.head_dim / 32));
  return sheet.bytes;
}

// Keys are sketched as soon as `buffer` of them are there; values leave a window of `buffer`.
Bytes qjl(const json& options, const Lengths& x) {
  Sheet sheet;
  const int64_t buffer = options.at("buffer").get<int64_t>(), C = options.at("outlier_channels").get<int64_t>();
  const int64_t n_k = x.n() / buffer * buffer, n_v = std::max<int64_t>(x.n() - buffer, 0), H = x.n_kv_heads;
  const int64_t g = options.at("group_size").get<int64_t>(), f = number(options);
  const int64_t outlier_signs = C > 0 ? options.at("outlier_sketch").get<int64_t>() : 0;
  sheet.add(CacheTensor::k, sketch, H * n_k * (options.at("sketch").get<int64_t>() + outlier_signs) / 8);
  sheet.add(CacheTensor::k, norms, H * n_k * (C > 0 ? 2 : 1) * f);
  sheet.add(CacheTensor::k, index, H * C * (options.at("outliers") == "prompt" ? 1 : n_k / g));
  sheet.add(CacheTensor::k, recent, x.width() * (x.n() - n_k) * f);
  sheet.add(CacheTensor::v, codes, H * n_v * words(x.head_dim, options.at("value_bits").get<int64_t>()));
  sheet.add(CacheTensor::v, scales, H * n_v * (x.head_dim / g) * f);
  sheet.add(CacheTensor::v, zeros, H * n_v * (x.head_dim / g) * f);
  sheet.add(CacheTensor::v, recent, x.width() * (x.n() - n_v) * f);
  return sheet.bytes;
}

// All but the outliers' own 4 bytes each, which the values decide.
Bytes kvquant(const json& options, const Lengths& x) {
  Sheet sheet;
  const int64_t b = bits_of(options), M = x.width(), f = number(options);
  const int64_t first = options.at("first_tokens").get<int64_t>(),
                least = options.at("calibration_tokens").get<int64_t>();
  const int64_t n = x.n() - first >= least ? x.n() - first : 0;
  sheet.both(codes, n * words(M, b));
  sheet.both(sparse_index, 2 * n);  // how many outliers each token has
  if (n > 0) {
    sheet.add(CacheTensor::k, zeros, M * f), sheet.add(CacheTensor::k, scales, M * f);
    sheet.add(CacheTensor::v, zeros, n * f), sheet.add(CacheTensor::v, scales, n * f);
    if (options.at("levels") == "non_uniform") sheet.both(codebook, (int64_t{1} << b) * f);
  }
  sheet.both(recent, (x.n() - n) * M * f);
  return sheet.bytes;
}

Bytes turboquant(const json& options, const Lengths& x) {
  Sheet sheet;
  const int64_t b = bits_of(options), rows = x.n_kv_heads * x.n(), f = number(options);
  const bool sketched = options.at("keys") == "inner_product";
  sheet.add(CacheTensor::k, codes, rows * words(x.head_dim, sketched ? b - 1 : b));
  sheet.add(CacheTensor::v, codes, rows * words(x.head_dim, b));
  sheet.both(norms, rows * f);
  if (!sketched) return sheet.bytes;
  sheet.add(CacheTensor::k, sketch, rows * words(x.head_dim, 1));
  sheet.add(CacheTensor::k, norms, rows * f);
  return sheet.bytes;
}

}  // namespace kvc::conformance::pencil
