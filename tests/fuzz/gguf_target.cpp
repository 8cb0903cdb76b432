#include <ATen/ATen.h>

#include <cstring>

#include "../model/gguf/gguf_writer.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_tensors.h"
#include "target.h"

namespace kvc_fuzz {
namespace {

using namespace kvc::test;
namespace fs = std::filesystem;

constexpr uint64_t kTypeBytes[][3] = {{0, 1, 4},      {1, 1, 2},      {30, 1, 2},    {2, 32, 18},
                                      {3, 32, 20},    {6, 32, 22},    {7, 32, 24},   {8, 32, 34},
                                      {12, 256, 144}, {13, 256, 176}, {14, 256, 210}};

// A decoder of one layer, its matrices of all the types.
GgufWriter decoder(uint32_t version) {
  constexpr uint64_t kHidden = 256, kVocab = 4;
  GgufWriter w;
  w.version = version;
  w.set("general.architecture", text("llama"));
  w.set("general.alignment", u32(32));
  w.set("llama.block_count", u32(1));
  w.set("llama.context_length", u64(64));
  w.set("llama.embedding_length", u32(kHidden));
  w.set("llama.feed_forward_length", i32s({256}));
  w.set("llama.attention.head_count", u32(4));
  w.set("llama.attention.head_count_kv", u32(2));
  w.set("llama.attention.layer_norm_rms_epsilon", f32(1e-5f));
  w.set("llama.rope.freq_base", f32(1e4f));
  w.set("tokenizer.ggml.tokens", texts({"a", "b", "<|end|>", ""}));
  w.set("tokenizer.ggml.eos_token_id", u32(2));
  w.set("nested", array(9, {i32s({1}), texts({"x"})}));
  w.set("flags", array(7, {boolean(true)}));
  size_t next = 0;
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape) {
    const auto& type = kTypeBytes[next++ % std::size(kTypeBytes)];
    uint64_t n_values = 1;
    for (const auto size : shape) n_values *= size;
    w.tensors.push_back({name, shape, static_cast<uint32_t>(type[0]), std::string(n_values / type[1] * type[2], 'w')});
  };
  add("output_norm.weight", {kHidden});
  add("token_embd.weight", {kVocab, kHidden});
  add("rope_freqs.weight", {32});
  w.tensors.back().type = 0, w.tensors.back().bytes.assign(128, '?');
  for (const char* name : {"attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
    add(std::string("blk.0.") + name + ".weight", {kHidden, kHidden});
  }
  for (const char* name : {"attn_k", "attn_v"}) add(std::string("blk.0.") + name + ".weight", {kHidden / 2, kHidden});
  return w;
}

GgufWriter split_file() {
  GgufWriter w;
  w.set("split.no", u16(0));
  w.set("split.count", u16(2));
  w.set("split.tensors.count", i32(2));
  return w;
}

// Numbers that matter in the place of a field: the format is binary, bits alone seldom make one.
void set_numbers(std::string& bytes, Mutator& mutator) {
  constexpr uint64_t kNumbers[] = {0,
                                   1,
                                   2,
                                   31,
                                   32,
                                   33,
                                   255,
                                   65535,
                                   uint64_t{1} << 31,
                                   ~uint64_t{0},
                                   uint64_t{1} << 63,
                                   uint64_t{1} << 40,
                                   (uint64_t{1} << 61) + 1};
  while (mutator.one_in(2) && bytes.size() > 8) {
    const uint64_t number = mutator.one_in(4) ? mutator.below(100) : kNumbers[mutator.below(std::size(kNumbers))];
    const size_t width = size_t{1} << mutator.below(4);
    std::memcpy(bytes.data() + mutator.below(std::min<size_t>(bytes.size() - 8, 2000)), &number, width);
  }
  if (mutator.one_in(20)) bytes.resize(mutator.below(bytes.size() + 1));
}

GgufValueBytes any_value(Mutator& mutator) {
  switch (mutator.below(10)) {
    case 0:
      return u32(static_cast<uint32_t>(mutator.below(1 << 20)));
    case 1:
      return i64(-static_cast<int64_t>(mutator.below(1 << 20)));
    case 2:
      return u64(~uint64_t{0} >> mutator.below(64));
    case 3:
      return f32(mutator.one_in(2) ? -1.f : 1e30f);
    case 4:
      return f64(__builtin_nan(""));
    case 5:
      return boolean(mutator.one_in(2));
    case 6:
      return text(mutator.one_in(2) ? "qwen3" : "phi3");
    case 7:
      return i32s(std::vector<int32_t>(mutator.below(20), static_cast<int32_t>(mutator.below(300))));
    case 8:
      return texts(std::vector<std::string>(mutator.below(20), "\xFFx"));
    default:
      return u32(static_cast<uint32_t>(mutator.below(8)));
  }
}

// A right file whose metadata says something else.
std::string another_model(Mutator& mutator) {
  auto w = decoder(3);
  do {
    auto& entry = w.metadata[mutator.below(w.metadata.size())];
    if (mutator.one_in(4)) {
      w.set("llama.rope.scaling.type", text(mutator.one_in(2) ? "linear" : "yarn"));
    } else if (mutator.one_in(6)) {
      w.erase(entry.key);
    } else {
      entry.value = any_value(mutator);
    }
  } while (mutator.one_in(2));
  return w.file();
}

void read_gguf(const fs::path& dir) {
  const auto path = dir / "m.gguf";
  const auto n_bytes = static_cast<int64_t>(fs::file_size(path));
  const kvc::GgufFile file(path);
  for (const auto& [name, tensor] : file.tensors()) {
    promise(tensor.n_bytes <= n_bytes && !tensor.shape.empty(), "a tensor is larger than its file");
    std::string bytes(static_cast<size_t>(tensor.n_bytes), '\0');
    file.read(tensor, 0, tensor.n_bytes, bytes.data());
  }
  const auto config = kvc::load_model_config(path);
  promise(config.n_heads >= config.n_kv_heads && config.head_dim >= 2, "a model without heads was accepted");
  const auto tensors = kvc::open_gguf_tensors(path);
  for (const auto& name : tensors->names()) {
    if (name.starts_with("model.layers.0.self_attn.q_proj")) {
      promise(tensors->tensor(name, {config.n_heads * config.head_dim, config.hidden_size}).numel() > 0, "no values");
    }
  }
}

}  // namespace

Target gguf_target() {
  return {"gguf",
          8,
          {decoder(3).file(), decoder(2).file(), split_file().file()},
          {"general.architecture", "general.alignment", "llama", "qwen2", "GGUF", "blk.0.attn_q.weight", "split.count",
           "llama.attention.head_count", "token_embd.weight"},
          [](const fs::path&) {},
          [](const fs::path& dir, std::string bytes, Mutator& mutator) {
            if (mutator.one_in(3)) bytes = another_model(mutator);
            set_numbers(bytes, mutator);
            write_file(dir / "m.gguf", bytes);
          },
          read_gguf};
}

}  // namespace kvc_fuzz
