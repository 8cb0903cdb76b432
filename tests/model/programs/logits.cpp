// logits MODEL_DIR OUT.safetensors N_GREEDY < ids
// The prompt's logits at every position (prefill), the logits of the same prompt fed token by token (decode), and the
// greedy continuation of N_GREEDY tokens. Prints the time of a greedy step, on one thread.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "../exact_cache.h"
#include "model/safetensors.h"

int main(int argc, char** argv) {
  if (argc != 4) return std::cerr << "usage: logits MODEL_DIR OUT N_GREEDY < ids\n", 2;
  at::set_num_threads(1);
  const auto model = kvc::Transformer::load(argv[1], at::kFloat);
  std::vector<int64_t> ids;
  for (int64_t id; std::cin >> id;) ids.push_back(id);
  const int64_t n_tokens = static_cast<int64_t>(ids.size()), n_greedy = std::stoll(argv[3]);

  auto caches = kvc_test::exact_caches(model.shape());
  const auto prefilled = model.prefill(ids, kvc_test::append_to(caches), n_tokens);
  auto stepwise = kvc_test::exact_caches(model.shape());
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
  kvc::write_safetensors(argv[2], {{"prefill", prefilled}, {"decode", at::stack(steps)}, {"greedy", greedy}});
}
