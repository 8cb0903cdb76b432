#include "conformance/checks.h"
#include "sandbox/host_state.h"

namespace kvc::conformance {

const std::vector<Check>& all_checks() {
  static const std::vector<Check> checks = {
      {"descriptor_is_complete", "name, summary, source, deviations and options are complete and valid",
       descriptor_is_complete},
      {"models_are_refused_or_served", "check_model refuses a model with one line, or caches for it work",
       models_are_refused_or_served},
      {"shapes_are_as_declared", "length, positions, dequantize and attended have the declared shapes",
       shapes_are_as_declared},
      {"short_prompts_are_served", "prompts of 1 to 7 tokens, shorter than every buffer", short_prompts_are_served},
      {"attention_equals_reference", "attend equals causal attention over attended()", attention_equals_reference},
      {"decoding_300_steps_holds_together", "the same over 300 steps, at and between buffer boundaries",
       decoding_300_steps_holds_together},
      {"prompts_come_in_chunks", "a prompt in chunks is stored like a whole one, or as a valid cache",
       prompts_come_in_chunks},
      {"hidden_tokens_are_dropped", "what a sliding window hides can be dropped, and attention stays as it was",
       hidden_tokens_are_dropped},
      {"answers_come_from_what_is_held", "attention, attended() and dequantize() agree, and use only the stored bytes",
       answers_come_from_what_is_held},
      {"estimates_are_unbiased", "attended() equals dequantize(), or its inner products are unbiased",
       estimates_are_unbiased},
      {"footprint_equals_allocated_bytes",
       "footprint() equals the allocator's bytes, and nothing is allocated elsewhere",
       footprint_equals_allocated_bytes},
      {"process_grows_by_the_footprint", "the same for the process's memory, open files and child processes",
       process_grows_by_the_footprint},
      {"same_input_gives_same_bits", "two caches of the same tokens are equal", same_input_gives_same_bits},
      {"two_threads_do_not_mix", "two caches filled by two threads equal caches filled by one", two_threads_do_not_mix},
      {"one_by_one_equals_at_once", "tokens appended one by one are stored like tokens appended at once",
       one_by_one_equals_at_once},
      {"prefix_is_local", "what is stored for a prefix does not depend on what follows", prefix_is_local},
      {"adversarial_inputs_stay_finite", "constant, zero, tiny, negative and outlier tokens give finite results",
       adversarial_inputs_stay_finite},
      {"extreme_inputs_are_refused_or_finite", "values at and beyond fp16's range are refused, or finite",
       extreme_inputs_are_refused_or_finite},
      {"bad_tokens_are_refused", "NaN, infinity and wrong shapes are refused", bad_tokens_are_refused},
      {"inputs_are_not_modified", "the caller's tensors are neither changed nor kept", inputs_are_not_modified},
      {"sixteen_bit_inputs_are_taken", "fp16 and bf16 tokens are taken as their values", sixteen_bit_inputs_are_taken},
      {"missing_queries_are_taken_or_refused", "tokens without queries are taken, or refused",
       missing_queries_are_taken_or_refused},
      {"batched_attention_equals_single", "attend_batch equals attend, bit by bit", batched_attention_equals_single},
      {"joint_prefill_serves_all_layers",
       "joint prefill: caches ended over all layers store, answer and count as separate ones",
       joint_prefill_serves_all_layers},
      {"lossy_means_lossy", "a lossy plugin compresses with a loss, a lossless one returns its input",
       lossy_means_lossy},
      {"error_falls_as_bits_rise", "more bits, less error", error_falls_as_bits_rise},
  };
  return checks;
}

Outcome run_check(const Check& check, const Subject& subject) {
  const auto complaint = [](const std::string& text) {
    return Outcome{.complaints = {text.substr(0, text.find('\n'))}};
  };
  const HostState before;
  try {
    auto outcome = check.run(subject);
    if (const auto changed = before.put_back(); !changed.empty()) {
      outcome.complaints.push_back(concat("leaves ", changed, " changed"));
    }
    return outcome;
  } catch (const Error& e) {
    return complaint(concat("throws: ", e.what()));
  } catch (const std::exception& e) {
    return complaint(concat("throws what is no kvc::Error: ", e.what()));
  } catch (...) {
    return complaint("throws what is no exception");
  }
}

}  // namespace kvc::conformance
