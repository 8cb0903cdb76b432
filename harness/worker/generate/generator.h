// Runs prompts through a model and their compressors: one exact prefill for all compressors of a prompt, then decoding
// of all sequences together, each from its own compressed cache. A sequence that ends makes room for the next.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "generate/batch_attention.h"
#include "generate/generation.h"
#include "generate/prompt_end.h"
#include "generate/shared_prefix.h"
#include "generate/stop_scanner.h"
#include "hosted/kernel_watch.h"
#include "model/transformer.h"
#include "sandbox/memory_meter.h"
#include "tokenizer/tokenizer.h"

namespace kvc {

// A sequence's bits do not depend on what is decoded beside it, on the order, or on whether its prefix was reused.
class Generator {
 public:
  // All three outlive the generator. share_prefix: the K and V of the tokens that a request says others will have too
  // are kept, and not computed again for a prompt that begins with them.
  Generator(const Transformer& model, const Tokenizer& tokenizer, MemoryMeter& meter, bool share_prefix = true);
  ~Generator();

  // Called before the code of compressor i of the request with that ticket runs, and with -1 after it, so that a crash
  // can be laid at its door.
  using Entering = std::function<void(int64_t ticket, int compressor)>;
  void on_entering(Entering entering) { entering_ = std::move(entering); }

  // Gets the logits [V] that each of a sequence's tokens is chosen from.
  using OnLogits = std::function<void(int64_t ticket, size_t compressor, const at::Tensor& logits)>;
  void on_logits(OnLogits on_logits) { on_logits_ = std::move(on_logits); }

  // Prefills the prompt and appends each layer's exact K, V to a new cache of every sequence; with a compressor that
  // observes the prompt or ends its prefill over all layers (PromptEnd), that too. A compressor that throws
  // fails its own sequences, which the next step() hands out. -> ticket
  int64_t add(GenerationRequest request);

  // One token of every sequence; those that have ended by it.
  std::vector<Finished> step();

  // How far the sequences are that have not ended, references left out.
  struct UnderWay {
    int64_t ticket;
    int compressor;
    int64_t n_new_tokens;
    int64_t n_prefilled;  // tokens of the prompt that were computed for it, and what that took: the ticket's
    double prefill_seconds;
    double seconds;  // of encoding, attention and the rest of its steps; without the prefill
  };
  std::vector<UnderWay> under_way() const;

  int64_t n_sequences() const { return static_cast<int64_t>(sequences_.size()); }
  int64_t kv_bytes() const;  // that all caches hold now, those of references too

 private:
  struct Sequence;
  struct Request;

  void prefill_exactly(Request& request, std::list<Sequence>& sequences, std::span<const int64_t> prompt);
  void prefill_in_chunks(Request& request, std::list<Sequence>& sequences, std::span<const int64_t> prompt);
  void end_prompt(std::list<Sequence>& sequences, PromptEnd& prompt_end, const std::vector<at::Tensor>& last_q);
  void audit_prompt(Sequence& sequence, const std::shared_ptr<const AuditedPrompt>& audited, const at::Tensor& q);
  CacheStep step_of(Sequence& sequence);
  bool choose_token(Sequence& sequence) const;
  static StepToken token_to_read(const Sequence& sequence);
  void score(int64_t id, Sequence& sequence) const;
  std::vector<Sequence*> going_references();
  Finished finish(std::list<Sequence>::iterator sequence);
  void close(Sequence& sequence, const MemoryMeter::Held& held);
  int64_t n_shareable(const GenerationRequest& request) const;
  void note_peak();
  std::vector<bool> layers_to_keep(const GenerationRequest& asked);
  int64_t n_values(int64_t n_tokens) const;

  const Transformer& model_;
  const Tokenizer& tokenizer_;
  MemoryMeter& meter_;
  bool share_prefix_;
  int64_t weights_bytes_;
  Entering entering_;
  OnLogits on_logits_;
  int64_t next_ticket_ = 0;
  std::mt19937 random_{std::random_device()()};  // of which layer exact tokens are kept, and when caches are asked
  std::set<const Compressor*> audited_;          // those of which a prompt was
  SharedPrefix prefix_;
  KernelWatch kernel_watch_;
  std::map<int64_t, Request> requests_;  // by ticket, while it has sequences
  std::list<Sequence> sequences_;
};

}  // namespace kvc
