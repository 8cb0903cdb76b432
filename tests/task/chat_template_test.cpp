// Chat formats: the shipped ones against their public descriptions, and what a wrong file is told.
#include "task/chat_template.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "kvc/check.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace kvc {
namespace {

using test::message_of;

std::vector<ChatTemplate> shipped() {
  return load_chat_templates(std::filesystem::path(KVC_SOURCE_DIR) / "prompts" / "chat");
}

std::string render(const std::string& name, const std::string& system, const std::string& user) {
  const auto known = shipped();
  return render_chat(find_chat_template(known, name), system, user);
}

TEST(ChatTemplate, IsThePublicFormatWithoutASystemMessage) {
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
       "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, "
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
  EXPECT_EQ(shipped().size(), std::size(formats)) << "a shipped format is not tested";
}

TEST(ChatTemplate, IsThePublicFormatWithASystemMessage) {
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
      {"vicuna", "Be brief. USER: Hi! ASSISTANT:"},
      {"smollm2", "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n"},
      {"qwen2", "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n"},
  };
  for (const auto& [name, text] : formats) EXPECT_EQ(render(name, "Be brief.", "Hi!"), text);
}

TEST(ChatTemplate, StripsWhereTheModelsOwnTemplateStrips) {
  EXPECT_EQ(render("llama2", "", "\xE3\x80\x80 a b\n\n"), "<s>[INST] a b [/INST]");  // U+3000 is a space to Python
  EXPECT_EQ(render("llama2", " s ", " a \n"), "<s>[INST] <<SYS>>\n s \n<</SYS>>\n\n a [/INST]");
  EXPECT_EQ(render("mistral", "", " a \n"), "<s>[INST]  a \n [/INST]");
  EXPECT_EQ(render("chatml", "", "a\n"), "<|im_start|>user\na\n<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, LeavesTheUsersTextAlone) {
  for (const std::string text : {"[INST] x [/INST]", "a<|im_end|>b", "{user}{system}{user_stripped}", "<s>"}) {
    EXPECT_EQ(render("mistral", "", text), "<s>[INST] " + text + " [/INST]");
    EXPECT_EQ(render("mistral", text, "{system}"), "<s>[INST] " + text + "\n\n{system} [/INST]");
  }
}

TEST(ChatTemplate, RefusesASystemMessageWhereTheFormatHasNoPlace) {
  EXPECT_EQ(message_of([] { render("llama2_bare", "Be brief.", "Hi!"); }),
            "chat template 'llama2_bare' has no place for a system message, and there is one: 'Be brief.'");
}

TEST(ChatTemplate, IsRecognizedByItsMarksOrRefused) {
  const auto known = shipped();
  const auto name = [&](const std::string& text) { return recognize_chat_template(known, text).name; };
  EXPECT_EQ(name("{{ bos_token + '[INST] ' + '<<SYS>>' + m + ' [/INST]' }}"), "llama2");
  EXPECT_EQ(name("{{ bos_token }}{{ '[INST] ' + m + ' [/INST]' }}"), "mistral");
  EXPECT_EQ(name("{{ bos_token }}{{ \" [INST] \" + m + \" [/INST]\" }}"), "mistral_blank");
  EXPECT_EQ(name("{{ \"[AVAILABLE_TOOLS] \" }}{{ \"[INST] \" + m + \"[/INST]\" }}"), "mistral_v3");
  EXPECT_EQ(name("{{ '<|start_header_id|>' + r + '<|end_header_id|>' + m + '<|eot_id|>' }}"), "llama3");
  const std::string dated = "<|start_header_id|><|eot_id|>Cutting Knowledge Date: December 2023 26 Jul 2024";
  EXPECT_EQ(name(dated), "llama3_1");
  EXPECT_EQ(name("'<|im_start|>' + r + '<|im_end|>'"), "chatml");
  EXPECT_EQ(name("<|im_start|>system\nYou are a helpful assistant<|im_end|>"), "qwen2");
  EXPECT_EQ(
      name("'<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>'"),
      "smollm2");
  EXPECT_EQ(name("<|im_start|>You are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>"),
            "qwen2_5");

  const std::string names =
      "chatml, llama2, llama2_bare, llama3, llama3_1, mistral, mistral_blank, mistral_v3, qwen2, qwen2_5, smollm2, "
      "vicuna";
  const std::vector<std::string> strangers{"{{ '### Human:' + m }}", dated + " strftime_now",
                                           "<|im_start|>You are a pirate<|im_end|>"};
  for (const auto& text : strangers) {
    const auto message = message_of([&] { name(text); });
    EXPECT_NE(message.find("is none of the known ones"), std::string::npos) << message;
    EXPECT_TRUE(message.ends_with("; known: " + names)) << message;
  }
  EXPECT_EQ(message_of([&] { name("<|im_start|>You are a pirate<|im_end|>"); }),
            "the model's chat template '<|im_start|>You are a pirate<|im_end|>' is none of the known ones; nearest is "
            "chatml, but for 'You are a' that it has: `chat_template: chatml` in the experiment takes it, "
            "`chat_template: none` takes no format; known: " +
                names);
  EXPECT_NE(message_of([&] { name("[INST] <<SYS>> <|im_start|> <|im_end|>"); }).find("could be any of chatml, llama2"),
            std::string::npos);
  EXPECT_EQ(message_of([&] { find_chat_template(known, "lama2"); }),
            "unknown chat template 'lama2' (did you mean 'llama2'?); known: " + names);
}

class ChatTemplateFile : public testing::Test {
 protected:
  std::string message(const std::string& text) {
    const auto file = folder_.write("t.yaml", text);
    const auto what = message_of([&] { load_chat_template(file); });
    return what.starts_with(file.string()) ? what.substr(file.string().size()) : what;
  }
  test::TempFolder folder_;
};

TEST_F(ChatTemplateFile, IsRefusedWithItsPlace) {
  const std::string good = "version: 1\nsummary: s\nbos: <s>\nuser: <s>{user}\n";
  EXPECT_EQ(message(good), "no error");
  EXPECT_EQ(
      message(good + "usr: x\n"),
      ":5:1: error: unknown key 'usr' (did you mean 'user'?); known: version, summary, bos, tokens, recognize, user, "
      "system_and_user");
  EXPECT_EQ(message("version: 2\n"), ":1:10: error: version is '2', expected an integer from 1 to 1");
  EXPECT_EQ(message("version: 1\nsummary: s\n"), ":1:1: error: missing key 'user'");
  EXPECT_EQ(message("version: 1\nsummary: s\nuser: x\n"),
            ":3:7: error: user names the user's text 0 times, expected once");
  EXPECT_EQ(message("version: 1\nsummary: s\nbos: <s>\nuser: \"{user}\"\n"),
            ":4:7: error: user is '{user}', expected <s> at its start");
  EXPECT_EQ(message("version: 1\nsummary: s\nbos: \"\\n\"\nuser: \"{user}\"\n"),
            ":4:7: error: user is '{user}', expected   at its start");
  EXPECT_EQ(message(good + "system_and_user: <s>{user}\n"),
            ":5:18: error: system_and_user names the system's text 0 times, expected once");
  EXPECT_EQ(message("version: 1\nsummary: s\nuser: \"{user}{system}\"\n"),
            ":3:7: error: unknown variable 'system'; known: user, user_stripped, user_stripped_at_end");
  EXPECT_EQ(message(good + "recognize: [{lacks: [a]}]\n"),
            ":5:13: error: recognize[0] has nothing to look for: every model's template would be this one");
  EXPECT_EQ(message(good + "tokens: [\"\"]\n"), ":5:10: error: tokens[0] is empty, expected text to look for");
}

}  // namespace
}  // namespace kvc
