// Which KV heads are retrieval heads: a file of scores, one line a layer, one column a KV head.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace duoattention {

using Scores = std::vector<std::vector<double>>;  // [layer][KV head]
using Heads = std::vector<std::vector<bool>>;     // the same: whether it is a retrieval head

// Numbers with tabs or spaces between them, as the published full_attention_heads.tsv; clipped to 0 ... 1. Throws
// Error, naming file and line, on anything else, and where lines have not as many numbers.
Scores read_scores(const std::string& file);

// The ceil(sparsity * (N - 1)) of all N heads that score least are not (the quantile of the published code, 0 none, 1
// all); of equal ones the earlier.
Heads retrieval_by_sparsity(const Scores& scores, double sparsity);
// Those that reach the threshold are.
Heads retrieval_by_threshold(const Scores& scores, double threshold);

}  // namespace duoattention
