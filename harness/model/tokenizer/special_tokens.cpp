#include "tokenizer/special_tokens.h"

#include <charconv>

#include "kvc/check.h"
#include "text/model_folder.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using nlohmann::json;

json read_object(const std::filesystem::path& path) {
  auto file = lists(path.parent_path(), path.filename()) ? read_json(path) : json::object();
  KVC_CHECK(file.is_object(), path.string(), ": ", brief(file), ", expected an object");
  return file;
}

// A token is named by its text or by an object with a "content".
json as_object(const json& token) {
  return token.is_string() ? json{{"content", token}, {"normalized", false}} : token;
}

class Reader {
 public:
  Reader(const std::filesystem::path& dir, TokenizerParts& parts)
      : dir_(dir.string()),
        config_(read_object(dir / "tokenizer_config.json")),
        map_(read_object(dir / "special_tokens_map.json")),
        added_(read_object(dir / "added_tokens.json")),
        parts_(parts) {}

  void read(const SpecialTokenDefaults& defaults) {
    read_listed_();
    for (const char* name : kSpecialTokenNames) {
      if (const auto token = named_(name)) add_special_(*token);
    }
    for (const auto* file : {&config_, &map_}) {
      if (!file->contains("additional_special_tokens") || file->at("additional_special_tokens").is_null()) continue;
      for (const auto& token : file->at("additional_special_tokens")) add_special_(token);
    }
    const JsonObject extra(added_, dir_ + "/added_tokens.json");
    for (const auto& [text, id] : added_.items()) {
      if (!is_known_(text)) add_({extra.integer(text, 0, INT32_MAX), text, false, false, false, false, true});
    }
    add_around_("bos_token", "add_bos_token", defaults.bos, defaults.adds_bos, parts_.before);
    add_around_("eos_token", "add_eos_token", defaults.eos, defaults.adds_eos, parts_.after);
  }

 private:
  // tokenizer_config.json's "added_tokens_decoder": {"0": {"content": "<s>", "special": true, ...}, ...}
  void read_listed_() {
    const JsonObject config(config_, dir_ + "/tokenizer_config.json");
    if (!config.has("added_tokens_decoder")) return;
    const auto listed = config.object("added_tokens_decoder");
    for (const auto& [key, value] : listed.json().items()) {
      int64_t id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      KVC_CHECK(error == std::errc() && end == key.data() + key.size() && id >= 0 && id <= INT32_MAX, listed.where(),
                ": ", in_quotes(key), ", expected a token id");
      const auto entry = listed.object(key);
      add_(AddedToken::parse(entry, id, entry.boolean("special", false)));
    }
  }

  // Where the configuration lists its tokens, it is the newer file of the two.
  std::optional<json> named_(const char* name) const {
    const bool is_listed = config_.contains("added_tokens_decoder");
    for (const auto* file : {is_listed ? &config_ : &map_, is_listed ? &map_ : &config_}) {
      if (file->contains(name) && !file->at(name).is_null()) return file->at(name);
    }
    return std::nullopt;
  }

  bool is_known_(std::string_view text) const { return parts_.added.ids().contains(text); }

  void add_special_(const json& token) {
    const auto object = as_object(token);
    const JsonObject entry(object, dir_ + ": special token");
    const auto text = entry.text("content");
    if (text.empty()) return;
    if (is_known_(text)) return parts_.added.mark_special(parts_.added.ids().find(text)->second);
    add_(AddedToken::parse(entry, id_of_(text), true));
  }

  int64_t id_of_(const std::string& text) const {
    if (added_.contains(text)) return JsonObject(added_, dir_ + "/added_tokens.json").integer(text, 0, INT32_MAX);
    const auto id = parts_.model->id(text);
    KVC_CHECK(id, dir_, ": special token ", in_quotes(text),
              " has no id, neither in the vocabulary nor in added_tokens.json");
    return *id;
  }

  void add_(const AddedToken& token) { parts_.added.add(token, dir_, parts_.normalizer); }

  void add_around_(const char* name, const char* flag, const std::optional<std::string>& absent, bool adds,
                   std::vector<int64_t>& ids) const {
    const JsonObject config(config_, dir_ + "/tokenizer_config.json");
    if (!config.boolean(flag, adds)) return;
    const auto named = named_(name);
    KVC_CHECK(named || absent, config.where(), ": ", flag, " is true, but there is no ", name);
    const auto text = named ? JsonObject(as_object(*named), dir_ + ": " + name).text("content") : *absent;
    const auto added = parts_.added.ids().find(text);
    ids.push_back(added != parts_.added.ids().end() ? added->second : id_of_(text));
  }

  const std::string dir_;
  const json config_, map_, added_;
  TokenizerParts& parts_;
};

}  // namespace

void read_special_tokens(const std::filesystem::path& dir, const SpecialTokenDefaults& defaults,
                         TokenizerParts& parts) {
  Reader(dir, parts).read(defaults);
}

}  // namespace kvc
