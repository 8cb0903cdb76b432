#include <array>
#include <cstdio>
#include <filesystem>

#include "checkpoint/model_config.h"
#include "checkpoint/repeated_head.h"
#include "checkpoint/weights_format.h"
#include "cli/verbs.h"
#include "experiment/paths.h"
#include "fetch/fetch_progress.h"
#include "fetch/model_source.h"
#include "model/model_size.h"
#include "model_lookup/window_text.h"
#include "prompt/model_chat.h"
#include "render/table.h"
#include "text/nearest.h"
#include "text/utf8.h"
#include "tokenizer/tokenizer.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

int64_t bytes_in(const fs::path& folder) {
  int64_t n_bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) n_bytes += static_cast<int64_t>(entry.file_size());
  return n_bytes;
}

TableCell context_of(const fs::path& folder) {
  try {
    return load_model_config(folder).max_position_embeddings;
  } catch (const Error&) {
    return {};  // of a family that is not read
  }
}

int list() {
  using enum TableColumn::Align;
  const auto places = model_places(find_paths().root);
  Table table;
  table.columns = {{"name"}, {"size", kRight}, {"licence"}, {"context", kRight}, {"from"}, {"here"}, {"what it is"}};
  for (const auto& model : model_catalog(places)) {
    const auto found = find_model(model.name, places);
    table.rows.push_back({model.name, megabytes(model.n_bytes), model.licence, model.context, model.comes_from(),
                          found ? found->path.string() : "no", model.summary});
  }
  for (const auto& [id, model] : own_hub_models(places.hub)) {
    table.rows.push_back({id.written(),
                          megabytes(bytes_in(model.folder)),
                          {},
                          context_of(model.folder),
                          places.hub.endpoint,
                          model.folder.string(),
                          "fetched from the Hub"});
  }
  table.notes.push_back("elsewhere: a folder, a .gguf file, or hf:ORG/NAME[@REVISION] of the Hugging Face Hub");
  std::fputs(write_markdown(table).c_str(), stdout);
  return kOk;
}

int get(const std::vector<std::string>& models, bool accept_license) {
  auto places = model_places(find_paths().root);
  if (accept_license) places.accept = [](const std::string&) { return true; };
  for (const auto& model : models) std::printf("%s\n", get_model(model, places).path.c_str());
  return kOk;
}

void print(const char* what, const std::string& value) { std::printf("%-12s %s\n", what, value.c_str()); }

// Where the template is from, or why it cannot be rendered.
std::string chat_format(const fs::path& path, const Paths& paths) {
  try {
    const auto chat = choose_chat_template({}, path, paths.root);
    if (!chat) return "none: the model brings no chat template";
    render_turn(chat, "", "x");
    return concat("the model's own, of ", chat->from);
  } catch (const Error& e) {
    return concat("cannot be rendered: ", e.what());
  }
}

std::string architecture_text(const ModelConfig& config) {
  return concat(config.architecture->name, ", ", config.n_layers, " layers, ", config.n_heads, " heads over ",
                config.n_kv_heads, " KV heads of ", config.head_dim, ", hidden size ", config.hidden_size);
}

// "151645 '<|im_end|>', 151643 '<|endoftext|>'"
std::string end_tokens_text(const ModelConfig& config, const Tokenizer& tokenizer) {
  std::vector<std::string> tokens;
  for (const int64_t id : config.eos_token_ids) {
    tokens.push_back(concat(id, " ", in_quotes(tokenizer.decode(std::array{id}, false))));
  }
  return tokens.empty() ? "none: only a task's stop strings and its limit end an answer" : join(tokens);
}

// A head that repeats the embedding counts once.
std::string parameters_text(const fs::path& path, const ModelConfig& config) {
  const auto n = model_size(config).n_parameters;
  if (config.tied_embeddings || !is_gguf(path) || !repeats_embedding(*open_tensors(path), config)) return concat(n);
  return concat(n - config.vocab_size * config.embedding_size,
                "; the file holds the embedding twice, the second time as the head");
}

void print_files(const fs::path& path, const ModelConfig& config, const Paths& paths) {
  const auto n_kv = kv_bytes_per_token_16bit(config);
  print("architecture", architecture_text(config));
  print("parameters", parameters_text(path, config));
  print("weights", concat(weights_format(path), ", ", weights_file_bytes(path), " bytes"));
  const auto tokenizer = Tokenizer::load(path);
  print("tokenizer", concat(tokenizer.vocab_size(), " tokens; the model's vocabulary ", config.vocab_size));
  print("end tokens", end_tokens_text(config, tokenizer));
  print("chat format", chat_format(path, paths));
  print("KV", concat(n_kv, " bytes/token at 16 bits"));
  print("context", concat(config.max_position_embeddings, " tokens, ", megabytes(n_kv * config.max_position_embeddings),
                          " of KV at 16 bits"));
  if (const auto windows = window_text(config, config.max_position_embeddings); !windows.empty()) {
    print("windows", windows);
  }
}

// Whose model it is, which is not whose wheels they are.
void print_entry(const CatalogModel& entry) {
  const auto uploaded = entry.wheels.empty() ? "" : "; the wheels were uploaded by others than its authors";
  if (!entry.upstream.empty()) print("upstream", entry.upstream + uploaded);
  print("license",
        entry.terms ? concat(entry.licence, ": ", entry.terms->name, ", ", entry.terms->url) : entry.licence);
}

std::string origin_text(const nlohmann::json& origin) {
  auto text = origin.at("from").get<std::string>();
  for (const auto& [key, value] : origin.items()) {
    if (key != "from") text += concat(", ", key == "sha256" ? "SHA-256" : key, " ", value.get<std::string>());
  }
  return text;
}

int show(const std::string& model) {
  const auto paths = find_paths();
  const auto places = model_places(paths.root);
  const auto found = find_model(model, places);
  if (!found) {
    const auto missing = missing_model(model, places);
    print("model", model);
    if (const auto entry = catalog_model(model, places)) print_entry(*entry);
    print("from", missing.from);
    print("here", concat("no: `kvc model get ", model, "` fetches ", megabytes(missing.n_bytes),
                         missing.terms.empty() ? "" : concat(" once the ", missing.terms, " are accepted")));
    return kOk;
  }
  const auto config = load_model_config(found->path);
  print("model", model);
  const auto entry = catalog_model(model, places);
  if (!found->origin.is_null() && entry) print_entry(*entry);
  if (!found->origin.is_null()) print("from", origin_text(found->origin));
  print("path", found->path.string());
  print_files(found->path, config, paths);
  return kOk;
}

}  // namespace

void add_model_verbs(Verb program) {
  struct Arguments {
    std::string model_name;
    std::vector<std::string> models;
    bool accept_license = false;
  };
  auto arguments = std::make_shared<Arguments>();
  auto verb = program.add_subcommand("model", "Lists the named models, downloads one, or describes one");
  verb.require_subcommand();
  verb.add_subcommand("list", "Lists names, sizes and licences, and which are downloaded").on_call(list);
  auto get_verb = verb.add_subcommand("get", "Downloads missing models and prints their paths");
  get_verb.add_option("model", arguments->models, "names, or hf:ORG/NAME[@REVISION]").required();
  get_verb.add_flag("--accept-license", arguments->accept_license, "shows and accepts the licenses that ask for it");
  get_verb.on_call([arguments] { return get(arguments->models, arguments->accept_license); });
  auto show_verb = verb.add_subcommand("show", "Describes a model: size, weights, tokenizer, end tokens, chat format");
  show_verb.add_option("model", arguments->model_name, "folder, .gguf file or name").required();
  show_verb.on_call([arguments] { return show(arguments->model_name); });
}

}  // namespace kvc
