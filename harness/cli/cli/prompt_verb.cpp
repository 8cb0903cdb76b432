#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>

#include "checkpoint/model_config.h"
#include "cli/chat_arguments.h"
#include "cli/verbs.h"
#include "experiment/task_names.h"
#include "kvc/check.h"
#include "model_lookup/model_path.h"
#include "prompt/encode_prompt.h"
#include "prompt/text_windows.h"
#include "task/dataset.h"

namespace kvc {
namespace {

using nlohmann::ordered_json;

struct PromptArguments {
  std::string task, model_name = "models/demo", data_dir, system_message;
  ChatArguments chat;
  int64_t index = 0, context = 0;
  std::optional<int64_t> max_tokens;
  bool question_after = false, as_json = false;
};

// How often the ids hold the token that the tokenizer puts before a text; 0 where it puts none.
int64_t count_bos(const Tokenizer& tokenizer, const std::vector<int64_t>& ids) {
  const auto special = tokenizer.encode("", true);
  return special.empty() ? 0 : std::count(ids.begin(), ids.end(), special.front());
}

// What the model can hold; a folder with a tokenizer alone says nothing of it.
int64_t context_of(const PromptArguments& arguments, const std::filesystem::path& folder) {
  if (arguments.context > 0) return arguments.context;
  KVC_CHECK(!std::filesystem::is_directory(folder) || std::filesystem::exists(folder / "config.json"), "'",
            folder.string(), "' has no config.json with the model's context length: pass --context");
  return load_model_config(folder).max_position_embeddings;
}

PromptSettings settings_of(const PromptArguments& arguments, const std::optional<ChatTemplate>& chat,
                           const std::filesystem::path& folder) {
  return {&chat, arguments.system_message, context_of(arguments, folder), arguments.max_tokens,
          arguments.question_after};
}

ordered_json parts_json(const Prompt& prompt) {
  ordered_json parts = ordered_json::array();
  for (const auto& part : prompt.parts) {
    parts.push_back({{"part", part.name.empty() ? "template" : part.name}, {"text", part.text}});
  }
  return parts;
}

ordered_json describe(const PromptArguments& arguments) {
  const auto paths = find_paths();
  const auto folder = model_path(arguments.model_name);
  const auto spec = load_task(task_by_name(arguments.task, paths));
  const auto tokenizer = Tokenizer::load(folder);
  std::optional<ChatTemplate> chat;
  if (spec.is_chat_turn) chat = choose_chat_template(chat_settings(arguments.chat), folder, paths.root);
  PromptGauge gauge;
  if (spec.data.made) gauge = prompt_gauge(tokenizer, settings_of(arguments, chat, folder));
  auto data = load_dataset(spec, data_folder(arguments.data_dir), gauge, arguments.index + 1);
  if (spec.likelihood) {
    cut_into_windows(spec, tokenizer, context_of(arguments, folder), arguments.max_tokens, data);
  }
  const auto n = spec.likelihood ? static_cast<int64_t>(data.samples.size()) : data.n_samples;
  KVC_CHECK(arguments.index < n, "task ", spec.name, ": sample ", arguments.index, ", allowed: 0 to ", n - 1);
  const auto& sample = data.samples[static_cast<size_t>(arguments.index)];
  const auto encoded = encode_prompt(spec, data, sample, tokenizer, settings_of(arguments, chat, folder));
  const auto n_question = static_cast<size_t>(encoded.n_question_tokens);
  return {{"task", spec.name},
          {"sample", sample.id},
          {"gold", sample.gold},
          {"chat_template", chat ? chat->name : "none"},
          {"n_tokens_before", encoded.n_tokens_before},
          {"n_tokens", encoded.ids.size()},
          {"n_bos", count_bos(tokenizer, encoded.ids)},
          {"n_question_tokens", encoded.n_question_tokens},
          {"question", tokenizer.decode(std::span(encoded.ids).last(n_question), false)},
          {"parts", parts_json(encoded.prompt)},
          {"choices", encoded.choices},
          {"text", encoded.text},
          {"ids", encoded.ids}};
}

void print_text(const ordered_json& json) {
  const auto text = [&](const char* key) { return json[key].get<std::string>(); };
  std::printf("task %s, sample %s, gold %s, chat template %s\n", text("task").c_str(), json["sample"].dump().c_str(),
              json["gold"].dump().c_str(), text("chat_template").c_str());
  std::printf("%s tokens, %s before truncation, BOS %s times\n", json["n_tokens"].dump().c_str(),
              json["n_tokens_before"].dump().c_str(), json["n_bos"].dump().c_str());
  for (const auto& part : json["parts"]) {
    std::printf("--- %s\n%s\n", part["part"].get<std::string>().c_str(), part["text"].get<std::string>().c_str());
  }
  for (const auto& choice : json["choices"]) std::printf("--- choice\n%s\n", choice.get<std::string>().c_str());
  if (json["n_question_tokens"] > 0) {
    std::printf("--- read after the compressed prompt, %s tokens\n%s\n", json["n_question_tokens"].dump().c_str(),
                text("question").c_str());
  }
  std::printf("--- text as the model reads it\n%s\n--- ids\n%s\n", text("text").c_str(), json["ids"].dump().c_str());
}

}  // namespace

void add_prompt_verb(Verb program) {
  auto arguments = std::make_shared<PromptArguments>();
  auto verb = program.add_subcommand("prompt", "Prints one prompt of a task: its parts, text and token ids");
  verb.add_option("task", arguments->task, "task name or file").required();
  verb.add_option("index", arguments->index, "sample number, from 0").non_negative().required();
  verb.add_option("--model", arguments->model_name,
                  "folder, .gguf file or name; a folder needs only tokenizer and config.json")
      .show_default();
  verb.add_option("--data-dir", arguments->data_dir, "data folder (default: KVC_DATA)");
  verb.add_option("--max-prompt-tokens", arguments->max_tokens, "token limit, as in an experiment");
  verb.add_option("--context", arguments->context, "the model's context length (default: from config.json)");
  add_chat_options(verb, arguments->chat);
  verb.add_option("--system-message", arguments->system_message, "system message of the chat template");
  verb.add_flag("--question-after", arguments->question_after,
                "also show what `question: after_compression` reads after the compressed prompt");
  verb.add_flag("--json", arguments->as_json, "print one JSON object");
  verb.on_call([arguments] {
    const auto json = describe(*arguments);
    if (arguments->as_json) {
      std::printf("%s\n", json.dump().c_str());
    } else {
      print_text(json);
    }
    return kOk;
  });
}

}  // namespace kvc
