// Looks into the caches of one prompt: what they hold against what they were given, and what that does to the model.
#pragma once

#include <functional>
#include <map>

#include "contract/probe_settings.h"
#include "generate/exact_cache.h"
#include "generate/generator.h"

namespace kvc {

struct ProbeRequest {
  std::vector<int64_t> prompt_ids;
  std::vector<int64_t> answer_ids;  // that the model gave at full precision; empty: computed here
  std::vector<const Compressor*> compressors;
  uint64_t sequence_key = 0;
  StopRule stop;
  Sampling sampling;
  ProbeSettings settings;
  bool dumps = false;
  std::set<const Compressor*> keep_all = {};  // of the compressors, those that may not drop a token
};

struct Probed {
  std::string error;  // why the compressor failed; the rest holds only when it is empty
  std::vector<ProbeRow> values;
  std::map<std::string, at::Tensor> dump;  // all tensors that the values were computed from, where asked for
};

// Step t of decoding is the one that reads token t of the answer; its logits choose token t + 1. (Those that choose
// token 0 are the exact prefill's, the same for all.)
class Probe {
 public:
  // All outlive it.
  Probe(const Transformer& model, const Tokenizer& tokenizer, MemoryMeter& meter);

  // Called with i before the code of request.compressors[i] runs, and with -1 after it.
  using Entering = std::function<void(int compressor)>;
  void on_entering(Entering entering);

  // One for each compressor. First the prompt, then the answer's tokens fed through all caches (teacher-forced), then
  // each compressor on its own from new caches (free-running). Throws Error where the model cannot take the prompt.
  std::vector<Probed> run(const ProbeRequest& request);

 private:
  struct Subject;
  struct Prompt;

  std::vector<Generation> generate(const ProbeRequest& request, const std::vector<const Compressor*>& compressors);
  Prompt prefill(const ProbeRequest& request, std::vector<Subject>& subjects);
  void end_prompt(const ProbeRequest& request, const Prompt& prompt, std::vector<Subject>& subjects,
                  PromptEnd& prompt_end);
  CacheStep step_of(Subject& subject);
  void audit_prompt(const Prompt& prompt, Subject& subject);
  void read_answer(const std::vector<int64_t>& answer, Prompt& prompt, std::vector<Subject>& subjects);
  void look_at_end(const Prompt& prompt, Subject& subject);
  void run_free(const ProbeRequest& request, const std::vector<int64_t>& answer, const Prompt& prompt,
                std::vector<Subject>& subjects);
  void close(Subject& subject);
  template <class Body>
  void inside(Subject& subject, const Body& body);

  const Transformer& model_;
  const Tokenizer& tokenizer_;
  MemoryMeter& meter_;
  Generator generator_;
  Entering entering_;
  bool runs_subjects_ = false;  // what the generator enters is a request's compressor
};

}  // namespace kvc
