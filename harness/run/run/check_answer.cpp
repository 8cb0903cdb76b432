#include "run/check_answer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "kvc/check.h"
#include "kvc/footprint.h"

namespace kvc {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 50;  // of anything, and the most of anything that is counted
constexpr double kSlack = 1e-3;                   // of a sum of logarithms in fp32
constexpr double kClockSlack = 1;                 // seconds

template <class Value, class Expected>
void expect_equal(const char* name, const Value& value, const Expected& expected) {
  KVC_CHECK(value == expected, name, " is ", value, ", expected ", expected);
}

void expect_within(const char* name, int64_t value, int64_t least, int64_t most) {
  KVC_CHECK(value >= least && value <= most, name, " is ", value, ", expected ", least, " to ", most);
}

void expect_finite(const char* name, double value, double least, double most) {
  KVC_CHECK(value >= least && value <= most, name, " is ", value, ", expected ", least, " to ", most);
}

int64_t size_of(const std::vector<int64_t>& ids) { return static_cast<int64_t>(ids.size()); }

bool holds(const std::vector<int64_t>& ids, int64_t id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); }

// What follows from the job, and from how many tokens were generated, alone.
struct Expected {
  int64_t n_prompt = 0;  // of the first sequence
  int64_t n_new = 0;     // of the first sequence
  int64_t n_cached = 0;  // tokens that all caches of a layer hold together, the last of each answer left out
};

// The text of generated ids, as the worker cuts it.
std::string text_of(const GenerateJob& job, const GenerateResult& result, const AnswerFacts& facts, bool& has_stop) {
  const auto text = facts.tokenizer.answer(result.ids);
  size_t end = std::string::npos;
  for (const auto& stop : job.stop.stop_strings) end = std::min(end, text.find(stop));
  has_stop = end != std::string::npos;
  return text.substr(0, end);
}

void check_generation(const GenerateJob& job, const GenerateResult& result, const AnswerFacts& facts) {
  const auto n_new = static_cast<int64_t>(result.ids.size());
  for (const int64_t id : result.ids) expect_within("a token's id", id, 0, facts.grid.vocab_size - 1);
  bool has_stop = false;
  KVC_CHECK(text_of(job, result, facts, has_stop) == result.text, "the text is not that of its ", n_new, " tokens");
  expect_within("n_new_tokens", n_new, 1, std::max<int64_t>(1, job.stop.max_new_tokens));
  auto ends = facts.grid.eos_ids;
  ends.insert(ends.end(), job.stop.eos_ids.begin(), job.stop.eos_ids.end());
  for (int64_t i = 0; i + 1 < n_new; ++i) {
    KVC_CHECK(!holds(ends, result.ids[static_cast<size_t>(i)]), "token ", i, " of ", n_new, " ends the answer");
  }
  const auto n_tokens = size_of(job.prompt.prompt_ids) + n_new;
  const std::map<std::string, bool> reasons{{"eos", holds(ends, result.ids.back())},
                                            {"stop", has_stop},
                                            {"limit", n_new >= job.stop.max_new_tokens},
                                            {"context", n_tokens >= facts.grid.context}};
  const auto reason = reasons.find(result.stop_reason);
  KVC_CHECK(reason != reasons.end() && reason->second, "stop_reason is '", result.stop_reason.substr(0, 20),
            "', which its ", n_new, " tokens do not give");
}

void check_likelihoods(const LikelihoodJob& job, const LikelihoodResult& result) {
  expect_equal("the number of scored texts", result.likelihoods.size(), job.prompts.size());
  for (size_t t = 0; t < job.prompts.size(); ++t) {
    const auto& text = job.prompts[t];
    expect_equal("the number of continuations", result.likelihoods[t].size(), text.continuations.size());
    for (size_t c = 0; c < text.continuations.size(); ++c) {
      const auto& measured = result.likelihoods[t][c];
      const auto n = text.continuations[c].size() - static_cast<size_t>(text.n_given);
      const size_t n_compared = job.reference >= 0 ? n : 0;
      expect_equal("the number of scored tokens", measured.log_likelihoods.size(), n);
      expect_equal("the number of divergences", measured.kl.size(), n_compared);
      expect_equal("the number of compared tokens", measured.top1_same.size(), n_compared);
      expect_equal("the number of acceptances", measured.acceptance.size(), n_compared);
      for (const double value : measured.log_likelihoods) expect_finite("a log-likelihood", value, -1e9, kSlack);
      for (const double value : measured.kl) expect_finite("a divergence", value, -kSlack, 1e9);
      for (const auto same : measured.top1_same) expect_within("top1_same", same, 0, 1);
      for (const double value : measured.acceptance) expect_finite("an acceptance", value, 0, 1);
    }
  }
}

const std::set<std::string>& byte_kinds() {
  static const std::set<std::string> kinds = [] {
    std::set<std::string> names;
    for (auto kind = ByteKind::codes; kind <= ByteKind::reserved; kind = static_cast<ByteKind>(int(kind) + 1)) {
      names.insert(to_string(kind));
    }
    return names;
  }();
  return kinds;
}

// -> all bytes, those of uncompressed tokens
std::pair<int64_t, int64_t> sums_of(const CacheResult& result, const AnswerFacts& facts) {
  std::set<std::tuple<int64_t, int64_t, std::string, std::string>> seen;
  int64_t all = 0, recent = 0;
  for (const auto& row : result.bytes) {
    expect_within("a layer", row.layer, 0, facts.grid.shape.n_layers - 1);
    expect_within("a stage", row.stage, 0, static_cast<int64_t>(facts.compressor.stages.size()));
    KVC_CHECK(row.tensor == "k" || row.tensor == "v" || row.tensor == "shared", "bytes of a tensor that there is not");
    KVC_CHECK(byte_kinds().contains(row.kind), "bytes of a kind that there is not");
    KVC_CHECK(seen.insert({row.layer, row.stage, row.tensor, row.kind}).second, "bytes are listed twice");
    expect_within("bytes of a kind", row.bytes, 0, kMostBytes / (1 << 20));
    if (row.kind != to_string(ByteKind::reserved)) all += row.bytes;
    if (row.kind == to_string(ByteKind::recent)) recent += row.bytes;
  }
  return {all, recent};
}

// Of a text of n_values values of K and V, of which sliding windows show n_seen to the last token: caches may drop others.
void check_held(int64_t kv_bytes, int64_t kv_bytes_fp16, int64_t recent_bytes, int64_t n_encoded, int64_t n_values,
                int64_t n_seen, const CellRecord& compressor) {
  expect_equal("kv_bytes_fp16", kv_bytes_fp16, 2 * n_values);
  expect_within("kv_bytes", kv_bytes, 0, kMostBytes);
  expect_within("n_encoded_numbers", n_encoded, 0, n_values);
  expect_within("recent_bytes", recent_bytes, 0, std::min(kv_bytes, 2 * (n_values - n_encoded)));
  if (compressor.evicts || compressor.simulated) return;
  // What is neither encoded nor evicted is there to 16 bits; half of them, for what a code without loss may save.
  const int64_t least = n_seen - n_encoded;
  KVC_CHECK(kv_bytes >= least, "kv_bytes is ", kv_bytes, ", which cannot hold ", least, " values that are not encoded");
}

void check_seconds(const CacheResult& result, const AnswerFacts& facts) {
  const auto& m = result.measured;
  double sum = 0;
  for (const double seconds : {m.prefill_seconds, m.encode_seconds, m.attend_seconds, m.other_seconds}) {
    expect_finite("a time", seconds, 0, facts.seconds + kClockSlack);
    sum += seconds;
  }
  expect_finite("the sum of times", sum, 0, facts.seconds + kClockSlack);
  std::set<int64_t> seen;
  for (const auto& stage : result.stages) {
    expect_within("a stage", stage.stage, 0, static_cast<int64_t>(facts.compressor.stages.size()));
    KVC_CHECK(seen.insert(stage.stage).second, "a stage is listed twice");
    for (const double seconds : {stage.encode_seconds, stage.attend_seconds}) {
      expect_finite("a stage's time", seconds, -kClockSlack, facts.seconds + kClockSlack);
    }
  }
}

void check_caches(const Expected& expected, const CacheResult& result, const AnswerFacts& facts) {
  const auto& m = result.measured;
  const auto& shape = facts.grid.shape;
  const int64_t n_values = 2 * shape.n_layers * shape.n_kv_heads * shape.head_dim * expected.n_cached;
  expect_equal("n_prompt_tokens", m.n_prompt_tokens, expected.n_prompt);
  expect_within("n_reused_tokens", m.n_reused_tokens, 0, expected.n_prompt);
  expect_equal("n_new_tokens", m.n_new_tokens, expected.n_new);
  expect_within("n_encoded_tokens", m.n_encoded_tokens, 0, expected.n_cached);
  const auto [all, recent] = sums_of(result, facts);
  expect_equal("kv_bytes", m.kv_bytes, all);
  expect_within("recent_bytes", m.recent_bytes.value_or(0), 0, recent);
  // Several sequences of one sample may each be shorter than a window.
  const int64_t least = engine_bytes(shape, 1), most = shape.has_windows() ? m.kv_bytes_fp16 : 2 * n_values;
  expect_within("kv_bytes_engine", m.kv_bytes_engine.value_or(-1), shape.has_windows() ? least : most, most);
  check_held(m.kv_bytes, m.kv_bytes_fp16, m.recent_bytes.value_or(0), m.n_encoded_numbers.value_or(0), n_values,
             m.kv_bytes_engine.value_or(0) / 2, facts.compressor);
  KVC_CHECK(std::isnan(m.paper_bytes) || std::isfinite(m.paper_bytes), "paper_bytes is ", m.paper_bytes);
  for (const double error : {m.k_error, m.v_error}) expect_finite("an error of K or V", error, 0, 1e30);
  expect_within("peak_weights_bytes", m.peak_weights_bytes, 0, kMostBytes);
  expect_within("peak_kv_bytes", m.peak_kv_bytes, 0, kMostBytes);
  expect_within("peak_workspace_bytes", m.peak_workspace_bytes, 0, kMostBytes);
  if (m.peak_bytes) {
    expect_within("peak_bytes", *m.peak_bytes, 0, kMostBytes);
    const int64_t other = *m.peak_bytes - m.peak_weights_bytes - m.peak_kv_bytes - m.peak_workspace_bytes;
    expect_equal("peak_other_bytes", m.peak_other_bytes.value_or(other + 1), other);
  }
  check_seconds(result, facts);
}

// Of an answer and the job that it is of: each kind of answer to the same kind of job.
struct Check {
  const AnswerFacts& facts;

  void operator()(const GenerateJob& job, const GenerateResult& result) const {
    check_generation(job, result, facts);
    const auto n_prompt = size_of(job.prompt.prompt_ids), n_new = size_of(result.ids);
    check_caches({n_prompt, n_new, n_prompt + n_new - 1}, result, facts);
  }

  void operator()(const LikelihoodJob& job, const LikelihoodResult& result) const {
    check_likelihoods(job, result);
    const auto& first = job.prompts.front();
    Expected expected{size_of(first.prompt_ids), size_of(first.continuations.front())};
    for (const auto& prompt : job.prompts) {
      for (const auto& ids : prompt.continuations) {
        expected.n_cached += size_of(prompt.prompt_ids) + std::max<int64_t>(0, size_of(ids) - 1);
      }
    }
    check_caches(expected, result, facts);
  }

  void operator()(const ProbeJob&, const ProbeResult& result) const {
    for (const auto& row : result.rows) {
      expect_within("a layer", row.layer, -1, facts.grid.shape.n_layers - 1);
      expect_within("a head", row.head, -1, facts.grid.shape.n_heads - 1);
      expect_within("a step", row.step, -1, kMostBytes);
      KVC_CHECK(!std::isinf(row.value), "a probe's value is ", row.value);
    }
  }

  void operator()(const SizesJob& job, const SizesResult& result) const {
    const auto& shape = facts.grid.shape;
    auto asked = job.n_tokens, answered = std::vector<int64_t>();
    for (const auto& size : result.sizes) answered.push_back(size.n_tokens);
    std::sort(asked.begin(), asked.end());
    std::sort(answered.begin(), answered.end());
    KVC_CHECK(asked == answered, "sizes at ", answered.size(), " lengths, expected the ", asked.size(), " asked for");
    for (const auto& size : result.sizes) {
      if (!size.error.empty()) continue;
      KVC_CHECK(
          size.kv_bytes && size.kv_bytes_fp16 && size.kv_bytes_engine && size.recent_bytes && size.n_encoded_numbers,
          "a size lacks a number");
      expect_equal("kv_bytes_engine", *size.kv_bytes_engine, engine_bytes(shape, size.n_tokens));
      check_held(*size.kv_bytes, *size.kv_bytes_fp16, *size.recent_bytes, *size.n_encoded_numbers,
                 2 * shape.n_layers * shape.n_kv_heads * shape.head_dim * size.n_tokens, *size.kv_bytes_engine / 2,
                 facts.compressor);
      expect_within("shared_bytes", size.shared_bytes.value_or(0), -kMostBytes, kMostBytes);
    }
  }

  void operator()(const auto&, const FailedResult& failed) const {
    KVC_CHECK(!failed.error.empty(), "it failed without an error");
  }

  void operator()(const auto&, const auto& result) const {
    throw Error(concat("its kind is ", result.kName, ", which was not asked for"));
  }
};

}  // namespace

void check_answer(const Job& job, const JobResult& result, const AnswerFacts& facts) {
  std::visit(Check{facts}, job.asked, result.answer);
}

}  // namespace kvc
