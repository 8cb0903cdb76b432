// A model's own chat template: where it is found, what it is given, what is said where it cannot be rendered.
#include "prompt/model_chat.h"

#include <gtest/gtest.h>

#include "../../model/gguf/gguf_writer.h"
#include "kvc/check.h"
#include "prompt/model_template.h"
#include "support/message_of.h"
#include "support/temp_folder.h"
#include "tokenizer/special_texts.h"

namespace kvc {
namespace {

using nlohmann::json;
using test::message_of;

class ModelChat : public testing::Test {
 protected:
  void config(const json& config) { folder_.write("tokenizer_config.json", config.dump()); }
  std::string render(const std::string& text, const ChatSettings& settings = {}, const std::string& system = "") {
    folder_.write("chat_template.jinja", text);
    return render_turn(choose_chat_template(settings, folder_.path(), KVC_SOURCE_DIR), system, " Hi\n").text;
  }
  std::string error(const std::string& text, const ChatSettings& settings = {}) {
    return message_of([&] { render(text, settings); });
  }
  std::string found() {
    const auto text = read_model_template(folder_.path());
    return text ? text->from + "=" + text->text : "nothing";
  }
  test::TempFolder folder_;
};

TEST_F(ModelChat, FindsTheTemplateWhereFoldersKeepIt) {
  EXPECT_EQ(found(), "nothing");
  config({{"bos_token", "<s>"}});
  EXPECT_EQ(found(), "nothing");
  config({{"chat_template", nullptr}});
  EXPECT_EQ(found(), "nothing");
  folder_.write("chat_template.json", R"({"chat_template": "zero"})");
  EXPECT_EQ(found(), "chat_template.json: chat_template=zero");
  config({{"chat_template", "one"}});
  EXPECT_EQ(found(), "tokenizer_config.json: chat_template=one");
  config(
      {{"chat_template", {{{"name", "tool_use"}, {"template", "two"}}, {{"name", "default"}, {"template", "three"}}}}});
  EXPECT_EQ(found(), "tokenizer_config.json: chat_template=three");
  config({{"chat_template", {{"rag", "five"}, {"default", "six"}}}});
  EXPECT_EQ(found(), "tokenizer_config.json: chat_template=six");
  for (const json& wrong : {json{{{"name", "tool_use"}, {"template", "two"}}}, json{{"rag", "five"}}, json(5)}) {
    config({{"chat_template", wrong}});
    EXPECT_THROW(read_model_template(folder_.path()), Error) << wrong;
  }
  folder_.write("chat_template.jinja", "four\n");  // newer folders; it wins over the other files
  EXPECT_EQ(found(), "chat_template.jinja=four\n");
}

TEST_F(ModelChat, TakesTheTemplateOfAGgufFile) {
  test::GgufWriter file;
  const auto path = folder_ / "m.gguf";
  const auto read = [&] {
    file.write(path);
    const auto text = read_model_template(path);
    return text ? text->text : "nothing";
  };
  EXPECT_EQ(read(), "nothing");
  file.set("tokenizer.chat_template", test::text("{{ bos_token }}{{ 'x' }}{{ pad_token }}"));
  EXPECT_EQ(read(), "{{ bos_token }}{{ 'x' }}{{ pad_token }}");
  file.set("tokenizer.chat_template", test::u32(5));
  EXPECT_THROW(read(), Error);
  file.set("tokenizer.chat_template", test::text("\xFFx"));
  EXPECT_THROW(read(), Error);
}

TEST_F(ModelChat, GivesATemplateOfAGgufFileItsTokensTextsAndNoOther) {
  test::GgufWriter file;
  file.set("tokenizer.chat_template", test::text("{{ bos_token }}x{{ eos_token }}{{ pad_token is defined }}"));
  file.set("tokenizer.ggml.tokens", test::texts({"<unk>", "<s>", "</s>"}));
  file.set("tokenizer.ggml.bos_token_id", test::u32(1));
  file.set("tokenizer.ggml.add_bos_token", test::boolean(true));
  const auto path = folder_ / "m.gguf";
  const auto turn = [&] {
    file.write(path);
    return render_turn(choose_chat_template({}, path, KVC_SOURCE_DIR), "", "x");
  };
  EXPECT_EQ(
      message_of(turn),
      "chat template own (tokenizer.chat_template): line 1: the template asks for eos_token, and the model's files "
      "do not say what it is: chat_options can");
  file.set("tokenizer.ggml.eos_token_id", test::u32(2));
  EXPECT_EQ(turn().text, "<s>x</s>False");
  EXPECT_FALSE(turn().add_special_tokens);
  file.set("tokenizer.ggml.eos_token_id", test::u32(3));
  EXPECT_NE(message_of(turn).find("eos_token_id is 3, expected a token's id, 0 to 2"), std::string::npos);
}

TEST_F(ModelChat, GivesTheTemplateWhatTransformersGives) {
  config({{"bos_token", "<s>"}, {"eos_token", {{"content", "</s>"}, {"lstrip", false}}}, {"pad_token", nullptr}});
  EXPECT_EQ(
      render(
          "{{ bos_token }}{{ eos_token }}{{ pad_token }}|{{ pad_token is defined }}|{{ tools }}|{{ tools is defined }}|"
          "{{ documents is none }}|{{ add_generation_prompt }}|{{ messages }}"),
      "<s></s>|False|None|True|True|True|[{'role': 'user', 'content': ' Hi\\n'}]");
  EXPECT_EQ(render("{{ messages|length }}{{ messages[0].content }}", {}, "be brief"), "2be brief");
}

TEST_F(ModelChat, PrintsNoTokenThatTheTemplateDoesNotPrint) {
  config({{"bos_token", "<s>"}, {"add_bos_token", true}});
  folder_.write("chat_template.jinja", "{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}");
  const auto turn = render_turn(choose_chat_template({}, folder_.path(), KVC_SOURCE_DIR), "", "x");
  EXPECT_EQ(turn.text, "<|im_start|>x");
  EXPECT_FALSE(turn.add_special_tokens);
  EXPECT_TRUE(render_turn(std::nullopt, "", "x").add_special_tokens);
}

TEST_F(ModelChat, AsksForATokenThatNoFileNames) {
  EXPECT_EQ(render("{{ messages[0].content|trim }}"), "Hi");
  EXPECT_EQ(error("a\n{{ bos_token }}"),
            "chat template own (chat_template.jinja): line 2: the template asks for bos_token, and the model's "
            "files do not say what it is: chat_options can");
  EXPECT_EQ(render("{{ bos_token }}", {.options = {{"bos_token", "<b>"}}}), "<b>");
  folder_.write("special_tokens_map.json", R"({"bos_token": "<m>"})");
  EXPECT_EQ(render("{{ bos_token }}"), "<m>");
}

TEST_F(ModelChat, TakesOptionsAndADay) {
  const std::string thinking = "{{ 'off' if enable_thinking is defined and not enable_thinking else 'on' }}";
  EXPECT_EQ(render(thinking), "on");
  EXPECT_EQ(render(thinking, {.options = {{"enable_thinking", false}}}), "off");
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y') }}"), "26 Jul 2024");
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y') }}", {.date = "2026-01-02"}), "02 Jan 2026");
  const auto options = [](const std::string& text) { return read_chat_options(parse_yaml("o", text)).dump(); };
  EXPECT_EQ(options("{a: false, b: 'false', c: 3, d: 0.5, e: null, f: [x, {g: y}]}"),
            R"({"a":false,"b":"false","c":3,"d":0.5,"e":null,"f":["x",{"g":"y"}]})");
  EXPECT_EQ(message_of([&] { options("{messages: []}"); }),
            "o:1:12: error: messages is what a prompt itself gives the template, expected other variables");
  EXPECT_NE(message_of([&] { options("[1]"); }), "no error");
}

TEST_F(ModelChat, IsDescribedByAllThatChangesAPrompt) {
  const auto describe = [&](const std::string& text, const ChatSettings& settings) {
    folder_.write("chat_template.jinja", text);
    return describe_chat(*choose_chat_template(settings, folder_.path(), KVC_SOURCE_DIR), settings);
  };
  const auto plain = describe("{{ messages }}", {});
  EXPECT_EQ(plain["chat_template"], "own");
  EXPECT_EQ(plain, describe("{{ messages }}", {.form = "own", .date = "2026-01-02"}));  // which asks for no date
  EXPECT_NE(plain, describe("{{ messages  }}", {}));
  EXPECT_NE(plain, describe("{{ messages }}", {.options = {{"a", 1}}}));
  const std::string dated = "{{ strftime_now('%d') }}";
  EXPECT_NE(describe(dated, {}), describe(dated, {.date = "2026-01-02"}));
}

TEST_F(ModelChat, SaysWhyATemplateCannotBeRendered) {
  const auto model = "model '" + folder_.path().string() + "': ";
  EXPECT_EQ(error("\n{% include 'x' %}"),
            "chat_template auto, " + model +
                "chat_template.jinja: line 2: {% include %} is not supported; `chat_template: "
                "NAME` takes one of prompts/chat instead, `chat_template: none` no format");
  EXPECT_EQ(error("{% if messages[0].role != 'assistant' %}{{ raise_exception('Only\nassistants') }}{% endif %}"),
            "chat template own (chat_template.jinja): line 1: the template says: Only assistants");
  EXPECT_EQ(error("{{ 'x'", {.date = "yesterday"}).substr(0, 20 + model.size()), "chat_template auto, " + model);
  std::filesystem::remove(folder_ / "chat_template.jinja");
  EXPECT_EQ(message_of([&] { choose_chat_template({.form = "own"}, folder_.path(), KVC_SOURCE_DIR); }),
            "chat_template own, " + model + "the model brings no chat template");
  EXPECT_FALSE(choose_chat_template({}, folder_.path(), KVC_SOURCE_DIR));
}

TEST_F(ModelChat, TheNewerOfTwoFilesNamesTheSpecialTokens) {
  const auto bos = [&] { return special_token_texts(folder_.path()).at("bos_token").value_or("none"); };
  folder_.write("special_tokens_map.json", R"({"bos_token": {"content": "<m>"}})");
  config({{"bos_token", "<c>"}});
  EXPECT_EQ(bos(), "<m>");
  config({{"bos_token", "<c>"}, {"added_tokens_decoder", json::object()}});
  EXPECT_EQ(bos(), "<c>");
  config({{"bos_token", nullptr}, {"added_tokens_decoder", json::object()}});
  EXPECT_EQ(bos(), "none");
}

}  // namespace
}  // namespace kvc
