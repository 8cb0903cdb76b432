#include <ATen/ops/cat.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "cli/chat_arguments.h"
#include "cli/standard_output.h"
#include "cli/verbs.h"
#include "experiment/grid.h"
#include "experiment/model_hashes.h"
#include "experiment/read_compressors.h"
#include "generate/chunked_prefill.h"
#include "generate/exact_cache.h"
#include "generate/prompt_end.h"
#include "generate/stop_scanner.h"
#include "kvc/joint_prefill.h"
#include "kvc/plugin.h"
#include "model/transformer.h"
#include "model_lookup/model_path.h"
#include "plugin_loader/calibration.h"
#include "plugin_loader/plugin_library.h"
#include "prompt/model_chat.h"
#include "text/files.h"
#include "text/json.h"
#include "text/message.h"
#include "text/text_file.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/tokenizer.h"
#include "worker/load_model.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct TryArguments {
  std::string model_name, compressor, options = "{}", dtype = "fp32";
  ChatArguments chat{.form = "none"};
  std::vector<std::string> plugin_path;
  std::string prompt, prompt_file, ids_file, input, output;
  std::string through = "earlier";
  int64_t max_new_tokens = 128, prompt_tokens = 0, chunk = 0;
  bool decode = false, no_special_tokens = false, print_ids = false;
};

json parse_json(const std::string& what, const std::string& text) {
  check_json_depth(text, what);
  try {
    return json::parse(text);
  } catch (const json::parse_error& e) {
    throw Error(concat(what, ": not JSON at byte ", e.byte, ": '", text.substr(0, 80), "'"));
  } catch (const json::out_of_range& e) {
    throw Error(concat(what, ": ", said_by(e)));
  }
}

struct MadeCompressor {
  std::unique_ptr<Compressor> compressor;  // none where the caller wants the exact cache
  Capabilities capabilities = {};
};

// The named compressor for that model.
MadeCompressor make_compressor(const TryArguments& arguments, const ModelShape& shape) {
  if (arguments.compressor.empty()) return {};
  auto choice = compressor_argument("compressor", arguments.compressor);
  choice.options.update(parse_json("--options", arguments.options));
  const auto library = PluginLibrary(find_plugin(choice.plugin, plugin_folders(arguments.plugin_path, find_paths())));
  auto compressor =
      make_calibrated(library, choice.options, shape,
                      arguments.model_name.empty() ? "" : model_identity(hash_model(model_path(arguments.model_name))));
  compressor->check_model(shape);
  return {std::move(compressor), library.descriptor().capabilities};
}

std::unique_ptr<LayerCache> make_cache(const Compressor* compressor, const LayerInfo& info) {
  if (compressor) return compressor->make_cache(info);
  return std::make_unique<ExactCache>(info);
}

using Caches = std::vector<std::unique_ptr<LayerCache>>;

// Observation and end of a prompt that the caches were given; layers: its exact k and v.
void end_prompt(const Transformer& model, const fs::path& folder, const Compressor& compressor,
                std::span<const int64_t> ids, std::span<const NewTokens> layers, const Caches& caches) {
  if (const auto* pass = dynamic_cast<const ObservationPass*>(&compressor)) {
    const auto on_chunk = [&](int64_t layer, const ObservedChunk& chunk) {
      pass->observe(*caches[static_cast<size_t>(layer)], chunk);
    };
    observe_prompt(model, Tokenizer::load(folder), pass->observation(), ids, layers, on_chunk);
  }
  finish_prefill(compressor, caches);
}

// Exact prefill of the prompt into new caches -> logits [n_last, V] after its last n_last tokens.
at::Tensor prefill(const Transformer& model, const fs::path& folder, const Compressor* compressor,
                   std::span<const int64_t> ids, Caches& caches, int64_t n_last = 1) {
  const bool waits = waits_for_prompt_end(compressor);
  std::vector<NewTokens> layers;
  const auto on_layer = [&](int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    caches.push_back(make_cache(compressor, model.layer_info(layer, 0)));
    caches.back()->append({q, k, v, 0});
    if (waits) layers.push_back({{}, k, v, 0});
  };
  const auto logits = model.prefill(ids, on_layer, n_last);
  if (waits) end_prompt(model, folder, *compressor, ids, layers, caches);
  return logits;
}

// Prefill in chunks through new caches -> logits [V] after the last token.
at::Tensor prefill_through(const Transformer& model, const MadeCompressor& made, std::span<const int64_t> ids,
                           const TryArguments& arguments, Caches& caches) {
  const auto& compressor = *made.compressor;
  KVC_CHECK(made.capabilities.chunked_prompt, "--chunk ", arguments.chunk,
            ": the compressor needs the whole prompt at once");
  const bool through_all = arguments.through == "all" && !made.capabilities.evicts;
  std::vector<LayerInfo> layers;
  for (int64_t layer = 0; layer < model.shape().n_layers; ++layer) {
    layers.push_back(model.layer_info(layer, 0));
    caches.push_back(compressor.make_cache(layers.back()));
  }
  return prefill_chunks(model, ids, arguments.chunk, [&](int64_t layer, const NewTokens& tokens) {
    auto& cache = *caches[static_cast<size_t>(layer)];
    return attend_chunk(cache, tokens, through_all, layers[static_cast<size_t>(layer)], [&] { cache.append(tokens); });
  });
}

// -> whether more may be printed
bool print_now(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  return !is_output_lost();
}

int generate(const TryArguments& arguments) {
  const auto folder = model_path(arguments.model_name);
  const auto model = Transformer::load(folder, parse_dtype(arguments.dtype));
  const auto tokenizer = Tokenizer::load(folder);
  tokenizer.check_rows(model.config().vocab_size, folder.string());
  const auto compressor = make_compressor(arguments, model.shape()).compressor;
  const auto prompt = arguments.prompt_file.empty() ? arguments.prompt : read_text(arguments.prompt_file);
  const auto turn =
      render_turn(choose_chat_template(chat_settings(arguments.chat), folder, find_paths().root), "", prompt);
  const auto prompt_ids = tokenizer.encode(turn.text, turn.add_special_tokens);
  const auto& eos = model.config().eos_token_ids;

  Caches caches;
  auto logits = prefill(model, folder, compressor.get(), prompt_ids, caches).squeeze(0);
  std::vector<int64_t> ids;
  Detokenizer detokenizer(tokenizer, true);
  const int64_t room = model.config().max_position_embeddings - static_cast<int64_t>(prompt_ids.size());
  while (static_cast<int64_t>(ids.size()) < std::min(arguments.max_new_tokens, room)) {
    ids.push_back(logits.argmax().item<int64_t>());
    if (std::find(eos.begin(), eos.end(), ids.back()) != eos.end()) break;
    if (!arguments.print_ids && !print_now(detokenizer.add(ids.back()))) return kEnvironment;
    const auto position = static_cast<int64_t>(prompt_ids.size() + ids.size()) - 1;
    logits = model.decode_step(ids.back(), position, caches);
  }
  if (arguments.print_ids) {
    std::printf("%s\n", json(ids).dump().c_str());
  } else {
    print_now(detokenizer.finish() + "\n");
  }
  return kOk;
}

void print_line(const json& value) { std::printf("%s\n", value.dump().c_str()); }

int tokenize(const TryArguments& arguments) {
  const auto tokenizer = Tokenizer::load(model_path(arguments.model_name));
  std::ios::sync_with_stdio(false);
  int64_t line_number = 0;
  for (std::string line; std::ferror(stdout) == 0 && std::getline(std::cin, line);) {
    const auto where = "standard input:" + std::to_string(++line_number);
    const auto value = parse_json(where, line);
    if (arguments.decode) {
      KVC_CHECK(value.is_array(), where, ": expected an array of ids");
      print_line(tokenizer.decode(value.get<std::vector<int64_t>>(), !arguments.no_special_tokens));
    } else {
      KVC_CHECK(value.is_string(), where, ": expected a string");
      print_line(tokenizer.encode(value.get<std::string>(), !arguments.no_special_tokens));
    }
  }
  return kOk;
}

int logits(const TryArguments& arguments) {
  KVC_CHECK(arguments.chunk >= 0 && (arguments.chunk == 0 || !arguments.compressor.empty()), "--chunk ",
            arguments.chunk, ", allowed: 1 and more, with --compressor");
  const auto model = Transformer::load(model_path(arguments.model_name), parse_dtype(arguments.dtype));
  const auto value = parse_json(arguments.ids_file, read_text(arguments.ids_file));
  KVC_CHECK(value.is_array() && !value.empty() &&
                std::all_of(value.begin(), value.end(), [](const json& id) { return id.is_number_integer(); }),
            arguments.ids_file, ": expected one non-empty array of ids");
  const auto ids = value.get<std::vector<int64_t>>();
  const auto n_ids = static_cast<int64_t>(ids.size());
  at::Tensor all;
  if (const auto made = make_compressor(arguments, model.shape()); made.compressor) {
    // Exact prefill of the first tokens, then each next one through the compressed cache.
    const int64_t n_prompt = arguments.prompt_tokens > 0 ? arguments.prompt_tokens : 1;
    KVC_CHECK(n_prompt <= n_ids, "--prompt-tokens ", n_prompt, ", allowed: at most the ", n_ids, " ids");
    Caches caches;
    const auto prompt = std::span(ids).first(static_cast<size_t>(n_prompt));
    const auto folder = model_path(arguments.model_name);
    std::vector<at::Tensor> rows;
    if (arguments.chunk > 0) {
      rows.push_back(prefill_through(model, made, prompt, arguments, caches).unsqueeze(0));
    } else {
      rows.push_back(prefill(model, folder, made.compressor.get(), prompt, caches, n_prompt));
    }
    for (int64_t i = n_prompt; i < n_ids; ++i) {
      rows.push_back(model.decode_step(ids[static_cast<size_t>(i)], i, caches).unsqueeze(0));
    }
    all = at::cat(rows);
  } else {
    all = model.prefill(
        ids, [](auto&&...) {}, n_ids);
  }
  write_safetensors(arguments.output, {{"logits", all}});
  return kOk;
}

int apply(const TryArguments& arguments) {
  const SafetensorsFile file(arguments.input);
  const auto k = file.tensor("k"), v = file.tensor("v");
  KVC_CHECK(k.dim() == 3 && k.sizes() == v.sizes() && k.size(1) >= 1, arguments.input, ": k has shape ", k.sizes(),
            " and v ", v.sizes(), ", expected the same [H_kv, T >= 1, D]");
  at::Tensor q;
  if (file.has("q")) {
    q = file.tensor("q");
    KVC_CHECK(q.dim() == 3 && q.size(1) == 1 && q.size(2) == k.size(2) && q.size(0) % k.size(0) == 0, arguments.input,
              ": q has shape ", q.sizes(), ", expected [H_q, 1, ", k.size(2), "] with H_q a multiple of ", k.size(0));
  }
  const int64_t n_tokens = k.size(1);
  const int64_t n_prompt = arguments.prompt_tokens > 0 ? arguments.prompt_tokens : n_tokens;
  KVC_CHECK(n_prompt <= n_tokens, "--prompt-tokens ", n_prompt, ", allowed: at most the input's ", n_tokens);
  const ModelShape shape{1, q.defined() ? q.size(0) : k.size(0), k.size(0), k.size(2)};
  const auto compressor = make_compressor(arguments, shape).compressor;
  const auto cache = compressor->make_cache({0, 1, shape.n_heads, shape.n_kv_heads, shape.head_dim, 0, at::kCPU});
  append_prompt_alone(*compressor, *cache, {at::Tensor(), k.narrow(1, 0, n_prompt), v.narrow(1, 0, n_prompt), 0});
  for (int64_t t = n_prompt; t < n_tokens; ++t) cache->append({at::Tensor(), k.narrow(1, t, 1), v.narrow(1, t, 1), t});

  const auto held = cache->dequantize();
  std::map<std::string, at::Tensor> out{{"k", held.k}, {"v", held.v}, {"positions", cache->positions().contiguous()}};
  if (q.defined()) out["attention"] = cache->attend(q, shape.attention_scale);
  write_safetensors(arguments.output, out);

  json rows = json::array();
  const auto footprint = cache->footprint();
  for (const auto& row : footprint.rows()) {
    rows.push_back({{"tensor", to_string(row.tensor)}, {"kind", to_string(row.kind)}, {"bytes", row.bytes}});
  }
  const int64_t fp16_bytes = 4 * shape.n_kv_heads * shape.head_dim * n_tokens;
  std::printf("%s\n", json({{"footprint", rows},
                            {"bytes", footprint.total_bytes()},
                            {"paper_bytes", compressor->paper_bytes(shape, n_prompt, n_tokens - n_prompt)},
                            {"fp16_bytes", fp16_bytes},
                            {"n_tokens", n_tokens},
                            {"n_encoded_tokens", cache->n_encoded_tokens()}})
                          .dump()
                          .c_str());
  return kOk;
}

void add_compressor_options(Verb verb, TryArguments& arguments) {
  verb.add_option("--options", arguments.options,
                  "JSON object of options; overrides those given with the compressor's name")
      .show_default();
  verb.add_option("--plugin-path", arguments.plugin_path, "folders to search before the built-in plugins");
}

Verb add_model_verb(Verb program, TryArguments& arguments, const char* name, const char* help) {
  auto verb = program.add_subcommand(name, help);
  verb.add_option("model", arguments.model_name, "folder, .gguf file or name").required();
  return verb;
}

}  // namespace

void add_try_verbs(Verb program) {
  auto arguments = std::make_shared<TryArguments>();
  auto& a = *arguments;
  const std::vector<std::string> compute_types{"fp32", "fp16", "bf16"};

  auto verb = add_model_verb(program, a, "generate", "Generates a greedy continuation of one prompt");
  auto prompt = verb.add_option("--prompt", a.prompt, "the prompt");
  auto prompt_file = verb.add_option("--prompt-file", a.prompt_file, "file with the prompt");
  prompt_file.excludes(prompt);
  verb.add_option("--compressor", a.compressor, "plugin, e.g. 'kivi: {bits: 2}' (default: an uncompressed cache)");
  add_compressor_options(verb, a);
  verb.add_option("--max-new-tokens", a.max_new_tokens, "most tokens to generate").positive().show_default();
  verb.add_option("--dtype", a.dtype, "the model's compute type").choices(compute_types).show_default();
  add_chat_options(verb, a.chat);
  verb.add_flag("--ids", a.print_ids, "print token ids as a JSON array instead of text");
  verb.on_call([arguments] { return generate(*arguments); });

  verb = add_model_verb(program, a, "tokenize",
                        "Tokenizes: reads one JSON string per line, writes one JSON array of ids per line");
  verb.add_flag("--decode", a.decode, "the reverse: ids to text");
  verb.add_flag("--no-special-tokens", a.no_special_tokens,
                "do not add special tokens (with --decode: do not drop them)");
  verb.on_call([arguments] { return tokenize(*arguments); });

  verb = add_model_verb(program, a, "logits", "Writes fp32 logits [T, V] for given token ids");
  verb.add_option("--ids", a.ids_file, "JSON file with one array of ids").required();
  verb.add_option("--output", a.output, "safetensors file to write").required();
  verb.add_option("--compressor", a.compressor, "read the ids through this compressor's cache");
  add_compressor_options(verb, a);
  verb.add_option("--prompt-tokens", a.prompt_tokens, "ids prefilled in one step (default: 1)");
  verb.add_option(
      "--chunk", a.chunk,
      "prefill these in chunks of this many tokens, through the compressor's cache; logits then begin with those "
      "after the last of them");
  verb.add_option("--through", a.through, "what a chunk attends to through the cache, as an experiment's prefill")
      .choices({"earlier", "all"})
      .show_default();
  verb.add_option("--dtype", a.dtype, "the model's compute type").choices(compute_types).show_default();
  verb.on_call([arguments] { return logits(*arguments); });

  verb = program.add_subcommand("apply",
                                "Compresses K and V from a file; writes them back as stored, and attention over them");
  verb.add_option("compressor", a.compressor, "plugin, e.g. 'kivi: {bits: 2}'").required();
  add_compressor_options(verb, a);
  verb.add_option("--input", a.input, "safetensors: k, v [H_kv, T, D], optionally q [H_q, 1, D]").required();
  verb.add_option("--output", a.output, "safetensors to write: dequantized k, v, positions, attention output of q")
      .required();
  verb.add_option("--prompt-tokens", a.prompt_tokens,
                  "tokens appended in one step, the rest one by one (default: all)");
  verb.on_call([arguments] { return apply(*arguments); });
}

}  // namespace kvc
