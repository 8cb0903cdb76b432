// The formulas of pencils.h, one a plugin, and what they share.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "pencils.h"

namespace kvc::conformance::pencil {

using nlohmann::json;
using enum ByteKind;

// Bytes of b-bit codes of one row, in 32-bit words.
inline int64_t words(int64_t len, int64_t bits) { return 4 * ((len * bits + 31) / 32); }
inline int64_t up(int64_t n, int64_t of) { return (n + of - 1) / of; }
// Bytes of one float of a compressed form.
inline int64_t number(const json& options) { return options.value("precision", "real") == "real" ? 2 : 4; }
inline int64_t bits_of(const json& options) { return options.at("bits").get<int64_t>(); }

struct Sheet {
  Bytes bytes;
  void add(CacheTensor tensor, ByteKind kind, int64_t n) {
    if (n != 0) bytes[{tensor, kind}] += n;
  }
  void both(ByteKind kind, int64_t n) { add(CacheTensor::k, kind, n), add(CacheTensor::v, kind, n); }
};

// Tokens that a buffer of nb has passed on when n_new tokens came after n_waiting: full buffers leave when the next
// token comes.
inline int64_t passed_on(int64_t n_waiting, int64_t n_new, int64_t buffer) {
  if (n_new == 0) return 0;
  return (n_waiting + n_new - 1) / buffer * buffer;
}

Bytes full(const json& options, const Lengths& x);
Bytes token_group(const json& options, const Lengths& x);
Bytes kcvt(const json& options, const Lengths& x);
Bytes kivi(const json& options, const Lengths& x);
Bytes gear(const json& options, const Lengths& x);
Bytes outlier(const json& options, const Lengths& x);
Bytes gearx(const json& options, const Lengths& x);
Bytes window(const json& options, const Lengths& x);
Bytes h2o(const json& options, const Lengths& x);
Bytes snapkv(const json& options, const Lengths& x);
Bytes tada(const json& options, const Lengths& x);
Bytes rtn(const json& options, const Lengths& x);
Bytes decoquant(const json& options, const Lengths& x);
Bytes quanto(const json& options, const Lengths& x);
Bytes hqq(const json& options, const Lengths& x);
Bytes fp8(const json& options, const Lengths& x);
Bytes nvfp4(const json& options, const Lengths& x);
Bytes mxfp4(const json& options, const Lengths& x);
Bytes qjl(const json& options, const Lengths& x);
Bytes kvquant(const json& options, const Lengths& x);
Bytes turboquant(const json& options, const Lengths& x);

}  // namespace kvc::conformance::pencil
