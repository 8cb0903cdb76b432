#include <ATen/ATen.h>

#include "checkpoint/safetensors.h"
#include "target.h"

namespace kvc_fuzz {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

json tensor(const char* dtype, std::vector<int64_t> shape, int64_t begin, int64_t end) {
  return {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {begin, end}}};
}

// A header of a small decoder of n layers, as a checkpoint has it.
json decoder_header(int n_layers) {
  json header = {{"__metadata__", {{"format", "pt"}}}};
  int64_t at = 0;
  const auto add = [&](const std::string& name, const char* dtype, std::vector<int64_t> shape, int64_t bytes) {
    header[name] = tensor(dtype, std::move(shape), at, at + bytes);
    at += bytes;
  };
  add("model.embed_tokens.weight", "BF16", {4, 8}, 64);
  for (int layer = 0; layer < n_layers; ++layer) {
    const auto prefix = "model.layers." + std::to_string(layer) + ".";
    add(prefix + "input_layernorm.weight", "F32", {8}, 32);
    add(prefix + "self_attn.q_proj.weight", "F16", {8, 8}, 128);
    add(prefix + "empty", "F64", {0, 3}, 0);
    add(prefix + "scalar", "I64", {}, 8);
  }
  return header;
}

// What a mutated header asks for, where that is little.
uint64_t data_bytes(const json& header) {
  uint64_t end = 0;
  for (const auto& entry : header) {
    if (!entry.is_object() || !entry.contains("data_offsets") || !entry["data_offsets"].is_array()) continue;
    for (const auto& offset : entry["data_offsets"]) {
      if (offset.is_number_unsigned() && offset.get<uint64_t>() < 10'000) end = std::max(end, offset.get<uint64_t>());
    }
  }
  return end;
}

// As many tensors as no checkpoint has.
std::string many_tensors(uint64_t n) {
  std::string text = "{";
  for (uint64_t i = 0; i < n; ++i) {
    const auto at = std::to_string(i);
    text += (i ? ",\"" : "\"") + at + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + at + "," +
            std::to_string(i + 1) + "]}";
  }
  return text + "}";
}

void write_header(const fs::path& dir, std::string header, Mutator& mutator) {
  const auto parsed = json::parse(header, nullptr, false);
  auto data = std::string(mutator.one_in(8) ? mutator.below(600) : data_bytes(parsed), 'x');
  if (mutator.one_in(20'000)) {
    header = many_tensors(100'000);
    data.assign(100'000, 'x');
  }
  uint64_t length = header.size();
  if (mutator.one_in(10))
    length = mutator.one_in(2) ? length + mutator.below(9) - 4 : ~uint64_t{0} >> mutator.below(64);
  auto bytes = std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
  if (mutator.one_in(50)) bytes.resize(mutator.below(bytes.size() + 1));
  write_file(dir / "model.safetensors", bytes);
}

void read_header(const fs::path& dir) {
  const kvc::SafetensorsFile file(dir / "model.safetensors");
  const auto n_bytes = static_cast<int64_t>(fs::file_size(dir / "model.safetensors"));
  for (const auto& name : file.names()) {
    const auto values = file.tensor(name);
    promise(static_cast<int64_t>(values.nbytes()) <= n_bytes, "a tensor is larger than its file");
    if (values.numel() > 0) promise(values.is_contiguous(), "a tensor is not contiguous");
  }
}

constexpr int kShards = 3;

std::string shard_name(int i) { return "model-0000" + std::to_string(i + 1) + "-of-00003.safetensors"; }

void prepare_shards(const fs::path& dir) {
  for (int i = 0; i < kShards; ++i) {
    kvc::write_safetensors(dir / shard_name(i),
                           {{"a" + std::to_string(i), at::ones({2, 2})}, {"b" + std::to_string(i), at::ones({3})}});
  }
}

json weight_map() {
  json map = json::object();
  for (int i = 0; i < kShards; ++i) {
    map["a" + std::to_string(i)] = shard_name(i);
    map["b" + std::to_string(i)] = shard_name(i);
  }
  return map;
}

void read_index(const fs::path& dir) {
  const kvc::Checkpoint checkpoint(dir);
  for (const auto& name : checkpoint.names()) {
    promise(checkpoint.has(name), "a name of the checkpoint is not in it");
    promise(checkpoint.tensor(name, name[0] == 'a' ? std::vector<int64_t>{2, 2} : std::vector<int64_t>{3}).defined(),
            "a tensor is not there");
  }
}

}  // namespace

Target header_target() {
  return {"header",
          20,
          {decoder_header(1), decoder_header(6), json::object(), json{{"w", tensor("F32", {2}, 0, 8)}}},
          {"dtype", "shape", "data_offsets", "__metadata__", "F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8",
           "U8", "BOOL", "F8_E4M3", "w", "model.embed_tokens.weight"},
          [](const fs::path&) {},
          write_header,
          read_header};
}

Target index_target() {
  return {
      "index",
      8,
      {json{{"metadata", {{"total_size", 84}}}, {"weight_map", weight_map()}}, json{{"weight_map", weight_map()}},
       json{{"weight_map", {{"a0", shard_name(0)}}}}},
      {"weight_map", "metadata", "total_size", "a0", "b2", shard_name(0), shard_name(2), "../" + shard_name(0),
       "/dev/zero", "/etc/passwd", ".", "..", "sub/x", "\\", "model.safetensors.index.json"},
      prepare_shards,
      [](const fs::path& dir, std::string text, Mutator&) { write_file(dir / "model.safetensors.index.json", text); },
      read_index};
}

}  // namespace kvc_fuzz
