// What of the model is quantized beside the cache, as an experiment says it.
#pragma once

#include <cstdint>
#include <string>

namespace kvc {

struct QuantizationChoice {     // 0 and "": nothing
  int64_t weight_bits = 0;      // of the layers' matrices: 8, 4, 3, 2
  int64_t group_size = 0;       // columns that share a scale; 0: a row
  int64_t activation_bits = 0;  // of what these matrices read: 2 to 8
  double alpha = 0.5;           // of SmoothQuant
  std::string smoothing_file;   // that `kvc smooth` made; "": no smoothing
};

}  // namespace kvc
