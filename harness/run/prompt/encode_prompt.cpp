#include "prompt/encode_prompt.h"

#include <algorithm>
#include <span>

#include "kvc/check.h"
#include "text/common_prefix.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using Ids = std::vector<int64_t>;
using Side = PromptLimit::Side;

// Tokens that the prompt may have, chat format not counted.
int64_t token_limit(const TaskSpec& spec, const Tokenizer& tokenizer, const PromptSettings& settings) {
  int64_t reserved = 1;  // a refused prompt needs room for one new token only
  if (spec.limit.side != Side::kRefuse) {
    reserved = std::max<int64_t>(1, spec.max_new_tokens);
    if (*settings.chat) {
      const auto frame = render_turn(*settings.chat, settings.system_message, "");
      reserved += static_cast<int64_t>(tokenizer.encode(frame.text, frame.add_special_tokens).size());
    }
  }
  int64_t limit = settings.context - reserved;
  if (spec.limit.max_tokens) limit = std::min(limit, *spec.limit.max_tokens);
  if (settings.max_tokens) limit = std::min(limit, *settings.max_tokens);
  KVC_CHECK(limit >= 2, "task ", spec.name, ": ", limit, " tokens are left for a prompt: the context has ",
            settings.context, ", ", reserved, " are reserved");
  return limit;
}

[[noreturn]] void refuse(size_t n_tokens, int64_t limit) {
  throw Error(
      concat("the prompt has ", n_tokens, " tokens, allowed: ", limit, ", and the task does not let it be cut"));
}

Ids first(const Ids& ids, int64_t n) { return {ids.begin(), ids.begin() + n}; }
Ids last(const Ids& ids, int64_t n) { return {ids.end() - n, ids.end()}; }

// Half of the limit from either end, as text: what the two halves are encoded to together may differ by a few tokens.
std::string cut_middle(const Ids& ids, int64_t limit, const Tokenizer& tokenizer) {
  return tokenizer.decode(first(ids, limit / 2), true) + tokenizer.decode(last(ids, limit / 2), true);
}

// The question, which ends the prompt; blanks at its end, which a chat format may drop, left out. "": it is not apart.
std::string question_of(const TaskSpec& spec, const Prompt& prompt, const PromptSettings& settings) {
  if (!settings.question_after) return "";
  auto question = strip_end(prompt.text.substr(*prompt.question_begin));
  KVC_CHECK(!question.empty(), "task ", spec.name, ": the question has no text");
  return question;
}

void check_both_sides(int64_t n_question, size_t n_tokens) {
  KVC_CHECK(n_question > 0 && n_question < static_cast<int64_t>(n_tokens), "the prompt's ", n_tokens, " tokens have ",
            n_question, " of the question, expected at least one of either side");
}

// A token that holds text of both sides counts as the question's: nothing of the question is seen before it is asked.
int64_t count_question(const std::string& question, const ChatText& turn, const Ids& ids, const Tokenizer& tokenizer) {
  const auto begin = turn.text.rfind(question);
  KVC_CHECK(begin != std::string::npos, "the prompt, cut and in its chat format, does not hold its question ",
            in_quotes(question));
  const auto context = tokenizer.encode(turn.text.substr(0, begin), turn.add_special_tokens);
  const auto n_question = static_cast<int64_t>(ids.size() - common_prefix(context, ids));
  check_both_sides(n_question, ids.size());
  return n_question;
}

void encode_turn(const std::string& text, const std::string& answer_prefix, const std::string& question,
                 const Tokenizer& tokenizer, const PromptSettings& settings, EncodedPrompt& encoded) {
  const auto turn = render_turn(*settings.chat, settings.system_message, text);
  encoded.text = turn.text + answer_prefix;
  encoded.ids = tokenizer.encode(encoded.text, turn.add_special_tokens);
  if (question.empty()) return;
  KVC_CHECK(strip_end(text).ends_with(question), "the prompt, cut to its limit, does not end with its question ",
            in_quotes(question));
  encoded.n_question_tokens = count_question(question, turn, encoded.ids, tokenizer);
}

void encode_generation(const TaskSpec& spec, const Tokenizer& tokenizer, const PromptSettings& settings,
                       EncodedPrompt& encoded) {
  const auto& prefix = encoded.prompt.answer_prefix;
  const auto ids = tokenizer.encode(encoded.prompt.text + prefix, true);
  const int64_t limit = token_limit(spec, tokenizer, settings);
  const auto question = question_of(spec, encoded.prompt, settings);
  encode_turn(encoded.prompt.text, prefix, question, tokenizer, settings, encoded);
  encoded.n_tokens_before = static_cast<int64_t>(encoded.ids.size());
  const auto n_question = encoded.n_question_tokens;
  if (static_cast<int64_t>(ids.size()) <= limit) return;
  if (spec.limit.side == Side::kRefuse) refuse(ids.size(), limit);
  if (spec.limit.side == Side::kMiddle)
    return encode_turn(cut_middle(ids, limit, tokenizer), "", question, tokenizer, settings, encoded);
  const auto kept = spec.limit.side == Side::kRight ? first(ids, limit) : last(ids, limit);
  encode_turn(tokenizer.decode(kept, true), "", question, tokenizer, settings, encoded);
  if (*settings.chat) return;
  encoded.ids = kept;  // no detour by the text
  encoded.n_question_tokens = n_question;
  if (!question.empty()) check_both_sides(n_question, kept.size());
}

// The blanks at the context's end belong to what follows; the two are encoded together, so that the text's own tokens
// are scored.
std::pair<Ids, Ids> encode_pair(std::string context, std::string continuation, const Tokenizer& tokenizer,
                                bool add_special_tokens) {
  const auto stripped = strip_end(context);
  continuation = context.substr(stripped.size()) + continuation;
  auto ids = tokenizer.encode(stripped, add_special_tokens);
  auto whole = tokenizer.encode(stripped + continuation, add_special_tokens);
  const auto n = static_cast<std::ptrdiff_t>(std::min(ids.size(), whole.size()));
  whole.erase(whole.begin(), whole.begin() + n);
  KVC_CHECK(!whole.empty(), "the choice ", in_quotes(continuation), " adds no token after the context");
  return {std::move(ids), std::move(whole)};
}

// Ids of what is prefilled whatever the choice, of the context behind it, and of each choice.
struct Pieces {
  Ids prefix, context;
  std::vector<Ids> choices;
};

Pieces encode_pieces(const TaskSpec& spec, const Prompt& prompt, const std::vector<std::string>& choices,
                     const Tokenizer& tokenizer) {
  Pieces pieces;
  std::string text = prompt.text;
  bool add_special_tokens = true;
  if (spec.choices->after_exemplars) {
    std::string prefix;
    for (const auto& part : prompt.parts) {
      if (part.name == "exemplars") prefix = part.text;
    }
    if (!prefix.empty()) {
      KVC_CHECK(text.starts_with(prefix), "choices.after_exemplars: the prompt does not begin with the exemplars");
      pieces.prefix = tokenizer.encode(prefix, true);
      text.erase(0, prefix.size());
      add_special_tokens = false;
    }
  }
  if (spec.choices->last_token) {
    pieces.context = tokenizer.encode(text, add_special_tokens);
    KVC_CHECK(pieces.context.size() >= 2, "the text ", in_quotes(text), " has no token before its last");
    pieces.choices = {{pieces.context.back()}};
    pieces.context.pop_back();
  }
  for (const auto& choice : choices) {
    auto [context, ids] = encode_pair(text, choice, tokenizer, add_special_tokens);
    pieces.context = std::move(context);
    pieces.choices.push_back(std::move(ids));
  }
  return pieces;
}

// The context's last token is given through the caches, not prefilled: the first token scored depends on what they
// hold.
TokenPrompt scored_prompt(const Pieces& pieces) {
  TokenPrompt scored;
  Ids given;
  if (pieces.prefix.empty()) {
    KVC_CHECK(pieces.context.size() >= 2, "the context has ", pieces.context.size(),
              " tokens, expected at least 2: one to prefill and one to read through the cache");
    scored.prompt_ids = first(pieces.context, static_cast<int64_t>(pieces.context.size()) - 1);
    given = {pieces.context.back()};
  } else {
    scored.prompt_ids = pieces.prefix;
    given = pieces.context;
  }
  scored.n_given = static_cast<int64_t>(given.size());
  for (const auto& ids : pieces.choices) {
    scored.continuations.push_back(given);
    scored.continuations.back().insert(scored.continuations.back().end(), ids.begin(), ids.end());
  }
  return scored;
}

// Cuts what is too long on the left, tokens of the prefix first.
void cut_left(Pieces& pieces, int64_t limit, Side side) {
  size_t longest = 0;
  for (const auto& ids : pieces.choices) longest = std::max(longest, ids.size());
  const auto n_tokens = pieces.prefix.size() + pieces.context.size() + longest;
  if (static_cast<int64_t>(n_tokens) <= limit) return;
  if (side == Side::kRefuse) refuse(n_tokens, limit);
  auto n_over = static_cast<int64_t>(n_tokens) - limit;
  for (auto* ids : {&pieces.prefix, &pieces.context}) {
    const auto n = std::min(n_over, static_cast<int64_t>(ids->size()));
    ids->erase(ids->begin(), ids->begin() + n);
    n_over -= n;
  }
}

void encode_scored(const TaskSpec& spec, const Dataset& data, const Sample& sample, const Tokenizer& tokenizer,
                   const PromptSettings& settings, EncodedPrompt& encoded) {
  const int64_t limit = token_limit(spec, tokenizer, settings);
  encoded.choices = sample.choices;
  const auto add = [&](const Prompt& prompt) {
    auto pieces = encode_pieces(spec, prompt, sample.choices, tokenizer);
    const auto n_before = pieces.prefix.size() + pieces.context.size();
    cut_left(pieces, limit, spec.limit.side);
    if (encoded.scored.empty()) {
      encoded.n_tokens_before = static_cast<int64_t>(n_before);
      encoded.ids = pieces.prefix;
      encoded.ids.insert(encoded.ids.end(), pieces.context.begin(), pieces.context.end());
      if (spec.choices->last_token) encoded.choices = {tokenizer.decode(pieces.choices[0], true)};
    }
    encoded.scored.push_back(scored_prompt(pieces));
  };
  add(encoded.prompt);
  const bool is_cut = encoded.n_tokens_before != static_cast<int64_t>(encoded.ids.size());
  encoded.text = is_cut ? tokenizer.decode(encoded.ids, true) : encoded.prompt.text;
  if (spec.choices->content_free) add(render_content_free(spec, data, *spec.choices->content_free));
}

// A window as text and as ids: its prompt, and behind it the tokens that are read one by one.
void encode_window(const LikelihoodSpec& spec, const Sample& sample, const Tokenizer& tokenizer,
                   EncodedPrompt& encoded) {
  encoded.text = tokenizer.decode(sample.ids, true);
  encoded.prompt.text = encoded.text;
  encoded.prompt.parts = {{"", encoded.text}};
  encoded.ids = first(sample.ids, spec.prompt_tokens);
  encoded.n_tokens_before = spec.prompt_tokens;
  encoded.scored = {{encoded.ids, {last(sample.ids, spec.tokens - spec.prompt_tokens)}}};
  for (const int64_t id : encoded.scored.front().continuations.front()) {
    encoded.tokens.push_back(tokenizer.decode({&id, 1}, false));
  }
}

}  // namespace

EncodedPrompt encode_prompt(const TaskSpec& spec, const Dataset& data, const Sample& sample, const Tokenizer& tokenizer,
                            const PromptSettings& settings) {
  if (settings.question_after) check_has_question(spec);
  EncodedPrompt encoded;
  if (spec.likelihood) {
    encode_window(*spec.likelihood, sample, tokenizer, encoded);
    return encoded;
  }
  encoded.prompt = render_prompt(spec, data, sample);
  if (spec.kind == TaskSpec::Kind::kChoices) {
    encode_scored(spec, data, sample, tokenizer, settings, encoded);
  } else {
    encode_generation(spec, tokenizer, settings, encoded);
  }
  return encoded;
}

void check_has_question(const TaskSpec& spec) {
  KVC_CHECK(
      !spec.question.empty(), spec.yaml_file.string(), ": task ", spec.name,
      " does not say where its question begins: expected prompt.question, as `question: after_compression` needs");
}

PromptGauge prompt_gauge(const Tokenizer& tokenizer, const PromptSettings& settings) {
  PromptGauge gauge;
  gauge.context = settings.context;
  gauge.max_prompt_tokens = settings.max_tokens;
  gauge.n_tokens = [&tokenizer](const std::string& text) {
    return static_cast<int64_t>(tokenizer.encode(text, false).size());
  };
  gauge.n_prompt_tokens = [&tokenizer, settings](const Prompt& prompt) {
    EncodedPrompt encoded;
    encode_turn(prompt.text, prompt.answer_prefix, "", tokenizer, settings, encoded);
    return static_cast<int64_t>(encoded.ids.size());
  };
  return gauge;
}

}  // namespace kvc
