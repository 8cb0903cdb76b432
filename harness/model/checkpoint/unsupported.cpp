#include "checkpoint/unsupported.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

struct Missing {
  const char* what;
  std::vector<std::string_view> classes;  // beginnings of names
};

const std::vector<Missing>& missing() {
  static const std::vector<Missing> all = {
      {"latent attention (MLA) is not computed here; use a model that caches K and V of its heads, as Qwen3-MoE",
       {"DeepseekV2", "DeepseekV3", "DeepseekV32", "KimiK2", "KimiLinear", "KimiK25", "Glm4MoeLite", "GlmMoeDsa",
        "MiniCPM3", "Mistral4", "LongcatFlash", "Youtu"}},
      {"layers without K and V (Mamba, linear attention, convolutions) are not computed here; use a model whose layers "
       "all have attention, as Qwen3",
       {"Qwen3Next", "Qwen3_5", "Mamba", "FalconMamba", "FalconH1", "Jamba", "Bamba", "Zamba", "NemotronH", "Lfm2",
        "Recurrent", "Rwkv", "MiniMax", "Plamo2", "OlmoHybrid"}},
      {"heads of several sizes, layers that share K and V and embeddings per layer are not computed here; use Gemma 3",
       {"Gemma4", "Gemma3n"}},
      {"the rotation of neighbouring channels (GLM-4) is not computed here; use Qwen3",
       {"Glm4For", "GlmFor", "ChatGLM"}},
      {"shared experts and sigmoid routing are not computed here; use Qwen3-MoE or gpt-oss",
       {"Glm4Moe", "DeepseekFor", "Qwen2Moe", "Llama4", "Dots1", "Ernie4_5_Moe", "HunYuanMoE", "BailingMoe",
        "GraniteMoeFor", "GraniteMoeShared", "OlmoeFor", "FlexOlmo", "AfmoeFor"}},
      {"K and V of an encoder are not computed here; use a model with a decoder alone, as Llama",
       {"T5", "MT5", "Bart", "Whisper", "Pegasus", "MBart", "M2M100"}}};
  return all;
}

}  // namespace

void refuse_known_class(const JsonObject& config) {
  for (const auto& name : config.array("architectures")) {
    if (!name.is_string()) continue;
    const auto& text = name.get_ref<const std::string&>();
    for (const auto& [what, classes] : missing()) {
      const bool is_known = std::any_of(classes.begin(), classes.end(),
                                        [&](std::string_view beginning) { return text.starts_with(beginning); });
      KVC_CHECK(!is_known, config.where(), ": architectures is ", brief(config.array("architectures")), ": ", what);
    }
  }
}

void refuse_quantized(const JsonObject& config, const Architecture& architecture) {
  if (!config.has("quantization_config")) return;
  const auto object = config.object("quantization_config");
  const auto method = object.text("quant_method", "");
  if (method == "mxfp4" && architecture.experts.interleaved) return;  // of the experts, as blocks of the file
  const auto what = method.empty() ? concat("quantization_config is ", brief(object.json()))
                                   : concat("quantization_config.quant_method is ", in_quotes(method));
  throw Error(
      concat(config.where(), ": ", what,
             ": weights in this format are not read; use the checkpoint that they were quantized from (`weights: "
             "int8` quantizes it here), or a .gguf file of the model"));
}

}  // namespace kvc
