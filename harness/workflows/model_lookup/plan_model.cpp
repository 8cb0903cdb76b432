#include "model_lookup/plan_model.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/model_config.h"
#include "experiment/grid.h"
#include "experiment/read_compressors.h"
#include "gguf/gguf_file.h"
#include "kvc/plugin.h"
#include "model/model_size.h"
#include "model_lookup/window_text.h"
#include "plugin_loader/calibration.h"
#include "plugin_loader/plan_memory.h"
#include "plugin_loader/plugin_library.h"
#include "render/table.h"
#include "text/json_reader.h"
#include "text/message.h"
#include "wire/forked_child.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kGigabyte = 1e9;
constexpr int64_t kMemoriesGb[] = {24, 80, 141};
constexpr double kStraight = 0.01;  // a misfit below it is not worth a line

struct Candidate {
  fs::path plugin;
  json options;       // null: the defaults
  bool asked = true;  // for by name: it has to open
};

struct Measured {
  std::string name, options;  // options as given, or "defaults"
  std::string refusal;        // why there is no line
  CacheLine line = {};
  bool simulated = false;
};

std::vector<Candidate> find_candidates(const PlanArguments& arguments) {
  KVC_CHECK(arguments.options.empty() || arguments.options.size() == arguments.compressors.size(), "--options ",
            arguments.options.size(), " times, expected never or once for each of the ", arguments.compressors.size(),
            " --compressor");
  const auto folders = plugin_folders(arguments.plugin_path, find_paths());
  std::vector<Candidate> candidates;
  if (arguments.compressors.empty()) {
    for (const auto& file : find_plugins(folders)) candidates.push_back({file, nullptr, false});
  }
  for (size_t i = 0; i < arguments.compressors.size(); ++i) {
    auto choice = compressor_argument("--compressor", arguments.compressors[i]);
    if (!arguments.options.empty()) choice.options.update(parse_json(arguments.options[i], "--options"));
    const bool has_none = arguments.options.empty() && choice.options.empty();
    candidates.push_back({find_plugin(choice.plugin, folders), has_none ? json() : choice.options});
  }
  return candidates;
}

// In a child: the plugin's code runs.
json measure(const Candidate& candidate, const ModelShape& model) {
  const PluginLibrary library(candidate.plugin);
  const auto compressor = make_calibrated(library, candidate.options, model, "");
  try {
    compressor->check_model(model);
    const auto line = measure_cache(*compressor, model);
    return {{"line", {line.bytes_per_token, line.fixed_bytes, line.bytes_per_step, line.misfit}},
            {"layers_differ", line.layers_differ},
            {"simulated", library.descriptor().capabilities.simulated}};
  } catch (const std::exception& e) {
    return {{"refusal", said_by(e)}};
  }
}

Measured measured_of(const Candidate& candidate, const ChildAnswer& answer) {
  if (candidate.asked && !answer.error.empty()) throw Error(answer.error);
  Measured measured{candidate.plugin.stem(), candidate.options.is_null() ? "defaults" : candidate.options.dump(),
                    answer.error};
  if (answer.value.contains("refusal")) measured.refusal = answer.value["refusal"];
  if (!answer.value.contains("line")) return measured;
  const auto number = [&](size_t i) {  // JSON has null for what is none
    const auto& given = answer.value["line"].at(i);
    return given.is_null() ? std::numeric_limits<double>::quiet_NaN() : given.get<double>();
  };
  measured.line = {number(0), number(1), number(2), number(3), answer.value["layers_differ"]};
  measured.simulated = answer.value["simulated"];
  return measured;
}

std::vector<Measured> measure_all(const std::vector<Candidate>& candidates, const ModelShape& model) {
  std::vector<std::string> names;
  for (const auto& candidate : candidates) names.push_back(candidate.plugin.string());
  std::vector<Measured> measured;
  in_child(
      names, [&](size_t i) { return measure(candidates[i], model); },
      [&](size_t i, const ChildAnswer& answer) { measured.push_back(measured_of(candidates[i], answer)); },
      kSecondsToMeasure);
  return measured;
}

WeightType parse_weights(const std::string& name) {
  if (name == "fp32") return WeightType::fp32;
  if (name == "int8") return WeightType::int8;
  KVC_CHECK(name == "16bit", "--weights '", name, "', allowed: fp32, 16bit, int8");
  return WeightType::bits16;
}

void print_sizes(const fs::path& model, const ModelConfig& config, const ModelSize& size) {
  const auto bytes = [&](WeightType type) { return weights_bytes(size, type); };
  std::printf("model    %s: %s, %ld layers, %ld heads over %ld KV heads of %ld, context %ld\n", model.c_str(),
              config.architecture->name, config.n_layers, config.n_heads, config.n_kv_heads, config.head_dim,
              config.max_position_embeddings);
  std::printf("weights  %ld parameters: %ld bytes at fp32, %ld at 16 bits, %ld at int8\n", size.n_parameters,
              bytes(WeightType::fp32), bytes(WeightType::bits16), bytes(WeightType::int8));
  std::printf("         int8: layer matrices 1 byte/weight and an fp32 scale per row; the rest at 16 bits\n");
  std::printf("KV       %ld bytes/token at 16 bits\n", kv_bytes_per_token_16bit(config));
  const auto windows = window_text(config, config.max_position_embeddings);
  if (!windows.empty()) std::printf("windows  %s\n", windows.c_str());
}

void print_formula(const PlanArguments& arguments, const ModelShape& shape) {
  std::printf(
      "measured one layer's footprint() after random prompts of %ld and %ld tokens gives slope and offset;\n"
      "         KV(T) = %ld layers x (offset + slope x T) = fixed + bytes per token x T, for one sequence\n"
      "room     memory - %s weights - %g GB reserve for workspace; 1 GB = 1e9 bytes\n"
      "context  the largest T with KV(T) <= room, regardless of the model's own context length; batch: the largest n "
      "with n x KV(T) <= room\n\n",
      kMeasuredTokens[0], kMeasuredTokens[1], shape.n_layers, arguments.weights.c_str(), arguments.reserve_gb);
}

// The cells of one compressor and one memory: context at batch 1, and the batch for each of `lengths`.
void add_memory(const CacheLine& line, double room, const std::vector<int64_t>& lengths, std::vector<TableCell>& row) {
  const auto or_not = [](int64_t n) { return n > 0 ? TableCell(n) : TableCell("does not fit"); };
  const auto context = largest_context(line, room);
  row.push_back(context ? or_not(*context) : TableCell("any"));
  for (const int64_t length : lengths) row.push_back(or_not(largest_batch(line, room, length)));
}

Table empty_table(const std::vector<int64_t>& lengths) {
  using enum TableColumn::Align;
  Table table;
  table.columns = {{"compressor"},
                   {"options"},
                   {"KV", kRight, "bytes/token", 1},
                   {"of 16 bits", kRight, "%", 1},
                   {"fixed", kRight, "bytes", 0},
                   {"decoding", kRight, "bytes/token", 1}};
  for (const int64_t gb : kMemoriesGb) {
    table.columns.push_back({concat(gb, " GB: context"), kRight});
    for (const int64_t length : lengths) table.columns.push_back({concat("batch at ", length), kRight});
  }
  return table;
}

void add_candidate(const Measured& measured, const ModelConfig& config, const PlanArguments& arguments,
                   const std::vector<int64_t>& lengths, Table& table) {
  const auto name = concat(measured.name, " (", measured.options, ")");
  if (!measured.refusal.empty()) {
    table.notes.push_back(concat(name, " does not support this model: ", measured.refusal));
    return;
  }
  const auto& line = measured.line;
  const auto weights = static_cast<double>(weights_bytes(model_size(config), parse_weights(arguments.weights)));
  std::vector<TableCell> row{
      measured.name,        measured.options,
      line.bytes_per_token, 100 * line.bytes_per_token / static_cast<double>(kv_bytes_per_token_16bit(config)),
      line.fixed_bytes,     line.bytes_per_step};
  for (const int64_t gb : kMemoriesGb) {
    add_memory(line, (static_cast<double>(gb) - arguments.reserve_gb) * kGigabyte - weights, lengths, row);
  }
  table.rows.push_back(std::move(row));
  if (std::abs(line.misfit) > kStraight) {
    table.notes.push_back(concat(name, " does not grow linearly: a prompt of ", kCheckedTokens, " tokens takes ",
                                 100 * line.misfit, " % more than KV(T) says"));
  }
  if (line.layers_differ)
    table.notes.push_back(concat(name, " treats layers differently; all are counted like the first"));
  if (measured.simulated) table.notes.push_back(concat(name, " is simulated: its size is computed, not measured"));
}

}  // namespace

bool is_only_planned(const fs::path& model) {
  if (fs::is_regular_file(model)) return !is_gguf(model);
  if (!fs::exists(model / "config.json")) return false;
  for (const auto& entry : fs::directory_iterator(model)) {
    if (entry.path().extension() == ".safetensors") return false;
  }
  return true;
}

void print_plan(const fs::path& model, const PlanArguments& arguments) {
  const auto config = load_model_config(model);
  const auto size = model_size(config);
  const auto measured = measure_all(find_candidates(arguments), config.shape());
  std::vector<int64_t> lengths{arguments.tokens};
  if (config.max_position_embeddings != arguments.tokens) lengths.push_back(config.max_position_embeddings);
  print_sizes(model, config, size);
  print_formula(arguments, config.shape());
  const auto weights = static_cast<double>(weights_bytes(size, parse_weights(arguments.weights)));
  auto table = empty_table(lengths);
  for (const int64_t gb : kMemoriesGb) {
    if ((static_cast<double>(gb) - arguments.reserve_gb) * kGigabyte > weights) continue;
    table.notes.push_back(concat(gb, " GB: the ", arguments.weights, " weights and the reserve do not fit"));
  }
  for (const auto& one : measured) add_candidate(one, config, arguments, lengths, table);
  std::fputs(write_markdown(table).c_str(), stdout);
}

}  // namespace kvc
