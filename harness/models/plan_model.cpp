#include "models/plan_model.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "checkpoint/model_config.h"
#include "compressors/calibration.h"
#include "compressors/plan_memory.h"
#include "compressors/plugin_library.h"
#include "experiment/grid.h"
#include "gguf/gguf_file.h"
#include "gguf/json_reader.h"
#include "kvc/plugin.h"
#include "model/model_size.h"
#include "render/table.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kGigabyte = 1e9;
constexpr int64_t kMemoriesGb[] = {24, 80, 141};
constexpr double kStraight = 0.01;  // a misfit below it is not worth a line

struct Candidate {
  PluginLibrary library;
  std::string options;  // as given, or "defaults"
  std::unique_ptr<Compressor> compressor;
};

// `options` null: the defaults.
Candidate open_candidate(const fs::path& plugin, const json& options, const ModelShape& model) {
  PluginLibrary library(plugin);
  auto compressor = make_calibrated(library, options, model, "");
  return {std::move(library), options.is_null() ? "defaults" : options.dump(), std::move(compressor)};
}

std::vector<Candidate> find_candidates(const PlanArguments& arguments, const ModelShape& model) {
  KVC_CHECK(arguments.options.empty() || arguments.options.size() == arguments.compressors.size(), "--options ",
            arguments.options.size(), " times, expected never or once for each of the ", arguments.compressors.size(),
            " --compressor");
  const auto folders = plugin_folders(arguments.plugin_path, find_paths());
  std::vector<Candidate> candidates;
  if (arguments.compressors.empty()) {
    for (const auto& file : find_plugins(folders)) candidates.push_back(open_candidate(file, nullptr, model));
  }
  for (size_t i = 0; i < arguments.compressors.size(); ++i) {
    const auto options = arguments.options.empty() ? json() : parse_json(arguments.options[i], "--options");
    candidates.push_back(open_candidate(find_plugin(arguments.compressors[i], folders), options, model));
  }
  return candidates;
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
  std::printf("         int8: the layers' matrices 1 byte a weight and an fp32 scale a row; all else 16 bits\n");
  std::printf("KV       %ld bytes a token at 16 bits\n", kv_bytes_per_token_16bit(config));
}

void print_formula(const PlanArguments& arguments, const ModelShape& shape) {
  std::printf(
      "measured one layer's footprint() after random prompts of %ld and %ld tokens gives slope and offset;\n"
      "         KV(T) = %ld layers x (offset + slope x T) = fixed + bytes per token x T, for one sequence\n"
      "room     memory - %s weights - %g GB reserve for workspace; 1 GB = 1e9 bytes\n"
      "context  the largest T with KV(T) <= room, whatever the model was made for; batch: the most n with n x KV(T) <= "
      "room\n\n",
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

void add_candidate(const Candidate& candidate, const ModelConfig& config, const PlanArguments& arguments,
                   const std::vector<int64_t>& lengths, Table& table) {
  const auto& descriptor = candidate.library.descriptor();
  const auto name = concat(descriptor.name, " (", candidate.options, ")");
  CacheLine line;
  try {
    candidate.compressor->check_model(config.shape());
    line = measure_cache(*candidate.compressor, config.shape());
  } catch (const std::exception& e) {
    table.notes.push_back(concat(name, " does not serve this model: ", e.what()));
    return;
  }
  const auto weights = static_cast<double>(weights_bytes(model_size(config), parse_weights(arguments.weights)));
  std::vector<TableCell> row{
      descriptor.name,      candidate.options,
      line.bytes_per_token, 100 * line.bytes_per_token / static_cast<double>(kv_bytes_per_token_16bit(config)),
      line.fixed_bytes,     line.bytes_per_step};
  for (const int64_t gb : kMemoriesGb) {
    add_memory(line, (static_cast<double>(gb) - arguments.reserve_gb) * kGigabyte - weights, lengths, row);
  }
  table.rows.push_back(std::move(row));
  if (std::abs(line.misfit) > kStraight) {
    table.notes.push_back(concat(name, " does not grow in a line: a prompt of ", kCheckedTokens, " tokens holds ",
                                 100 * line.misfit, " % more than KV(T) says"));
  }
  if (line.layers_differ)
    table.notes.push_back(concat(name, " treats layers differently; all count as the first does"));
  if (descriptor.capabilities.simulated) table.notes.push_back(concat(name, " claims bytes it does not hold"));
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
  const auto candidates = find_candidates(arguments, config.shape());
  std::vector<int64_t> lengths{arguments.tokens};
  if (config.max_position_embeddings != arguments.tokens) lengths.push_back(config.max_position_embeddings);
  print_sizes(model, config, size);
  print_formula(arguments, config.shape());
  const auto weights = static_cast<double>(weights_bytes(size, parse_weights(arguments.weights)));
  auto table = empty_table(lengths);
  for (const int64_t gb : kMemoriesGb) {
    if ((static_cast<double>(gb) - arguments.reserve_gb) * kGigabyte > weights) continue;
    table.notes.push_back(concat(gb, " GB: the ", arguments.weights, " weights do not fit beside the reserve"));
  }
  for (const auto& candidate : candidates) add_candidate(candidate, config, arguments, lengths, table);
  std::fputs(write_markdown(table).c_str(), stdout);
}

}  // namespace kvc
