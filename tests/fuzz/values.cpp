#include "values.h"

#include <limits>

namespace kvc_fuzz {

using nlohmann::json;

std::string repeated(const std::string& text, size_t n) {
  std::string out;
  while (n-- > 0) out += text;
  return out;
}

const std::vector<json>& numbers() {
  static const std::vector<json> all = {0,
                                        1,
                                        -1,
                                        2,
                                        3,
                                        7,
                                        255,
                                        256,
                                        4096,
                                        65537,
                                        1 << 24,
                                        INT32_MAX,
                                        int64_t{1} << 31,
                                        int64_t{1} << 32,
                                        int64_t{1} << 53,
                                        int64_t{1} << 62,
                                        INT64_MAX,
                                        INT64_MIN,
                                        UINT64_MAX,
                                        uint64_t{1} << 63,
                                        0.0,
                                        -0.0,
                                        0.5,
                                        1.0,
                                        2.0,
                                        1e-320,
                                        1e-38,
                                        1e38,
                                        1e308,
                                        -1e308,
                                        std::numeric_limits<double>::epsilon()};
  return all;
}

const std::vector<std::string>& fragments() {
  static const std::vector<std::string> all = {"1e999",
                                               "-1e999",
                                               "-",
                                               "-0",
                                               "00",
                                               "0x10",
                                               "1.",
                                               ".5",
                                               "1e",
                                               "NaN",
                                               "Infinity",
                                               "nul",
                                               "tru",
                                               "\"",
                                               "\\",
                                               "\\u",
                                               "\\ud800",
                                               "\\ud800\\udc00",
                                               "\\u0000",
                                               "\xff",
                                               "\xc0\x80",
                                               "\xed\xa0\x80",
                                               "\xf4\x90\x80\x80",
                                               "\xe2\x96",
                                               "\n",
                                               std::string(1, '\0'),
                                               "\xef\xbb\xbf",
                                               "//",
                                               "/**/",
                                               ",",
                                               ":",
                                               "[",
                                               "]",
                                               "{",
                                               "}",
                                               "[]",
                                               "{}",
                                               "\"a\":1,",
                                               ",,",
                                               "18446744073709551616",
                                               "-9223372036854775809",
                                               "123456789012345678901234567890",
                                               repeated("[", 1000),
                                               repeated("[", 20000) + repeated("]", 20000),
                                               "&a [*a, *a]",
                                               repeated("{\"a\":", 1000),
                                               repeated("[", 100000),
                                               repeated("9", 5000),
                                               repeated(" ", 5000)};
  return all;
}

}  // namespace kvc_fuzz
