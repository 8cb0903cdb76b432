// What a worker answers for one compressor, from all sequences that it ran for the job.
#pragma once

#include <vector>

#include "generate/generation.h"
#include "model/transformer.h"
#include "wire/messages.h"

namespace kvc {

struct PlacedGeneration {
  size_t prompt, continuation;  // of the job's prompts; 0, 0 of a prompt that was answered
  Generation generation;
};

// Bytes, tokens encoded and times are sums over the sequences, errors and peaks the largest; text, ids and counts
// of tokens are the first sequence's. One that failed fails all.
JobResult job_result(const Job& job, int compressor_index, const Compressor& compressor, const Transformer& model,
                     std::vector<PlacedGeneration>& ended);

}  // namespace kvc
