#include <ATen/Parallel.h>

#include <cstdio>

#include "checkpoint/smoothing.h"
#include "cli/verbs.h"
#include "experiment/grid.h"
#include "experiment/model_hashes.h"
#include "kvc/check.h"
#include "model/smooth_quant.h"
#include "model_lookup/model_path.h"
#include "text/files.h"
#include "text/text_file.h"
#include "tokenizer/tokenizer.h"
#include "worker/load_model.h"

namespace kvc {
namespace {

struct SmoothArguments {
  std::string model_name, output, dtype = "fp32";
  std::vector<std::string> texts;
  int64_t length = 512, pieces = 64, threads = 1;
};

// The texts' first pieces of `length` tokens, text after text.
std::vector<std::vector<int64_t>> pieces_of(const SmoothArguments& arguments, const Tokenizer& tokenizer,
                                            SmoothingFile& file) {
  std::vector<std::vector<int64_t>> pieces;
  for (const auto& path : arguments.texts) {
    file.texts.push_back(sha256_file(path));
    const auto ids = tokenizer.encode(read_text(path), true);
    for (size_t first = 0; first < ids.size(); first += static_cast<size_t>(arguments.length)) {
      if (static_cast<int64_t>(pieces.size()) == arguments.pieces) return pieces;
      const size_t end = std::min(ids.size(), first + static_cast<size_t>(arguments.length));
      pieces.emplace_back(ids.begin() + static_cast<std::ptrdiff_t>(first),
                          ids.begin() + static_cast<std::ptrdiff_t>(end));
      file.n_tokens += static_cast<int64_t>(end - first);
    }
  }
  KVC_CHECK(!pieces.empty(), "smooth: the texts have no tokens");
  return pieces;
}

int smooth(const SmoothArguments& arguments) {
  const auto folder = model_path(arguments.model_name);
  at::set_num_threads(static_cast<int>(arguments.threads));
  const auto model = load_model(folder, arguments.dtype);
  KVC_CHECK(arguments.length <= model.config().max_position_embeddings, "--length ", arguments.length,
            ", the model has max_position_embeddings ", model.config().max_position_embeddings);
  SmoothingFile file;
  const auto pieces = pieces_of(arguments, Tokenizer::load(folder), file);
  file.model = smoothing_identity(hash_model(folder));
  file.maxima = measure_input_maxima(model, pieces);
  write_smoothing(arguments.output, file);
  std::printf("%s: largest inputs of %zu layers over %ld tokens\n", arguments.output.c_str(), file.maxima.qkv.size(),
              file.n_tokens);
  return kOk;
}

}  // namespace

void add_smooth_verb(Verb program) {
  auto arguments = std::make_shared<SmoothArguments>();
  auto verb = program.add_subcommand("smooth", "Measures the activation ranges that smooth_quant needs");
  verb.add_option("model", arguments->model_name, "folder, .gguf file or name").required();
  verb.add_option("--texts", arguments->texts, "text files").required().existing_file();
  verb.add_option("--output", arguments->output, "JSON file to write").required();
  verb.add_option("--length", arguments->length, "tokens per piece").positive().show_default();
  verb.add_option("--pieces", arguments->pieces, "most pieces of text to use").positive().show_default();
  verb.add_option("--dtype", arguments->dtype, "fp32, fp16 or bf16").show_default();
  verb.add_option("--threads", arguments->threads, "CPU threads").positive().show_default();
  verb.on_call([arguments] { return smooth(*arguments); });
}

}  // namespace kvc
