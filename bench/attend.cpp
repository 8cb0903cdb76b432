// How fast attend_codes reads codes, without a cache, a bench or a host's clock around it:
//   bench_attend DEVICE COPY_GB_A_SECOND    -> a line of JSON for each format and size, medians by the device's clock
// One layer of 32 query and 8 KV heads of 128 channels, groups of 32; codes are random bits, scales small.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cuda/attend_codes.h"
#include "kvc/check.h"
#include "sandbox/device.h"
#include "sandbox/device_clock.h"

namespace {

using namespace kvc;
using cuda_products::Kind;

constexpr int kQueryHeads = 32, kKvHeads = 8, kDim = 128, kGroup = 32;

struct Format {
  const char* name;
  int bits;
  bool k_along_tokens;
};
constexpr Format kFormats[] = {
    {"16", 16, false},           {"8", 8, false}, {"4", 4, false}, {"2", 2, false}, {"4, K by channel", 4, true},
    {"2, K by channel", 2, true}};

// K or V of a sequence, and the memory that it is in.
struct Part {
  at::Tensor rows, scale, zero;
  cuda_products::Matrix m;
  int64_t bytes() const {
    return static_cast<int64_t>(rows.nbytes() + (scale.defined() ? scale.nbytes() + zero.nbytes() : 0));
  }
};

Part drawn(const Format& format, bool along_tokens, int n_tokens, at::Device device) {
  Part part;
  auto& m = part.m;
  const int n_rows = along_tokens ? kDim : n_tokens, length = along_tokens ? n_tokens : kDim;
  m.bits = format.bits, m.n_heads = kKvHeads, m.n_tokens = n_tokens, m.n_channels = kDim;
  m.rows_are_channels = along_tokens;
  m.row_bytes = int64_t{length} * format.bits / 8, m.head_bytes = n_rows * m.row_bytes;
  if (format.bits == 16) {
    m.kind = Kind::f16;
    part.rows = at::randn({kKvHeads, n_tokens, kDim}, at::TensorOptions(at::kHalf).device(device));
  } else {
    m.kind = format.bits == 8 ? Kind::byte : Kind::level;
    for (size_t i = 0; i < m.levels.size(); ++i) m.levels[i] = static_cast<float>(i);
    part.rows = at::randint(0, 256, {kKvHeads * m.head_bytes}, at::TensorOptions(at::kByte).device(device));
    m.group_size = kGroup, m.n_groups = length / kGroup, m.head_scales = int64_t{n_rows} * m.n_groups;
    part.scale = at::full({kKvHeads * m.head_scales}, 1e-2, at::TensorOptions(at::kHalf).device(device));
    part.zero = at::full_like(part.scale, -1e-1);
    m.scale = {part.scale.const_data_ptr(), NumberType::f16, part.scale.numel()};
    m.zero = {part.zero.const_data_ptr(), NumberType::f16, part.zero.numel()};
  }
  m.rows = {part.rows.const_data_ptr(), NumberType::f32, static_cast<int64_t>(part.rows.nbytes())};
  return part;
}

const cuda_attend::Kernels& kernels_of(at::Device device) {
#ifdef KVC_HAVE_CUDA
  if (device.is_cuda()) return cuda::attend_kernels();
#endif
  return cuda_emulated::attend_kernels();
}

void measure(const Format& format, int n_tokens, int batch, at::Device device, double copy_rate) {
  std::vector<Part> parts;
  std::vector<cuda_attend::Segment> segments;
  int64_t bytes = 0;
  for (int b = 0; b < batch; ++b) {
    for (const bool is_k : {true, false}) {
      parts.push_back(drawn(format, is_k && format.k_along_tokens, n_tokens, device));
      bytes += parts.back().bytes();
    }
    const auto n = parts.size();
    segments.push_back({.k = parts[n - 2].m, .v = parts[n - 1].m, .n_tokens = n_tokens});
    KVC_CHECK(cuda_attend::serves(segments.back().k, segments.back().v), "format ", format.name, " is not served");
  }
  const auto floats = at::TensorOptions(at::kFloat).device(device);
  const auto q = at::randn({batch, kQueryHeads, kDim}, floats);
  auto out = at::empty_like(q);
  std::vector<cuda_attend::Sequence> sequences;
  for (int b = 0; b < batch; ++b) {
    sequences.push_back({.segments = {&segments[static_cast<size_t>(b)], 1},
                         .q = q[b].const_data_ptr<float>(),
                         .out = out[b].mutable_data_ptr<float>()});
  }
  const cuda_attend::AttentionShape heads{kQueryHeads, kKvHeads, kDim};
  auto workspace = at::empty({cuda_attend::workspace_floats(sequences, heads)}, floats);
  const auto& kernels = kernels_of(device);
  const int n_warm = device.is_cuda() ? 3 : 0, n_timed = device.is_cuda() ? 21 : 1;
  std::vector<double> seconds;
  for (int i = -n_warm; i < n_timed; ++i) {
    const DeviceMark from(device);
    kernels.attend(sequences, heads, workspace.mutable_data_ptr<float>(), nullptr);
    kernels.join(sequences, heads, workspace.mutable_data_ptr<float>(), nullptr);
    const DeviceMark to(device);
    if (i >= 0) seconds.push_back(from.seconds_to(to));
  }
  KVC_CHECK(at::isfinite(out).all().item<bool>(), "format ", format.name, ": attention is not finite");
  std::ranges::sort(seconds);
  const double median = seconds[seconds.size() / 2], rate = static_cast<double>(bytes) / median / 1e9;
  std::printf(
      "{\"bits\": \"%s\", \"tokens\": %d, \"batch\": %d, \"milliseconds\": %.4f, \"gb_a_second\": %.1f, "
      "\"of_copy_percent\": %.1f}\n",
      format.name, n_tokens, batch, 1e3 * median, rate, 100 * rate / copy_rate);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: bench_attend DEVICE COPY_GB_A_SECOND\n");
    return 2;
  }
  try {
    const auto device = device_named(argv[1]);
    const bool is_gpu = device.is_cuda();
    for (const auto& format : kFormats) {
      measure(format, is_gpu ? 32768 : 512, is_gpu ? 16 : 1, device, std::atof(argv[2]));
      if (!is_gpu) continue;
      measure(format, 32768, 1, device, std::atof(argv[2]));
      measure(format, 8192, 1, device, std::atof(argv[2]));
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_attend: %s\n", e.what());
    return 3;
  }
  return 0;
}
