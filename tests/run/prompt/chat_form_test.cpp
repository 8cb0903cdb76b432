// Named chat formats: the shipped ones against their public descriptions, and what a wrong file is told.
#include "prompt/chat_form.h"

#include <gtest/gtest.h>

#include "jinja/template.h"
#include "kvc/check.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace kvc {
namespace {

using test::message_of;

const std::filesystem::path kForms = std::filesystem::path(KVC_SOURCE_DIR) / "prompts" / "chat";

std::string render(const std::string& name, const std::string& system, const std::string& user) {
  const auto form = find_chat_form(kForms, name);
  jinja::Given given;
  auto& messages = given.variables["messages"];
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", user}});
  given.variables["bos_token"] = form.bos.value_or("<bos>");
  given.variables["add_generation_prompt"] = true;
  return jinja::Template(form.text).render(given);
}

TEST(ChatForm, IsThePublicFormatWithoutASystemMessage) {
  const std::pair<const char*, const char*> formats[] = {
      {"llama2", "<s>[INST] Hi! [/INST]"},
      {"llama2_bare", "<s>[INST]Hi![/INST]"},
      {"llama3",
       "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi!<|eot_id|>"
       "<|start_header_id|>assistant<|end_header_id|>\n\n"},
      {"llama3_1",
       "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
       "Today Date: 26 Jul 2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi!<|eot_id|>"
       "<|start_header_id|>assistant<|end_header_id|>\n\n"},
      {"mistral", "<s>[INST] Hi! [/INST]"},
      {"mistral_blank", "<s> [INST] Hi! [/INST]"},
      {"mistral_v3", "<s>[INST] Hi![/INST]"},
      {"vicuna",
       "<bos>A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, "
       "detailed, "
       "and polite answers to the user's questions. USER: Hi! ASSISTANT:"},
      {"chatml", "<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n"},
      {"qwen2",
       "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nHi!<|im_end|>\n"
       "<|im_start|>assistant\n"},
      {"smollm2",
       "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
       "<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n"},
      {"qwen2_5",
       "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
       "<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n"},
  };
  for (const auto& [name, text] : formats) EXPECT_EQ(render(name, "", "Hi!"), text);
  EXPECT_EQ(chat_form_names(kForms).size(), std::size(formats)) << "a shipped format is not tested";
}

TEST(ChatForm, IsThePublicFormatWithASystemMessage) {
  const std::pair<const char*, const char*> formats[] = {
      {"llama2", "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi! [/INST]"},
      {"llama3",
       "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
       "<|start_header_id|>user<|end_header_id|>\n\nHi!<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
      {"llama3_1",
       "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
       "Today Date: 26 Jul 2024\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi!<|eot_id|>"
       "<|start_header_id|>assistant<|end_header_id|>\n\n"},
      {"mistral", "<s>[INST] Be brief.\n\nHi! [/INST]"},
      {"vicuna", "<bos>Be brief. USER: Hi! ASSISTANT:"},
      {"smollm2", "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n"},
      {"qwen2", "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n"},
  };
  for (const auto& [name, text] : formats) EXPECT_EQ(render(name, "Be brief.", "Hi!"), text);
}

TEST(ChatForm, StripsWhereTheModelsOwnTemplateStrips) {
  EXPECT_EQ(render("llama2", "", "\xE3\x80\x80 a b\n\n"), "<s>[INST] a b [/INST]");  // U+3000 is a space to Python
  EXPECT_EQ(render("llama2", " s ", " a \n"), "<s>[INST] <<SYS>>\n s \n<</SYS>>\n\n a [/INST]");
  EXPECT_EQ(render("mistral", "", " a \n"), "<s>[INST]  a \n [/INST]");
  EXPECT_EQ(render("chatml", "", "a\n"), "<|im_start|>user\na\n<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatForm, LeavesTheUsersTextAlone) {
  for (const std::string text : {"[INST] x [/INST]", "a<|im_end|>b", "{user}{system}{user_stripped}", "<s>"}) {
    EXPECT_EQ(render("mistral", "", text), "<s>[INST] " + text + " [/INST]");
    EXPECT_EQ(render("mistral", text, "{system}"), "<s>[INST] " + text + "\n\n{system} [/INST]");
  }
}

TEST(ChatForm, RefusesASystemMessageWhereTheFormatHasNoPlace) {
  EXPECT_EQ(message_of([] { render("llama2_bare", "Be brief.", "Hi!"); }),
            "line 2: the template says: this format has no place for a system message");
}

TEST(ChatForm, IsFoundByItsNameAlone) {
  const std::string names =
      "chatml, llama2, llama2_bare, llama3, llama3_1, mistral, mistral_blank, mistral_v3, qwen2, qwen2_5, smollm2, "
      "vicuna";
  EXPECT_EQ(message_of([&] { find_chat_form(kForms, "lama2"); }),
            "unknown chat template 'lama2' (did you mean 'llama2'?); known: " + names);
  EXPECT_NE(message_of([&] { find_chat_form(kForms, "../chat/llama2"); }), "no error");
}

class ChatFormFile : public testing::Test {
 protected:
  std::string message(const std::string& text) {
    const auto file = folder_.write("t.yaml", text);
    const auto what = message_of([&] { load_chat_form(file); });
    return what.starts_with(file.string()) ? what.substr(file.string().size()) : what;
  }
  test::TempFolder folder_;
};

TEST_F(ChatFormFile, IsRefusedWithItsPlace) {
  const std::string good = "version: 1\nsummary: s\nbos: <s>\ntemplate: \"{{ bos_token }}\"\n";
  EXPECT_EQ(message(good), "no error");
  EXPECT_EQ(message(good + "usr: x\n"),
            ":5:1: error: unknown key 'usr'; known: version, summary, bos, tokens, template");
  EXPECT_EQ(message("version: 2\n"), ":1:10: error: version is '2', expected an integer from 1 to 1");
  EXPECT_EQ(message("version: 1\nsummary: s\n"), ":1:1: error: missing key 'template'");
  EXPECT_EQ(message("version: 1\nsummary: s\ntemplate: |\n  a\n  {% include 'x' %}\n"),
            ":3:11: error: template: line 2: {% include %} is not supported");
  EXPECT_EQ(message(good + "tokens: [\"\"]\n"), ":5:10: error: tokens[0] is empty, expected a token's text");
}

}  // namespace
}  // namespace kvc
