// A chat model's prompts, from the experiment's setting to what stands in the database.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "prompt/model_chat.h"
#include "store/result_store.h"
#include "support/program.h"
#include "tokenizer/tokenizer.h"

namespace kvc::test {
namespace {

const std::string kSource = KVC_SOURCE_DIR;
const std::string kLlama2 =
    "{% set s = messages[0].content if messages[0].role == 'system' %}{{ bos_token + '[INST] ' + ('<<SYS>>\\n' + s + "
    "'\\n<</SYS>>\\n\\n' if s else '') + messages[-1].content.strip() + ' [/INST]' }}";

// The embedded model in a folder of its own, whose tokenizer_config.json is the test's.
std::filesystem::path model_folder(const TempFolder& folder, const nlohmann::json& tokenizer_config) {
  const auto file = folder.write("model/tokenizer_config.json", tokenizer_config.dump());
  for (const auto& entry : std::filesystem::directory_iterator(kSource + "/models/demo")) {
    const auto link = file.parent_path() / entry.path().filename();
    if (!std::filesystem::exists(link)) std::filesystem::create_symlink(entry.path(), link);
  }
  return file.parent_path();
}

// An experiment of one task, demo/lookup with another name and `chat` in its prompt, over `full`.
std::string experiment(const TempFolder& folder, const std::string& chat, const std::string& settings) {
  auto task = read_file(kSource + "/tasks/demo/lookup.yaml");
  task.replace(task.find("  template:"), 0, "  chat: " + chat + "\n");
  const auto file = folder.write("demo/lookup.yaml", task);
  std::filesystem::create_directories(folder / "demo" / "data");
  std::filesystem::copy(kSource + "/tasks/demo/data/lookup.jsonl", folder / "demo/data/lookup.jsonl",
                        std::filesystem::copy_options::skip_existing);
  std::filesystem::create_directories(folder / "prompts" / "demo");
  std::filesystem::copy(kSource + "/prompts/demo/lookup.txt", folder / "prompts/demo/lookup.txt",
                        std::filesystem::copy_options::skip_existing);
  std::filesystem::create_directories(folder / "tasks");
  std::filesystem::rename(folder / "demo", folder / "tasks" / "demo");
  return folder
      .write("x.yaml", "model: " + (folder / "model").string() + "\ntasks: [" +
                           (folder / "tasks/demo/lookup.yaml").string() + "]\nlimit: 2\ncompressors: [full]\n" +
                           settings)
      .string();
}

struct Row {
  std::string key, prompt;
  nlohmann::json settings;
  int64_t n_prompt_tokens;
};

Row run_one(const TempFolder& folder, const std::string& chat, const std::string& settings) {
  std::filesystem::remove_all(folder / "tasks");
  std::filesystem::remove(folder / "r.sqlite");
  const auto database = (folder / "r.sqlite").string();
  const auto run = run_program(folder, {"run", experiment(folder, chat, settings), "--db", database});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto query = run_program(folder, {"query", "--db", database, "--format", "json",
                                          "SELECT key, body, generation_json, n_prompt_tokens FROM sample JOIN cell ON "
                                          "key = cell_key JOIN text ON sha256 = prompt_sha256 WHERE sample = 0"});
  const auto row = nlohmann::json::parse(query.out).at("rows").at(0);
  return {row["key"], row["body"], nlohmann::json::parse(row["generation_json"].get<std::string>()),
          row["n_prompt_tokens"]};
}

TEST(Chat, PutsATurnIntoTheModelsOwnFormatWithOneBos) {
  TempFolder folder;
  const auto model = model_folder(folder, {{"bos_token", "<s>"}, {"chat_template", kLlama2}});
  const auto none = run_one(folder, "turn", "chat_template: none\n");
  const auto automatic = run_one(folder, "turn", "");
  const auto stripped = none.prompt.substr(0, none.prompt.find_last_not_of(" \n") + 1);
  EXPECT_EQ(automatic.prompt, "<s>[INST] " + stripped + " [/INST]");
  EXPECT_EQ(automatic.settings["chat_template"], "own");
  EXPECT_EQ(none.settings["chat_template"], "none");
  EXPECT_FALSE(none.settings.contains("chat_frame"));
  const auto tokenizer = Tokenizer::load(model);
  const auto ids = tokenizer.encode(automatic.prompt, false);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), *tokenizer.token_id("<s>")), 1);
  EXPECT_EQ(automatic.n_prompt_tokens, static_cast<int64_t>(ids.size()));
  EXPECT_EQ(none.n_prompt_tokens, static_cast<int64_t>(tokenizer.encode(none.prompt, true).size()));

  const auto own = run_one(folder, "turn", "chat_template: own\nchat_date: 2026-01-02\n");
  EXPECT_EQ(own.key, automatic.key);  // how it was chosen changes no result, nor does a date that it does not ask for
  const auto by_name = run_one(folder, "turn", "chat_template: llama2\n");
  EXPECT_EQ(by_name.prompt, automatic.prompt);
  const auto bare = run_one(folder, "turn", "chat_template: llama2_bare\n");
  const auto with_system = run_one(folder, "turn", "system_message: Be brief.\n");
  EXPECT_EQ(with_system.prompt, "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n" + stripped + " [/INST]");
  const auto with_option = run_one(folder, "turn", "chat_options: {unused: 1}\n");
  std::set<std::string> keys{none.key, automatic.key, by_name.key, bare.key, with_system.key, with_option.key};
  EXPECT_EQ(keys.size(), 6u);
  const auto vicuna = run_one(folder, "turn", "chat_template: vicuna\n");
  EXPECT_TRUE(vicuna.prompt.starts_with("<s>A chat between")) << vicuna.prompt;
  EXPECT_EQ(vicuna.n_prompt_tokens, static_cast<int64_t>(tokenizer.encode(vicuna.prompt, false).size()));
}

TEST(Chat, StoresWhatTheTemplateIsToldAndVerifiesIt) {
  TempFolder folder;
  model_folder(folder,
               {{"chat_template", "{{ strftime_now('%d.%m.%y') if enable_thinking is not defined else 'q' }}"}});
  const auto plain = run_one(folder, "turn", "");
  EXPECT_EQ(plain.prompt, "26.07.24");
  EXPECT_EQ(plain.settings["chat_date"], "2024-07-26");
  const auto dated = run_one(folder, "turn", "chat_date: 2026-01-02\n");
  EXPECT_EQ(dated.prompt, "02.01.26");
  EXPECT_NE(dated.key, plain.key);
  const auto quiet = run_one(folder, "turn", "chat_options: {enable_thinking: false}\n");
  EXPECT_EQ(quiet.prompt, "q");
  EXPECT_EQ(quiet.settings["chat_options"], nlohmann::json({{"enable_thinking", false}}));
  const auto verified = run_program(folder, {"verify-run", (folder / "r.sqlite").string(), quiet.key});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
}

TEST(Chat, LeavesATaskAloneWhosePromptIsNoTurn) {
  TempFolder folder;
  model_folder(folder, {{"chat_template", "{% include 'what nothing renders' %}"}});
  const auto row = run_one(folder, "never", "");
  EXPECT_EQ(row.settings["chat_template"], "none");
  EXPECT_EQ(row.prompt.find("[INST]"), std::string::npos);
}

TEST(Chat, RefusesWhatItCannotFollow) {
  TempFolder folder;
  model_folder(folder, {{"chat_template", "{% include 'what nothing renders' %}"}});
  const auto error = [&](const std::string& chat, const std::string& settings) {
    std::filesystem::remove_all(folder / "tasks");
    const auto run = run_program(folder, {"validate", experiment(folder, chat, settings)});
    EXPECT_EQ(run.exit_code, 2) << run.out;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    return run.err;
  };
  EXPECT_NE(error("turn", "").find("tokenizer_config.json: chat_template: line 1: {% include %} is not supported"),
            std::string::npos);
  EXPECT_NE(error("turn", "chat_template: lama2\n").find("unknown chat template 'lama2' (did you mean 'llama2'?)"),
            std::string::npos);
  EXPECT_NE(error("turn", "chat_template: llama3\n").find("'<|begin_of_text|>' is no special token of the model"),
            std::string::npos);
  EXPECT_NE(error("never", "chat_template: llama2\n").find("no task's prompt is a user's turn"), std::string::npos);
  EXPECT_NE(error("never", "system_message: Be brief.\n").find("system_message is 'Be brief.'"), std::string::npos);
  EXPECT_NE(error("turn", "chat_template: llama2_bare\nsystem_message: x\n").find("no place for a system message"),
            std::string::npos);
  EXPECT_NE(error("never", "chat_options: {a: 1}\n").find("chat_options is {\"a\":1}"), std::string::npos);
  EXPECT_NE(error("turn", "chat_date: 2024-02-30\n").find("chat_date: the date is '2024-02-30'"), std::string::npos);
  EXPECT_NE(error("sometimes", "").find("prompt.chat is 'sometimes', allowed: never, turn"), std::string::npos);
}

TEST(Chat, RendersSmolLm2sOwnTemplateAsItsNamedFormat) {
  const char* path = std::getenv("KVC_SMOLLM2_GGUF");
  if (!path) GTEST_SKIP() << "KVC_SMOLLM2_GGUF names no file";
  const auto own = choose_chat_template({}, path, kSource),
             form = choose_chat_template({.form = "smollm2"}, path, kSource);
  ASSERT_TRUE(own && form);
  for (const std::string system : {"", "Be brief."}) {
    EXPECT_EQ(render_turn(own, system, " Hi! \n").text, render_turn(form, system, " Hi! \n").text);
  }
}

TEST(Generate, WritesThePromptAsATurn) {
  TempFolder folder;
  const std::vector<std::string> arguments{"generate", "models/demo", "--max-new-tokens", "8", "--ids", "--prompt"};
  const auto with = [&](std::vector<std::string> more) {
    auto all = arguments;
    all.insert(all.end(), more.begin(), more.end());
    return run_program(folder, all);
  };
  const auto turn = with({"Q: 1 + 1", "--chat", "vicuna"});
  ASSERT_EQ(turn.exit_code, 0) << turn.err;
  const auto chat = choose_chat_template({.form = "vicuna"}, kSource + "/models/demo", kSource);
  const auto text = render_turn(chat, "", "Q: 1 + 1").text.substr(3);  // the tokenizer puts its <s> before it
  EXPECT_EQ(turn.out, with({text}).out);
  EXPECT_EQ(with({"Q: 1 + 1", "--chat", "auto"}).out, with({"Q: 1 + 1"}).out);  // the embedded model has no format
  EXPECT_EQ(with({"x", "--chat", "vikuna"}).exit_code, 2);
}

}  // namespace
}  // namespace kvc::test
