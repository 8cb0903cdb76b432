#include "experiment/grid.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "checkpoint/model_config.h"
#include "checkpoint/smoothing.h"
#include "checkpoint/tensor_source.h"
#include "checkpoint/weights_format.h"
#include "experiment/model_hashes.h"
#include "experiment/named_files.h"
#include "experiment/open_compressor.h"
#include "experiment/provenance.h"
#include "experiment/task_names.h"
#include "gguf/gguf_file.h"
#include "kvc/plugin.h"
#include "plugin_loader/calibration.h"
#include "plugin_loader/plugin_library.h"
#include "prompt/encode_prompt.h"
#include "prompt/text_windows.h"
#include "text/files.h"
#include "text/nearest.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr double kShareOfPatience =
    0.9;  // of a worker with a compressor in its own process: it is ended, not the worker

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kProbe = "\n{prompt}\n";  // whose line feeds are gone in a chat frame that strips them

// What tasks that read texts, or whose prompts are made to a length, need of the model.
struct Reader {
  const Tokenizer& tokenizer() {
    if (!loaded) loaded.emplace(Tokenizer::load(folder));
    return *loaded;
  }
  fs::path folder;
  CompressorPlace place;
  std::optional<Tokenizer> loaded = {};
  std::map<std::string, std::pair<int64_t, json>> references = {};  // by name: the worker's number and the key
};

// The task's samples; of questions that are made no more than the limit keeps.
Dataset load_data(const TaskSpec& spec, const Experiment& experiment, const Paths& paths, int64_t context,
                  Reader& reader) {
  const auto folder = data_folder(experiment.data_dir);
  if (!spec.data.made) return load_dataset(spec, folder);
  const auto limit = spec.buckets.empty() ? experiment.limit : std::nullopt;
  if (!spec.data.made->tokens) return load_dataset(spec, folder, {}, limit);
  std::optional<ChatTemplate> chat;
  if (spec.is_chat_turn) chat = choose_chat_template(experiment.chat, reader.folder, paths.root);
  const PromptSettings settings{&chat, chat ? experiment.system_message : "", context, experiment.max_prompt_tokens};
  return load_dataset(spec, folder, prompt_gauge(reader.tokenizer(), settings), limit);
}

// The compressor that the task's likelihoods are held against: its number, and what of it they depend on.
std::pair<int64_t, json> open_reference(const LikelihoodSpec& spec, Reader& reader,
                                        std::vector<CompressorChoice>& opened) {
  const auto known = reader.references.find(spec.reference);
  if (known != reader.references.end()) return known->second;
  const CompressorChoice choice{spec.reference, json::object(), spec.where};
  auto reference = open_compressors({choice}, reader.place).front();
  const std::pair<int64_t, json> result(static_cast<int64_t>(opened.size()), std::move(reference.key));
  opened.push_back(std::move(reference.choice));
  reader.references.emplace(spec.reference, result);
  return result;
}

void place_windows(const Experiment& experiment, TaskSpec& spec) {
  if (!experiment.texts.empty()) read_instead(experiment.texts, spec);
  const auto place = experiment.windows.find(spec.name);
  if (place == experiment.windows.end()) return;
  spec.likelihood->offset = place->second.offset;
  spec.likelihood->stride = place->second.stride;
}

void add_task(const TaskId& id, const Experiment& experiment, const Paths& paths, Reader& reader, Grid& grid) {
  auto spec = load_task(id);
  if (spec.likelihood) place_windows(experiment, spec);
  if (experiment.question_after) check_has_question(spec);
  auto data = load_data(spec, experiment, paths, grid.context, reader);
  auto whole = spec_json(spec, data);
  if (experiment.question_after) {
    auto json = nlohmann::json::parse(whole);
    json["question"] = spec.question;
    whole = json.dump();
  }
  int64_t reference = -1;
  if (spec.likelihood) {
    auto json = nlohmann::json::parse(whole);
    std::tie(reference, json["likelihood"]["reference"]) =
        open_reference(*spec.likelihood, reader, grid.worker.references);
    if (const auto begin = window_begin(reader.tokenizer()); !begin.empty()) json["likelihood"]["begin"] = begin;
    if (experiment.texts.size() > 1) {
      for (const auto& text : experiment.texts) json["likelihood"]["texts_sha256"].push_back(sha256_file(text));
    }
    whole = json.dump();
    cut_into_windows(spec, reader.tokenizer(), grid.context, experiment.max_prompt_tokens, data);
  }
  std::map<int64_t, std::vector<std::string>> buckets;
  for (const auto& sample : data.samples) {
    if (!sample.buckets.empty()) buckets[sample.id] = sample.buckets;
  }
  if (experiment.limit) keep_samples(data, static_cast<size_t>(*experiment.limit));
  auto& task = grid.tasks.emplace_back();
  task.spec = std::move(spec);
  task.data = std::move(data);
  task.spec_json = std::move(whole);
  task.buckets = std::move(buckets);
  task.reference = reference;
}

// A task whose file or data is bad is left out, and named; where none is left the first says why.
void add_tasks(const Experiment& experiment, const Paths& paths, Reader reader, Grid& grid) {
  std::string first_error;
  for (const auto& name : experiment.tasks) {
    for (const auto& id : tasks_of(name, paths)) {
      try {
        add_task(id, experiment, paths, reader, grid);
      } catch (const Error& e) {
        if (first_error.empty()) first_error = e.what();
        grid.left_out.push_back(concat(id.name(), ": ", e.what()));
      }
    }
  }
  if (grid.tasks.empty()) throw Error(first_error);
}

// Gives the experiment's chat template to the tasks whose prompt is a user's turn. What was asked for by name and can
// reach no prompt is an error.
void choose_chat(const Experiment& experiment, const fs::path& model_folder, const Paths& paths,
                 std::vector<Grid::Task>& tasks) {
  bool any_turn = false;
  for (const auto& task : tasks) any_turn = any_turn || task.spec.is_chat_turn;
  const auto& form = experiment.chat.form;
  KVC_CHECK(any_turn || form == "auto" || form == "none", "chat_template is '", form,
            "', and no task's prompt is a user's turn (prompt.chat: turn): expected auto or none");
  std::optional<ChatTemplate> chat;
  if (any_turn) chat = choose_chat_template(experiment.chat, model_folder, paths.root);
  KVC_CHECK(chat || experiment.system_message.empty(), "system_message is ", in_quotes(experiment.system_message),
            ", and no prompt of this model and these tasks has a chat template: expected none");
  KVC_CHECK(chat || experiment.chat.options.empty(), "chat_options is ", experiment.chat.options.dump(),
            ", and no prompt of this model and these tasks has a chat template: expected none");
  for (auto& task : tasks) {
    if (!chat || !task.spec.is_chat_turn) continue;
    task.chat = chat;
    task.system_message = experiment.system_message;
    render_turn(task.chat, task.system_message, kProbe);  // a template may have no place for a system message
  }
}

json decoding(const Sampling& sampling) {
  if (sampling.temperature == 0) return "greedy";
  return sampling;
}

json prefill_json(const PrefillChoice& prefill) {
  if (prefill.chunk == 0) return "exact";
  return {{"chunk", prefill.chunk}, {"through", prefill.through_all ? "all" : "earlier"}};
}

// What decides about the chat template, and what it puts around a prompt.
void add_chat(const Experiment& experiment, const Grid::Task& task, json& settings) {
  settings["chat_template"] = "none";
  if (!task.chat) return;
  settings.update(describe_chat(*task.chat, experiment.chat));
  settings["chat_frame"] = render_turn(task.chat, task.system_message, kProbe).text;
  if (!task.system_message.empty()) settings["system_message"] = task.system_message;
}

// Measures in any order, each once.
void add_probe(const ProbeSettings& probe, json& settings) {
  const std::set<std::string> measures(probe.measures.begin(), probe.measures.end());
  settings["probe"] = {{"measures", measures}, {"queries", probe.n_queries}};
}

// All that a result depends on beside model, task and compressor. Batching, sharing and the number of processes are not
// in it: they change no bit.
// end_tokens: of the model; they matter where answers are generated.
json settings_of(const Experiment& experiment, const Grid::Task& task, const std::set<int64_t>& end_tokens) {
  json settings = {{"dtype", experiment.dtype},
                   {"device", experiment.devices},
                   {"decoding", decoding(experiment.sampling)},
                   {"seed", experiment.seed},
                   {"prefill_attention", prefill_json(experiment.prefill)},
                   {"max_new_tokens", task.spec.max_new_tokens},
                   {"stop", task.spec.stop}};
  // On a GPU in 16 bits prompts go through LibTorch's scaled_dot_product_attention, with bits of its own.
  if (experiment.dtype != "fp32" && experiment.devices != std::vector<std::string>{"cpu"})
    settings["prompt_kernel"] = "sdpa";
  if (task.spec.kind == TaskSpec::Kind::kGenerate) settings["end_tokens"] = end_tokens;
  if (experiment.max_prompt_tokens) settings["max_prompt_tokens"] = *experiment.max_prompt_tokens;
  if (experiment.question_after) settings["question"] = kAfterCompression;
  add_chat(experiment, task, settings);
  if (experiment.kind == RunKind::probe) add_probe(experiment.probe, settings);
  return settings;
}

// What the cell is, and the hash of it.
void name_cell(const Experiment& experiment, const json& model, const Grid::Task& task, const json& compressor,
               const json& settings, CellRecord& record) {
  json key = {
      {"format", 1}, {"model", model}, {"task", task.spec_json}, {"compressor", compressor}, {"settings", settings}};
  const auto kind = experiment.kind == RunKind::probe ? RunKind::probe : RunKind::eval;  // a search scores answers
  if (kind != RunKind::eval) key["kind"] = to_string(kind);
  record.key = sha256_hex(key.dump());
  record.kind = kind;
  record.experiment = experiment.name;
  record.model_label = experiment.model_name;
  record.model_json = model.dump();
  record.task = task.spec.name;
  record.task_json = task.spec_json;
  record.generation_json = settings.dump();
  if (kind == RunKind::eval) record.scoring_json = scoring_json(task.spec);
  record.n_samples = static_cast<int64_t>(task.data.samples.size());
}

}  // namespace

Grid expand_grid(const Experiment& experiment, const Paths& paths, bool verify_hashes) {
  KVC_CHECK(!experiment.question_after || experiment.kind == RunKind::eval, "question is ", kAfterCompression,
            ", and kind is ", to_string(experiment.kind), ": expected kind eval");
  KVC_CHECK(experiment.prefill.chunk == 0 || experiment.kind == RunKind::eval, "prefill in chunks, and kind is ",
            to_string(experiment.kind), ": expected kind eval");
  Grid grid;
  const auto model_folder =
      experiment.model_path.empty() ? below_root(paths, experiment.model_name) : experiment.model_path;
  KVC_CHECK(is_model_path(model_folder), "model '", experiment.model_name, "': no such folder or .gguf file");
  const auto config = load_model_config(model_folder);
  grid.context = config.max_position_embeddings;
  grid.shape = config.shape();
  grid.vocab_size = config.vocab_size;
  grid.eos_ids = config.eos_token_ids;
  open_tensors(model_folder);  // or says what is there instead
  const auto model_hashes = hash_model(model_folder, verify_hashes);
  const auto identity = model_identity(model_hashes);
  auto quantization = experiment.quantization;
  if (const auto file = below_root(paths, quantization.smoothing_file); fs::is_regular_file(file)) {
    quantization.smoothing_file = file.string();
  }
  const auto quantized = check_quantization(quantization, config, model_hashes);
  auto model_json = model_hashes;
  if (is_gguf(model_folder)) model_json["weights_format"] = weights_format(model_folder);
  if (!quantized.empty()) model_json["quantization"] = quantized;
  auto& worker = grid.worker;
  worker.model_path = model_folder.string();
  worker.dtype = experiment.dtype;
  worker.weights = experiment.weights;
  worker.quantization = quantization;
  worker.devices = experiment.devices;
  worker.threads = experiment.threads;
  worker.batch_size = experiment.batch_size;
  worker.n_workers = experiment.workers;
  worker.share_prefix = experiment.share_prefix;
  worker.patience = kShareOfPatience * experiment.patience;
  worker.sampling = experiment.sampling;
  worker.prefill = experiment.prefill;

  const auto place = compressor_place(experiment, paths, config.shape(), identity);
  const auto compressors = open_compressors(experiment.compressors, place);
  for (const auto& compressor : compressors) worker.compressors.push_back(compressor.choice);
  add_tasks(experiment, paths, {model_folder, place}, grid);
  choose_chat(experiment, model_folder, paths, grid.tasks);
  auto made_by = provenance(experiment.config);
  std::vector<fs::path> task_files;
  for (const auto& task : grid.tasks) task_files.emplace_back(task.spec.yaml_file);
  made_by["files"] = named_files(experiment, grid.worker, task_files, paths);
  if (!experiment.model_origin.is_null()) made_by["model"] = experiment.model_origin;
  const auto made_with = made_by.dump();
  for (size_t t = 0; t < grid.tasks.size(); ++t) {
    const auto& task = grid.tasks[t];
    auto settings = settings_of(experiment, task, {config.eos_token_ids.begin(), config.eos_token_ids.end()});
    settings["weights"] = quantized.contains("weights") ? quantized["weights"] : json(experiment.weights);
    for (size_t c = 0; c < compressors.size(); ++c) {
      Grid::Cell cell{t, static_cast<int>(c), compressors[c].record};
      name_cell(experiment, model_json, task, compressors[c].key, settings, cell.record);
      cell.record.provenance_json = made_with;
      cell.record.position = static_cast<int64_t>(c);
      cell.record.min_baseline = experiment.min_baseline;
      grid.cells.push_back(std::move(cell));
    }
  }
  return grid;
}

void keep_cells(const std::vector<KeptCell>& kept, Grid& grid) {
  std::map<std::string, size_t> cell_of;
  for (size_t c = 0; c < grid.cells.size(); ++c) cell_of[grid.cells[c].record.key] = c;
  std::vector<size_t> order;  // of tasks
  for (auto& cell : grid.cells) cell.runs = false;
  for (const auto& [key, elsewhere] : kept) {
    const auto found = cell_of.find(key);
    KVC_CHECK(found != cell_of.end(), "no cell has the key ", key);
    auto& cell = grid.cells[found->second];
    cell.runs = true;
    cell.elsewhere.insert(elsewhere.begin(), elsewhere.end());
    const auto task = cell.task;
    if (std::find(order.begin(), order.end(), task) == order.end()) order.push_back(task);
  }
  std::vector<Grid::Task> tasks;
  std::vector<Grid::Cell> cells;
  for (const size_t task : order) {
    for (const auto& cell : grid.cells) {
      if (cell.task != task) continue;
      cells.push_back(cell);
      cells.back().task = tasks.size();
    }
    tasks.push_back(std::move(grid.tasks[task]));
  }
  grid.tasks = std::move(tasks);
  grid.cells = std::move(cells);
  grid.is_part = true;
}

}  // namespace kvc
