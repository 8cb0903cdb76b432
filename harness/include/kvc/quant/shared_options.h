// Options of several plugins: one name, one range and one help text each.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>

#include "kvc/compressor.h"
#include "kvc/options.h"
#include "kvc/quant/attention_mass.h"
#include "kvc/quant/precision.h"

namespace kvc {

inline void visit_bits(OptionVisitor& v, int64_t& bits) { v.integer_of("bits", bits, {2, 4, 8}, "bits per code"); }

// `stored` names the floats: "scales and zeros".
inline void visit_precision(OptionVisitor& v, Precision& precision, const char* stored) {
  std::string name = precision == Precision::real ? "real" : "exact";
  v.choice("precision", name, {"real", "exact"},
           concat(stored, " in fp16, or in fp32 to compare with references").c_str());
  precision = precision_named(name);
}

// A buffer whose tokens are compressed together when it is full.
inline void visit_buffer(OptionVisitor& v, int64_t& buffer) {
  v.integer("buffer", buffer, 1, kNoUpperLimit, "uncompressed new tokens; compressed together when full");
}

// Options of a backbone (backbone.h), and of outliers left out of it (corrected_codes.h).
struct BackboneOptions {
  std::string backbone = "kcvt";
  int64_t bits = 4, group_size = 64, buffer = 0;
  std::string fill = "masked";
  Precision precision = Precision::real;

  void visit_codes(OptionVisitor& v, std::initializer_list<const char*> backbones, const char* help,
                   std::initializer_list<int64_t> group_sizes) {
    v.choice("backbone", backbone, backbones, help);
    visit_bits(v, bits);
    v.integer_of("group_size", group_size, group_sizes, "values per group; not used by kcvt");
  }
  void visit_buffer_and_fill(OptionVisitor& v) {
    v.integer("buffer", buffer, 0, kNoUpperLimit, "new tokens compressed together; 0: 20 for kcvt, 64 otherwise");
    v.choice("fill", fill, {"masked", "zero", "mean"},
             "what replaces outliers during quantization; masked: excluded from their group's range");
  }
};

// Options of the low-rank part of a correction (corrected_codes.h).
struct LowRankOptions {
  int64_t rank = 4, decode_rank = 2, loops = 3;

  void visit(OptionVisitor& v) {
    v.integer("rank", rank, 0, 1024, "rank of the error approximation for the prompt, per head; 0: none");
    v.integer("decode_rank", decode_rank, 0, 1024, "the same, for chunks of new tokens");
    v.integer("loops", loops, 1, 100, "power iterations");
  }
  void check_model(const char* method, const ModelShape& model) const {
    const int64_t most = std::max(rank, decode_rank);
    KVC_CHECK(most <= model.head_dim, method, ": rank ", most, " exceeds head_dim ", model.head_dim);
  }
  // GEAR's tables, as a fraction of the fp16 bytes: rho (1/D + 1/n), where rho is rank/2 (factors charged at 8 bits).
  double paper_fraction(const ModelShape& model, int64_t n_prompt_tokens) const {
    const double n = static_cast<double>(std::max<int64_t>(n_prompt_tokens, 1)), rho = static_cast<double>(rank) / 2;
    return rho * (1.0 / static_cast<double>(model.head_dim) + 1 / n);
  }
};

// Options of a cache that re-encodes everything (requantized_cache.h).
inline void visit_requantized(OptionVisitor& v, int64_t& group_size, int64_t& residual) {
  v.integer_of("group_size", group_size, {32, 64, 128}, "values per scale and zero");
  v.integer("residual", residual, 1, kNoUpperLimit,
            "size of the uncompressed window; when full, the whole cache is re-encoded");
}

// For scales that are fixed by the prompt.
inline void visit_headroom(OptionVisitor& v, double& headroom) {
  v.real("headroom", headroom, 1, 256, "factor by which later tokens may exceed the prompt's largest magnitude");
}

// Options of a method that keeps the `capacity` tokens of a prompt with most votes (attention_mass.h), and all later
// tokens.
struct VotingOptions {
  int64_t capacity = 256;
  VoteFormat votes;
  Precision precision = Precision::real;

  void visit_votes(OptionVisitor& v) {
    std::string pooling = votes.by_maximum ? "max" : "avg";
    v.integer("window", votes.window, 1, kNoUpperLimit,
              "last tokens of the prompt, whose queries vote; less than capacity");
    v.integer("kernel", votes.kernel, 1, 255, "pooling width of the votes, in tokens; odd");
    v.choice("pooling", pooling, {"avg", "max"}, "pooling of the votes");
    votes.by_maximum = pooling == "max";
    visit_precision(v, precision, "tokens");
  }
  void check_votes(const char* method) const {
    KVC_CHECK(votes.window < capacity, method, ": window ", votes.window, ", allowed: less than capacity ", capacity);
    KVC_CHECK(votes.kernel % 2 == 1, method, ": kernel ", votes.kernel, ", allowed: odd numbers");
  }
  int64_t n_kept(int64_t n_prompt_tokens, int64_t n_new_tokens) const {
    return std::min(n_prompt_tokens, capacity) + n_new_tokens;
  }
};

// Bits of an uncompressed value.
inline double bits_of(Precision precision) { return 8.0 * static_cast<double>(storage_bytes(precision)); }

// Throws Error, naming the method, if groups of channels do not divide head_dim.
inline void check_group_size(const char* method, int64_t group_size, const ModelShape& model) {
  KVC_CHECK(model.head_dim % group_size == 0, method, ": group_size ", group_size, " does not divide head_dim ",
            model.head_dim);
}

}  // namespace kvc
