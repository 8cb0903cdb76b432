// What the answer to one sample measured, from the generator over the worker's message to the database. Each field is a
// column of the table `sample`, and its name stands once, in visit().
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kvc {

// Filled on its way: by the generator what one sequence measured, by the worker what all sequences of a sample add up
// to, by the parent what it cut off the prompt.
struct Measurement {
  int64_t n_prompt_tokens = 0;         // as the model read it
  int64_t n_prompt_tokens_before = 0;  // of the prompt before it was truncated; n_prompt_tokens where it was not
  int64_t n_reused_tokens = 0;         // of the prompt, those whose K and V an earlier prompt had brought
  int64_t n_new_tokens = 0;
  int64_t kv_bytes = 0;                      // at the end: the sum of the caches' footprints
  int64_t kv_bytes_fp16 = 0;                 // of the same tokens at 16 bits
  std::optional<int64_t> kv_bytes_engine;    // the same of those that a layer's sliding window leaves: engine_bytes()
  double paper_bytes = 0;                    // by the paper's closed form; NaN: it has none
  int64_t n_encoded_tokens = 0;              // the most of a layer; the same for all of a method that treats them alike
  std::optional<int64_t> n_encoded_numbers;  // of K and V and all layers, held in lossy form
  std::optional<int64_t> recent_bytes;       // of kv_bytes, tokens held uncompressed
  double k_error = 0, v_error = 0;           // relative Frobenius error of the prompt's K and V over all layers
  int64_t peak_weights_bytes = 0;
  int64_t peak_kv_bytes = 0;  // the most that the caches and their own work held at a time
  // The most that model, shared prefix and this sequence held at a time, less weights and KV; in a batch the forward
  // pass is all sequences'.
  int64_t peak_workspace_bytes = 0;
  std::optional<int64_t> peak_bytes;        // the most that everything held at a time, other sequences included
  std::optional<int64_t> peak_other_bytes;  // of it, what is none of the three above
  double prefill_seconds = 0;               // the exact forward alone, one for all sequences of a request
  double encode_seconds = 0;                // of prompt and decoding
  double attend_seconds = 0;
  double other_seconds = 0;  // of decoding; of what a step shares, an equal part

  // Calls field(name, value) for each; self is a Measurement, const or not.
  template <class Self, class Field>
  static void visit(Self& self, Field&& field) {
    field("n_prompt_tokens", self.n_prompt_tokens);
    field("n_prompt_tokens_before", self.n_prompt_tokens_before);
    field("n_reused_tokens", self.n_reused_tokens);
    field("n_new_tokens", self.n_new_tokens);
    field("kv_bytes", self.kv_bytes);
    field("kv_bytes_fp16", self.kv_bytes_fp16);
    field("kv_bytes_engine", self.kv_bytes_engine);
    field("paper_bytes", self.paper_bytes);
    field("n_encoded_tokens", self.n_encoded_tokens);
    field("n_encoded_numbers", self.n_encoded_numbers);
    field("recent_bytes", self.recent_bytes);
    field("k_error", self.k_error);
    field("v_error", self.v_error);
    field("peak_weights_bytes", self.peak_weights_bytes);
    field("peak_kv_bytes", self.peak_kv_bytes);
    field("peak_workspace_bytes", self.peak_workspace_bytes);
    field("peak_bytes", self.peak_bytes);
    field("peak_other_bytes", self.peak_other_bytes);
    field("prefill_seconds", self.prefill_seconds);
    field("encode_seconds", self.encode_seconds);
    field("attend_seconds", self.attend_seconds);
    field("other_seconds", self.other_seconds);
  }
};

// Bytes that the caches of one sample hold at its end.
struct ByteRow {
  int64_t layer = 0;
  std::string tensor;  // k, v, shared
  std::string kind;    // codes, scales, ...
  int64_t bytes = 0;
  int64_t stage = 0;  // of a composition, from 1; 0: a plain compressor's, or a composition's own
};

// What the caches of one prompt of made tokens hold, all layers together. Each number is a column of `cell_size`.
struct CacheSize {
  int64_t n_tokens = 0;
  std::string error;  // why there are no numbers; empty: they are there
  std::optional<int64_t> kv_bytes, kv_bytes_fp16;
  std::optional<int64_t> recent_bytes;       // of kv_bytes, tokens held uncompressed
  std::optional<int64_t> shared_bytes;       // beside them: what the compressor holds once for all sequences
  std::optional<int64_t> n_encoded_numbers;  // of K and V and all layers, held in lossy form
  std::optional<int64_t> kv_bytes_engine;    // as Measurement's

  template <class Self, class Field>
  static void visit(Self& self, Field&& field) {
    field("kv_bytes", self.kv_bytes);
    field("kv_bytes_fp16", self.kv_bytes_fp16);
    field("recent_bytes", self.recent_bytes);
    field("shared_bytes", self.shared_bytes);
    field("n_encoded_numbers", self.n_encoded_numbers);
    field("kv_bytes_engine", self.kv_bytes_engine);
  }
};

// Of the sample's encode and attend seconds, those of one stage of a composition (0: its own).
struct StageTimeRow {
  int64_t stage = 0;
  double encode_seconds = 0, attend_seconds = 0;
};

// One number of a probe; -1 where a key does not apply, NaN where there is no number.
struct ProbeRow {
  std::string measure;
  int64_t layer = -1, head = -1;
  std::string tensor;
  int64_t step = -1;
  double value = 0;
};

}  // namespace kvc
