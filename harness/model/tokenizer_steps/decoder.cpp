#include "tokenizer_steps/decoder.h"

#include "kvc/check.h"
#include "tokenizer_steps/byte_level.h"
#include "tokenizer_steps/component.h"
#include "tokenizer_steps/decoder_steps.h"

namespace kvc {
namespace {

constexpr const char* kSpaceSign = "\u2581";

// What is read so far. Fused: the tokens have become one text by now.
struct Draft {
  Decoder steps;
  bool is_fused = false;
};

// A change of every token, or of the whole text once the tokens are fused.
void add_change(const ChangeText& change, Draft& draft) {
  if (draft.is_fused) {
    draft.steps.emplace_back([change] { return std::make_unique<WholeText>(change); });
  } else {
    draft.steps.emplace_back([change] { return std::make_unique<EachToken>(change); });
  }
}

// A token outside of the byte alphabet (an added one with a space, say) stands for itself.
void add_byte_level(Draft& draft) {
  add_change([](std::string token, bool) { return alphabet_to_bytes(token).value_or(token); }, draft);
  draft.steps.emplace_back([] { return std::make_unique<BytesToText>(); });
  draft.is_fused = true;
}

void add_byte_fallback(Draft& draft) {
  if (draft.is_fused) {
    add_change(
        [](std::string text, bool) {
          const int byte = byte_of(text);
          return byte < 0 ? text : byte < 0x80 ? std::string(1, static_cast<char>(byte)) : "\uFFFD";
        },
        draft);
  } else {
    draft.steps.emplace_back([] { return std::make_unique<ByteRuns>(); });
  }
}

void add_strip(const JsonObject& c, Draft& draft) {
  constexpr int64_t kMax = 1 << 20;
  const auto sign = c.text("content");
  const auto at_start = c.integer("start", 0, kMax), at_end = c.integer("stop", 0, kMax);
  KVC_CHECK(!sign.empty(), c.where(), ": content is empty, expected the text to drop");
  if (draft.is_fused) {
    draft.steps.emplace_back([=] { return std::make_unique<StripEnds>(sign, at_start, at_end); });
  } else {
    add_change([=](std::string token, bool) { return strip_sign(token, sign, at_start, at_end); }, draft);
  }
}

void add_replace(const JsonObject& c, Draft& draft) {
  add_change([find = parse_pattern(c, "pattern"), content = c.text("content")](
                 std::string token, bool) { return replace_all(token, find, content); },
             draft);
}

// The sign is a space, except those at the start of the first token where the pre-tokenizer puts one there.
void add_metaspace(const JsonObject& c, Draft& draft) {
  const bool prepends = c.text("prepend_scheme", c.boolean("add_prefix_space", true) ? "always" : "never") != "never";
  add_change(
      [find = find_text(c.text("replacement", kSpaceSign)), prepends](std::string token, bool is_first) {
        return replace_all(token, find, is_first && prepends ? "" : " ");
      },
      draft);
}

void add_steps(const JsonObject& component, Draft& draft);

struct DecoderRow {
  const char* type;
  void (*add)(const JsonObject&, Draft&);
};
const DecoderRow kDecoders[] = {
    {"Sequence",
     [](const JsonObject& c, Draft& draft) {
       for (const auto& part : c.array("decoders")) add_steps({part, c.where()}, draft);
     }},
    {"ByteLevel", [](const JsonObject&, Draft& draft) { add_byte_level(draft); }},
    {"ByteFallback", [](const JsonObject&, Draft& draft) { add_byte_fallback(draft); }},
    {"Fuse", [](const JsonObject&, Draft& draft) { draft.is_fused = true; }},
    {"Replace", add_replace},
    {"Strip", add_strip},
    {"Metaspace", add_metaspace},
};

void add_steps(const JsonObject& component, Draft& draft) {
  find_component<DecoderRow>(component, kDecoders).add(component, draft);
}

}  // namespace

Decoder parse_decoder(const nlohmann::json& value, const std::string& where) {
  Draft draft;
  if (value.is_null()) {
    add_change([](std::string token, bool is_first) { return is_first ? token : " " + token; }, draft);
  } else {
    add_steps({value, where}, draft);
  }
  return draft.steps;
}

Decoder sentencepiece_decoder(bool adds_space, bool removes_spaces) {
  struct Spaces : DecodeStep {
    Spaces(bool drops_one, bool drops_all) : drops_one(drops_one), drops_all(drops_all) {}
    void add(std::string token, std::vector<std::string>& out) override {
      if (at_start && (drops_one || drops_all)) {
        const bool had_sign = token.starts_with(kSpaceSign);
        if (had_sign) token.erase(0, std::string_view(kSpaceSign).size());
        at_start = token.empty() && (drops_all || !had_sign);
      }
      out.push_back(replace_all(token, signs, " "));
    }
    const FindAll signs = find_text(kSpaceSign);
    const bool drops_one, drops_all;
    bool at_start = true;
  };
  return {[=] { return std::make_unique<Spaces>(adds_space, removes_spaces); },
          [] { return std::make_unique<ByteCharacters>(); }};
}

}  // namespace kvc
