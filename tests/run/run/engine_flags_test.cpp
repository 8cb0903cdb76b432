// What engines' flags come to, from the shipped configs/engines and from a file that a test writes.
#include "check/engine_flags.h"

#include <gtest/gtest.h>

#include "support/message_of.h"
#include "support/temp_folder.h"

namespace kvc {
namespace {

using test::message_of;

std::string compressors(const std::vector<std::string>& as) { return engine_settings(as, KVC_SOURCE_DIR).at(0); }

std::string refusal(const std::string& as) {
  return message_of([&] { engine_settings({as}, KVC_SOURCE_DIR); });
}

TEST(EngineFlags, AreTakenAsTyped) {
  EXPECT_EQ(compressors({"llama.cpp: -m model.gguf -c 8192 -fa on --cache-type-k=q8_0 -ctv q4_0"}),
            "compressors=[{full: ~, label: \"full precision\"}, {llama_cpp: {type_k: q8_0, type_v: q4_0}, label: "
            "\"llama.cpp: -m model.gguf -c 8192 -fa on --cache-type-k=q8_0 -ctv q4_0\"}]");
  EXPECT_EQ(
      compressors({"llama.cpp: LLAMA_ATTN_ROT_DISABLE=1 -ctk q4_0"}),
      "compressors=[{full: ~, label: \"full precision\"}, {llama_cpp: {type_k: q4_0, type_v: f16, rotate: \"off\"}, "
      "label: \"llama.cpp: LLAMA_ATTN_ROT_DISABLE=1 -ctk q4_0\"}]");
  EXPECT_EQ(engine_settings({"vllm: --kv-cache-dtype int4_per_token_head --max-num-batched-tokens 512"}, KVC_SOURCE_DIR)
                .at(1),
            "prefill={chunk: 512, through: all}");
  EXPECT_TRUE(engine_settings({}, KVC_SOURCE_DIR).empty());
}

TEST(EngineFlags, LeaveLayersUncompressed) {
  EXPECT_EQ(
      compressors({"vllm: --kv-cache-dtype-skip-layers 0 sliding_window --kv-cache-dtype fp8"}),
      "compressors=[{full: ~, label: \"full precision\"}, {rules: {default: {fp8: {scale: one}}, where: [{layers: "
      "[0, sliding_window], use: full}]}, label: \"vllm: --kv-cache-dtype-skip-layers 0 sliding_window "
      "--kv-cache-dtype fp8\"}]");
  EXPECT_EQ(
      compressors({"vllm: --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0,1,29"}),
      "compressors=[{full: ~, label: \"full precision\"}, {rules: {default: {fp8: {scale: one}}, where: [{layers: "
      "[0, 1, 29], use: full}]}, label: \"vllm: --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0,1,29\"}]");
}

TEST(EngineFlags, RefuseWhatIsUnknownOrNotRepresentedInOneLine) {
  EXPECT_EQ(
      refusal("llama.cpp: -ctk q4_9"),
      "--as 'llama.cpp: -ctk q4_9': unknown value of -ctk 'q4_9' (did you mean 'q4_1'?); known: f32, f16, bf16, q8_0, "
      "q5_1, q5_0, q4_1, q4_0, iq4_nl");
  EXPECT_EQ(
      refusal("lama.cpp: -ctk q4_0"),
      "--as 'lama.cpp: -ctk q4_0': unknown engine 'lama.cpp' (did you mean 'llama.cpp'?); known: llama.cpp, vllm");
  EXPECT_EQ(refusal("vllm: --kv-cache-dtype fp8_ds_mla"),
            "--as 'vllm: --kv-cache-dtype fp8_ds_mla': --kv-cache-dtype fp8_ds_mla is not represented: models with "
            "multi-head latent attention are not supported");
  EXPECT_NE(refusal("llama.cpp: -ctl q4_0").find("(did you mean '-ctk'?)"), std::string::npos);
  EXPECT_EQ(refusal("llama.cpp: -ctk"), "--as 'llama.cpp: -ctk': -ctk has no value");
  EXPECT_EQ(refusal("vllm: --kv-cache-dtype-skip-layers 0,full"),
            "--as 'vllm: --kv-cache-dtype-skip-layers 0,full': --kv-cache-dtype-skip-layers is '0,full', expected "
            "numbers of layers such as 0,1,5, or sliding_window");
  EXPECT_EQ(refusal("llama.cpp: -ub 0"), "--as 'llama.cpp: -ub 0': -ub is '0', expected a number of tokens");
  EXPECT_EQ(
      message_of([] {
        engine_settings({"llama.cpp: -ctk q4_0", "vllm: --kv-cache-dtype fp8"}, KVC_SOURCE_DIR);
      }),
      "--as 'vllm: --kv-cache-dtype fp8': it prefills in chunks of 2048 through all, and 'llama.cpp: -ctk q4_0' in "
      "chunks of 512 through all: expected the same, or separate checks");
}

TEST(EngineFlags, OfAnotherEngineAreOneFile) {
  test::TempFolder root;
  std::filesystem::create_directories(root.path() / "configs/engines");
  std::ofstream(root.path() / "configs/engines/mine.yaml") << R"(
version: 1
engine: mine
summary: an engine
compressor: kivi
prefill: {chunk: 100, through: earlier}
flags:
  - {names: [--bits], option: bits, default: "4", values: {"2": 2, "4": 4}}
  - {names: [--verbose], ignored: 0}
)";
  const auto settings = engine_settings({"mine: --verbose --bits 2"}, root);
  EXPECT_EQ(
      settings.at(0),
      "compressors=[{full: ~, label: \"full precision\"}, {kivi: {bits: 2}, label: \"mine: --verbose --bits 2\"}]");
  EXPECT_EQ(settings.at(1), "prefill={chunk: 100, through: earlier}");
  const auto table = engine_table(root);
  EXPECT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(std::get<std::string>(table.rows[1].at(3)), "kivi bits 4");
}

}  // namespace
}  // namespace kvc
