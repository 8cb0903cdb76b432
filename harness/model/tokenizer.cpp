#include "model/tokenizer.h"

#include "kvc/check.h"
#include "model/json_reader.h"
#include "model/model_folder.h"
#include "model/pattern.h"
#include "model/utf8.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr size_t kMaxTemplateTokens = 1024;

struct Template {
  std::vector<int64_t> before, after;
};

// "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, ...], and the ids behind these names
Template parse_template(const JsonObject& component) {
  Template result;
  bool seen_text = false;
  for (const auto& part : component.array("single")) {
    const JsonObject item(part, component.where("single"));
    if (item.has("Sequence")) {
      KVC_CHECK(!seen_text && item.object("Sequence").text("id") == "A", item.where(), ": ", brief(part),
                ", expected the sequence A, once");
      seen_text = true;
      continue;
    }
    const auto name = item.object("SpecialToken").text("id");
    const auto token = component.object("special_tokens").object(name);
    for (const auto& id : token.array("ids")) {
      KVC_CHECK(id.is_number_unsigned() && id.get<uint64_t>() <= uint64_t{INT32_MAX}, token.where("ids"), ": ",
                brief(id), ", expected a token id");
      (seen_text ? result.after : result.before).push_back(id.get<int64_t>());
      KVC_CHECK(result.before.size() + result.after.size() <= kMaxTemplateTokens, component.where("single"),
                ": more than ", kMaxTemplateTokens, " special tokens around a text");
    }
  }
  KVC_CHECK(seen_text, component.where("single"), ": the sequence A is missing");
  return result;
}

nlohmann::json field_or_null(const JsonObject& object, const std::string& name) {
  return object.has(name) ? object.at(name) : nlohmann::json();
}

}  // namespace

void Tokenizer::parse_post_processor_(const nlohmann::json& value, const std::string& where) {
  if (value.is_null()) return;
  const JsonObject component(value, where);
  const auto type = component.text("type");
  if (type == "Sequence") {
    for (const auto& part : component.array("processors")) parse_post_processor_(part, where);
  } else if (type == "TemplateProcessing") {
    const auto around = parse_template(component);
    before_.insert(before_.begin(), around.before.begin(), around.before.end());
    after_.insert(after_.end(), around.after.begin(), around.after.end());
  } else if (type != "ByteLevel") {  // ByteLevel moves offsets only
    refuse_component(component, {"Sequence", "TemplateProcessing", "ByteLevel"});
  }
}

Tokenizer Tokenizer::load(const std::filesystem::path& dir) {
  check_lists(dir, "tokenizer.json");
  const auto path = dir / "tokenizer.json";
  const auto json = read_json(path);
  const JsonObject file(json, path.string());
  Tokenizer tokenizer;
  tokenizer.normalizer_ = parse_normalizer(field_or_null(file, "normalizer"), file.where("normalizer"));
  tokenizer.pre_tokenizer_ = parse_pre_tokenizer(field_or_null(file, "pre_tokenizer"), file.where("pre_tokenizer"));
  tokenizer.decoder_ = parse_decoder(field_or_null(file, "decoder"), file.where("decoder"));
  tokenizer.added_ =
      AddedTokens::parse(field_or_null(file, "added_tokens"), file.where("added_tokens"), tokenizer.normalizer_);
  tokenizer.bpe_ = Bpe::parse(file.object("model"));
  tokenizer.parse_post_processor_(field_or_null(file, "post_processor"), file.where("post_processor"));
  tokenizer.n_tokens_ = static_cast<int64_t>(tokenizer.bpe_.tokens().size());
  for (const auto& [text, id] : tokenizer.added_.ids()) {
    const auto in_model = tokenizer.bpe_.id(text);
    KVC_CHECK(!in_model || *in_model == id, file.where("added_tokens"), ": ", in_quotes(text), " has id ", id,
              ", in the vocabulary ", in_model.value_or(-1));
    if (!in_model) ++tokenizer.n_tokens_;
  }
  return tokenizer;
}

std::vector<int64_t> Tokenizer::encode(std::string_view utf8, bool add_special_tokens) const {
  check_utf8(utf8, "tokenizer: text");
  std::vector<int64_t> ids;
  if (add_special_tokens) ids = before_;
  for (auto& segment : added_.split(utf8, normalizer_)) {
    if (segment.id) {
      ids.push_back(*segment.id);
      continue;
    }
    for (const auto& piece : pre_tokenize({std::move(segment.text), segment.at_start}, pre_tokenizer_)) {
      bpe_.encode(piece.text, ids);
    }
  }
  if (add_special_tokens) ids.insert(ids.end(), after_.begin(), after_.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const int64_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  for (const int64_t id : ids) {
    KVC_CHECK(id >= 0, "tokenizer: id ", id, ", expected 0 or more");
    if (const auto added = added_.texts().find(id); added != added_.texts().end()) {
      if (!skip_special_tokens || !added_.is_special(id)) tokens.push_back(added->second);
    } else if (const auto known = bpe_.tokens().find(id); known != bpe_.tokens().end()) {
      tokens.push_back(known->second);
    }
  }
  return join_decoded(std::move(tokens), decoder_);
}

std::optional<int64_t> Tokenizer::token_id(std::string_view token) const {
  const auto added = added_.ids().find(token);
  return added != added_.ids().end() ? std::optional(added->second) : bpe_.id(token);
}

}  // namespace kvc
