// A chat model's prompts, from the experiment's setting to what stands in the database.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "../gguf/gguf_writer.h"
#include "kvc/check.h"
#include "prompt/model_chat.h"
#include "store/result_store.h"
#include "support/program.h"
#include "tokenizer/tokenizer.h"

namespace kvc::test {
namespace {

const std::string kSource = KVC_SOURCE_DIR;
const std::string kLlama2 = "{{ bos_token + '[INST] ' + '<<SYS>>' + text.strip() + ' [/INST]' }}";

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
  EXPECT_EQ(automatic.settings["chat_template"], "llama2");
  EXPECT_EQ(none.settings["chat_template"], "none");
  EXPECT_FALSE(none.settings.contains("chat_frame"));
  const auto tokenizer = Tokenizer::load(model);
  const auto ids = tokenizer.encode(automatic.prompt, false);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), *tokenizer.token_id("<s>")), 1);
  EXPECT_EQ(automatic.n_prompt_tokens, static_cast<int64_t>(ids.size()));
  EXPECT_EQ(none.n_prompt_tokens, static_cast<int64_t>(tokenizer.encode(none.prompt, true).size()));

  const auto by_name = run_one(folder, "turn", "chat_template: llama2\n");
  EXPECT_EQ(by_name.key, automatic.key);  // how it was chosen changes no result
  const auto bare = run_one(folder, "turn", "chat_template: llama2_bare\n");
  const auto with_system = run_one(folder, "turn", "system_message: Be brief.\n");
  EXPECT_EQ(with_system.prompt, "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n" + stripped + " [/INST]");
  std::set<std::string> keys{none.key, automatic.key, bare.key, with_system.key};
  EXPECT_EQ(keys.size(), 4u);
  const auto vicuna = run_one(folder, "turn", "chat_template: vicuna\n");  // its BOS is the tokenizer's
  EXPECT_EQ(vicuna.n_prompt_tokens, static_cast<int64_t>(tokenizer.encode(vicuna.prompt, true).size()));
  EXPECT_TRUE(vicuna.settings["add_special_tokens"]);
}

TEST(Chat, LeavesATaskAloneWhosePromptIsNoTurn) {
  TempFolder folder;
  model_folder(folder, {{"chat_template", "{{ 'a format that nobody knows' }}"}});
  const auto row = run_one(folder, "never", "");
  EXPECT_EQ(row.settings["chat_template"], "none");
  EXPECT_EQ(row.prompt.find("[INST]"), std::string::npos);
}

TEST(Chat, RefusesWhatItCannotFollow) {
  TempFolder folder;
  const auto model = model_folder(folder, {{"chat_template", "{{ 'a format that nobody knows' }}"}});
  const auto error = [&](const std::string& chat, const std::string& settings) {
    std::filesystem::remove_all(folder / "tasks");
    const auto run = run_program(folder, {"validate", experiment(folder, chat, settings)});
    EXPECT_EQ(run.exit_code, 2) << run.out;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    return run.err;
  };
  EXPECT_NE(
      error("turn", "").find("'{{ 'a format that nobody knows' }}' is none of the known ones; known: chatml, llama2"),
      std::string::npos);
  EXPECT_NE(error("turn", "chat_template: lama2\n").find("unknown chat template 'lama2' (did you mean 'llama2'?)"),
            std::string::npos);
  EXPECT_NE(error("turn", "chat_template: llama3\n").find("'<|begin_of_text|>' is no special token of the model"),
            std::string::npos);
  EXPECT_NE(error("never", "chat_template: llama2\n").find("no task's prompt is a user's turn"), std::string::npos);
  EXPECT_NE(error("never", "system_message: Be brief.\n").find("system_message is 'Be brief.'"), std::string::npos);
  EXPECT_NE(error("turn", "chat_template: llama2_bare\nsystem_message: x\n").find("no place for a system message"),
            std::string::npos);
  EXPECT_NE(error("sometimes", "").find("prompt.chat is 'sometimes', allowed: never, turn"), std::string::npos);
}

TEST(Chat, FindsTheModelsTemplateWhereFoldersKeepIt) {
  TempFolder folder;
  EXPECT_EQ(read_model_template(folder.path()), std::nullopt);
  const auto config = [&](const nlohmann::json& json) { folder.write("tokenizer_config.json", json.dump()); };
  config({{"bos_token", "<s>"}});
  EXPECT_EQ(read_model_template(folder.path()), std::nullopt);
  config({{"chat_template", nullptr}});
  EXPECT_EQ(read_model_template(folder.path()), std::nullopt);
  config({{"chat_template", "one"}});
  EXPECT_EQ(read_model_template(folder.path()), "one");
  config(
      {{"chat_template", {{{"name", "tool_use"}, {"template", "two"}}, {{"name", "default"}, {"template", "three"}}}}});
  EXPECT_EQ(read_model_template(folder.path()), "three");
  config({{"chat_template", {{{"name", "tool_use"}, {"template", "two"}}}}});
  EXPECT_THROW(read_model_template(folder.path()), Error);
  config({{"chat_template", 5}});
  EXPECT_THROW(read_model_template(folder.path()), Error);
  folder.write("chat_template.jinja", "four\n");  // newer folders; it wins over the other file
  EXPECT_EQ(read_model_template(folder.path()), "four\n");
}

TEST(Chat, TakesTheTemplateOfAGgufFile) {
  TempFolder folder;
  kvc::test::GgufWriter file;
  const auto read = [&] {
    file.write(folder / "m.gguf");
    return read_model_template(folder / "m.gguf");
  };
  EXPECT_EQ(read(), std::nullopt);
  file.set("tokenizer.chat_template", kvc::test::text("{{ 'x' }}"));
  EXPECT_EQ(read(), "{{ 'x' }}");
  file.set("tokenizer.chat_template", kvc::test::u32(5));
  EXPECT_THROW(read(), Error);
  file.set("tokenizer.chat_template", kvc::test::text("\xFFx"));
  EXPECT_THROW(read(), Error);
}

TEST(Chat, KnowsSmolLm2sOwnTemplate) {
  const char* path = std::getenv("KVC_SMOLLM2_GGUF");
  if (!path) GTEST_SKIP() << "KVC_SMOLLM2_GGUF names no file";
  const auto chat = choose_chat_template("auto", path, kSource);
  ASSERT_TRUE(chat);
  EXPECT_EQ(chat->name, "smollm2");
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
  const auto known = load_chat_templates(kSource + "/prompts/chat");
  const auto text = render_chat(find_chat_template(known, "vicuna"), "", "Q: 1 + 1");
  EXPECT_EQ(turn.out, with({text}).out);
  EXPECT_EQ(with({"Q: 1 + 1", "--chat", "auto"}).out, with({"Q: 1 + 1"}).out);  // the embedded model has no format
  EXPECT_EQ(with({"x", "--chat", "vikuna"}).exit_code, 2);
}

}  // namespace
}  // namespace kvc::test
