// A compressor's label with what ran in the place of {option}.
#pragma once

#include "store/result_store.h"
#include "wire/compressor_choice.h"

namespace kvc {

// "KIVI {bits} bits" -> "KIVI 2 bits", by every option of the opened compressor, defaults too; of a composition by the
// options of its parts that say one thing. Throws Error at the compressor's place where there is no such option.
std::string filled_label(const CompressorChoice& choice, const CellRecord& record);

}  // namespace kvc
