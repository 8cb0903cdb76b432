// bench_blocks [BATCH ...]: a step's products with matrices in blocks against the same matrices widened to fp32, one
// thread. As a model's matrices are, each is one of so many that no cache holds them; the two alternate. Prints
// medians: CPU time, bytes of weights a second, their ratio, and the largest difference relative to the largest result.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <random>

#include "model/ops.h"
#include "model/quantized_linear.h"

namespace {

using kvc::kernels::BlockType;

constexpr int64_t kLeastBytes = 192 << 20;  // of widened matrices of a shape
constexpr int kRepeats = 7;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Random codes, scales of small size
kvc::Linear random_linear(BlockType type, int64_t n, int64_t k, std::mt19937_64& random) {
  const auto& layout = kvc::kernels::layout_of(type);
  auto bytes = at::empty({n, k / layout.n_values * layout.n_bytes}, at::kByte);
  auto* data = bytes.mutable_data_ptr<uint8_t>();
  for (int64_t i = 0; i < bytes.numel(); ++i) data[i] = static_cast<uint8_t>(random());
  for (int64_t i = 0; i < bytes.numel(); i += layout.n_bytes) {
    for (const int64_t high : {int64_t{1}, int64_t{3}, layout.n_bytes - 1}) data[i + high] = 0x18 + data[i + high] % 8;
  }
  return {{}, {}, {}, k, 0, {{type, bytes}}};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(BlockType type, int64_t n, int64_t k, const std::vector<int64_t>& batches) {
  const auto& layout = kvc::kernels::layout_of(type);
  if (k % layout.n_values != 0) return;
  std::mt19937_64 random(1);
  std::vector<kvc::Linear> blocks, floats;
  for (int64_t bytes = 0; bytes < kLeastBytes; bytes += n * k * 4) {
    blocks.push_back(random_linear(type, n, k, random));
    floats.push_back(kvc::expanded(blocks.back(), at::kFloat));
  }
  for (const int64_t batch : batches) {
    const auto x = at::randn({batch, k});
    const auto seconds = [&](const std::vector<kvc::Linear>& matrices) {
      const double start = cpu_seconds();
      for (const auto& matrix : matrices) kvc::linear_rows(x, matrix);
      return (cpu_seconds() - start) / static_cast<double>(matrices.size());
    };
    std::vector<double> of_floats, of_blocks, ratios;
    for (int i = 0; i < kRepeats; ++i) {
      of_floats.push_back(seconds(floats));
      of_blocks.push_back(seconds(blocks));
      ratios.push_back(of_floats.back() / of_blocks.back());
    }
    const auto expected = kvc::linear_rows(x, floats[0]);
    const auto difference = (kvc::linear_rows(x, blocks[0]) - expected).abs().max() / expected.abs().max();
    const double wide = median(of_floats), narrow = median(of_blocks);
    std::printf("%5ld x %-5ld %s batch %2ld: fp32 %8.3f ms %5.1f GB/s, blocks %8.3f ms %5.1f GB/s, %5.2f x, %.1e\n", n,
                k, layout.name.data(), batch, wide * 1e3, static_cast<double>(n * k * 4) / wide / 1e9, narrow * 1e3,
                static_cast<double>(blocks[0].blocks[0].bytes.numel()) / narrow / 1e9, median(ratios),
                difference.item<double>());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  std::vector<int64_t> batches;
  for (int i = 1; i < argc; ++i) batches.push_back(std::atoll(argv[i]));
  if (batches.empty()) batches = {1, 4, 21};
  const int64_t shapes[][2] = {{576, 1536}, {49152, 576}, {4096, 4096}};
  for (const auto& [n, k] : shapes) {
    for (auto type = BlockType::q4_0; type <= kvc::kernels::kLastBlockType; type = BlockType(int(type) + 1)) {
      measure(type, n, k, batches);
    }
  }
}
