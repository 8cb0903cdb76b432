// A decoder of Llama's layout with random weights, of a width and a vocabulary that fill no whole vectors.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvc::test {

struct SmallLlama {
  int64_t hidden = 48, mlp = 80, heads = 4, kv_heads = 2, head_dim = 12, vocab = 61, layers = 2, positions = 300;

  nlohmann::json config() const {
    return {{"architectures", {"LlamaForCausalLM"}},
            {"hidden_size", hidden},
            {"intermediate_size", mlp},
            {"num_hidden_layers", layers},
            {"num_attention_heads", heads},
            {"num_key_value_heads", kv_heads},
            {"head_dim", head_dim},
            {"vocab_size", vocab},
            {"max_position_embeddings", positions},
            {"rms_norm_eps", 1e-5}};
  }

  std::map<std::string, at::Tensor> weights() const {  // drawn from LibTorch's own generator
    std::map<std::string, at::Tensor> w;
    const auto matrix = [&](const std::string& name, int64_t rows, int64_t columns) {
      w[name + ".weight"] = at::randn({rows, columns}).mul_(0.15);
    };
    const auto norm = [&](const std::string& name) { w[name + ".weight"] = at::rand({hidden}).add_(0.5); };
    matrix("model.embed_tokens", vocab, hidden);
    matrix("lm_head", vocab, hidden);
    norm("model.norm");
    for (int64_t layer = 0; layer < layers; ++layer) {
      const auto prefix = "model.layers." + std::to_string(layer) + ".";
      norm(prefix + "input_layernorm");
      norm(prefix + "post_attention_layernorm");
      matrix(prefix + "self_attn.q_proj", heads * head_dim, hidden);
      matrix(prefix + "self_attn.k_proj", kv_heads * head_dim, hidden);
      matrix(prefix + "self_attn.v_proj", kv_heads * head_dim, hidden);
      matrix(prefix + "self_attn.o_proj", hidden, heads * head_dim);
      matrix(prefix + "mlp.gate_proj", mlp, hidden);
      matrix(prefix + "mlp.up_proj", mlp, hidden);
      matrix(prefix + "mlp.down_proj", hidden, mlp);
    }
    return w;
  }

  std::vector<int64_t> ids(int64_t n) const {
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < n; ++i) ids.push_back((i * i * 7 + 3 * i) % vocab);
    return ids;
  }
};

}  // namespace kvc::test
