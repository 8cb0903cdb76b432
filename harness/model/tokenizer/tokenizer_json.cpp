#include "kvc/check.h"
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer_steps/bpe_model.h"
#include "tokenizer_steps/component.h"

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

void add_post_processor(const nlohmann::json& value, const std::string& where, TokenizerParts& parts) {
  if (value.is_null()) return;
  const JsonObject component(value, where);
  const auto type = component.text("type");
  if (type == "Sequence") {
    for (const auto& part : component.array("processors")) add_post_processor(part, where, parts);
  } else if (type == "TemplateProcessing") {
    const auto around = parse_template(component);
    parts.before.insert(parts.before.begin(), around.before.begin(), around.before.end());
    parts.after.insert(parts.after.end(), around.after.begin(), around.after.end());
  } else if (type != "ByteLevel") {  // ByteLevel moves offsets only
    refuse_component(component, {"Sequence", "TemplateProcessing", "ByteLevel"});
  }
}

}  // namespace

TokenizerParts read_tokenizer_json(const std::filesystem::path& path) {
  const auto json = read_json(path);
  const JsonObject file(json, path.string());
  const auto field = [&file](const char* name) { return file.has(name) ? file.at(name) : nlohmann::json(); };
  TokenizerParts parts;
  parts.normalizer = parse_normalizer(field("normalizer"), file.where("normalizer"));
  parts.decoder = parse_decoder(field("decoder"), file.where("decoder"));
  parts.added = AddedTokens::parse(field("added_tokens"), file.where("added_tokens"), parts.normalizer);
  parts.model = std::make_unique<BpeModel>(PreTokenizer::parse(field("pre_tokenizer"), file.where("pre_tokenizer")),
                                           file.object("model"));
  add_post_processor(field("post_processor"), file.where("post_processor"), parts);
  return parts;
}

}  // namespace kvc
