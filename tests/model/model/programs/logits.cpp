// logits MODEL_DIR OUT.safetensors N_GREEDY < ids
// The prompt's logits at every position (prefill), the logits of the same prompt fed token by token (decode), and the
// greedy continuation of N_GREEDY tokens, alone and, of five prompts of unequal length (the ids' heads), in one batch
// whose first 64 tokens are prefilled once. Prints the time of a greedy step, on one thread.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "../exact_cache.h"
#include "checkpoint/safetensors.h"

namespace {

constexpr int64_t kPrefix = 64;

// The first tokens of each layer, as a prefill of the ids hands them out.
std::vector<kvc::NewTokens> prefix_of(const kvc::Transformer& model, std::span<const int64_t> ids) {
  std::vector<kvc::NewTokens> prefix;
  model.prefill(ids, [&](int64_t, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const auto first = [](const at::Tensor& x) { return x.narrow(1, 0, kPrefix).clone(); };
    prefix.push_back({first(q), first(k), first(v), 0});
  });
  return prefix;
}

// -> [prompts, n_greedy]
at::Tensor batch_greedy(const kvc::Transformer& model, std::span<const int64_t> ids, std::span<const int64_t> lengths,
                        int64_t n_greedy) {
  const auto prefix = prefix_of(model, ids);
  const auto n = static_cast<int64_t>(lengths.size());
  std::vector<std::vector<std::unique_ptr<kvc::LayerCache>>> caches;
  std::vector<at::Tensor> rows;
  for (const int64_t length : lengths) {
    caches.push_back(kvc::test::exact_caches(model));
    const auto prompt = ids.first(static_cast<size_t>(length));
    rows.push_back(model.prefill(prompt, kvc::test::append_to(caches.back()), 1, prefix));
  }
  auto logits = at::cat(rows);  // [prompts, V]
  auto greedy = at::empty({n, n_greedy}, at::kLong);
  for (int64_t i = 0; i < n_greedy; ++i) {
    greedy.select(1, i).copy_(logits.argmax(1));
    std::vector<kvc::StepToken> tokens;
    for (int64_t b = 0; b < n; ++b) {
      tokens.push_back({greedy[b][i].item<int64_t>(), lengths[static_cast<size_t>(b)] + i});
    }
    logits = model.decode_step(tokens, [&](int64_t layer, auto news, double scale, at::Tensor& attended) {
      for (size_t b = 0; b < news.size(); ++b) {
        auto& cache = *caches[b][static_cast<size_t>(layer)];
        cache.append(news[b]);
        attended[static_cast<int64_t>(b)].copy_(cache.attend(news[b].q, scale).squeeze(1));
      }
    });
  }
  return greedy;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::cerr << "usage: logits MODEL_DIR OUT N_GREEDY < ids\n", 2;
  at::set_num_threads(1);
  const auto model = kvc::Transformer::load(argv[1], at::kFloat);
  std::vector<int64_t> ids;
  for (int64_t id; std::cin >> id;) ids.push_back(id);
  const int64_t n_tokens = static_cast<int64_t>(ids.size()), n_greedy = std::stoll(argv[3]);

  auto caches = kvc::test::exact_caches(model);
  const auto prefilled = model.prefill(ids, kvc::test::append_to(caches), n_tokens);
  auto stepwise = kvc::test::exact_caches(model);
  std::vector<at::Tensor> steps;
  for (int64_t t = 0; t < n_tokens; ++t) steps.push_back(model.decode_step(ids[static_cast<size_t>(t)], t, stepwise));

  auto greedy = at::empty({n_greedy}, at::kLong);
  auto logits = prefilled[n_tokens - 1];
  std::vector<double> step_seconds;
  for (int64_t i = 0; i < n_greedy; ++i) {
    const int64_t id = logits.argmax().item<int64_t>();
    greedy[i] = id;
    const auto start = std::chrono::steady_clock::now();
    logits = model.decode_step(id, n_tokens + i, caches);
    step_seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(step_seconds);
  if (n_greedy > 0) std::cout << "median step " << step_seconds[step_seconds.size() / 2] * 1e3 << " ms\n";
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 5; ++i) lengths.push_back(n_tokens - i * (n_tokens - kPrefix - 2) / 4);
  kvc::write_safetensors(argv[2], {{"prefill", prefilled},
                                   {"decode", at::stack(steps)},
                                   {"greedy", greedy},
                                   {"lengths", at::tensor(lengths)},
                                   {"batch_greedy", batch_greedy(model, ids, lengths, n_greedy)}});
}
