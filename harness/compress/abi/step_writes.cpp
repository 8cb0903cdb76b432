#include "kvc/step_writes.h"

#include <ATen/ATen.h>

#include <atomic>
#include <utility>

#include "kvc/number_type.h"

namespace kvc {
namespace {

constexpr int64_t kChecksOfACache = 16, kWritesOfACache = 8;
constexpr int64_t kNumbersOfABlock = 1024;
constexpr int64_t kMostBlocks = 256;

thread_local StepWrites* current = nullptr;
std::atomic<int64_t> turns = 0;

bool has_rows(const at::Tensor& x) { return x.dim() == 3 && (x.stride(2) == 1 || x.size(2) == 1); }

void check_rows(const at::Tensor& x) {
  KVC_CHECK(has_rows(x), "a step's write: rows ", x.sizes(), " with strides ", x.strides(),
            ", expected [H, T, D] without gaps in D");
}

DeviceRows numbers_of(const at::Tensor& x) {
  check_rows(x);
  return {const_cast<void*>(x.const_data_ptr()), number_type_of(x), x.stride(0), x.stride(1)};
}

DeviceRows bytes_of(const at::Tensor& x) {
  check_rows(x);
  return {const_cast<void*>(x.const_data_ptr()), NumberType::f32, x.stride(0) * x.element_size(),
          x.stride(1) * x.element_size()};
}

void set_sizes(DeviceWrite& write, const at::Tensor& x, int64_t width) {
  write.n_heads = static_cast<int>(x.size(0)), write.n_tokens = static_cast<int>(x.size(1));
  write.width = static_cast<int>(width);
}

int blocks_of(int64_t n) {
  return static_cast<int>(std::clamp<int64_t>((n + kNumbersOfABlock - 1) / kNumbersOfABlock, 1, kMostBlocks));
}

}  // namespace

StepWrites::StepWrites(at::Device device, int64_t n_caches, Launch launch)
    : device_(device),
      launch_(std::move(launch)),
      before_(std::exchange(current, this)),
      turn_(++turns),
      flags_(at::empty({n_caches * kChecksOfACache}, at::TensorOptions(at::kBool).device(device))) {
  writes_.reserve(static_cast<size_t>(n_caches * kWritesOfACache));
  held_.reserve(static_cast<size_t>(4 * n_caches * kWritesOfACache));
}
StepWrites::~StepWrites() { current = before_; }

StepWrites* StepWrites::of_device(at::Device device) {
  return current && current->device_ == device ? current : nullptr;
}

bool StepWrites::takes(const at::Tensor& x) {
  const auto type = x.scalar_type();
  return has_rows(x) && (type == at::kFloat || type == at::kHalf || type == at::kBFloat16);
}

DeviceRows StepWrites::rows_of(const at::Tensor& x) {
  check_rows(x);
  const auto type = x.scalar_type() == at::kHalf       ? NumberType::f16
                    : x.scalar_type() == at::kBFloat16 ? NumberType::bf16
                                                       : NumberType::f32;
  return {x.mutable_data_ptr(), type, x.stride(0), x.stride(1)};
}

void StepWrites::run_if_waiting(int64_t turn, at::Device device) {
  auto* writes = of_device(device);
  if (writes && writes->turn_ == turn) writes->run();
}

at::Tensor StepWrites::checked(DeviceWrite& write) {
  if (n_flags_ + write.n_blocks > flags_.numel()) {
    flags_ = at::empty({std::max<int64_t>(flags_.numel(), write.n_blocks)}, flags_.options()), n_flags_ = 0;
  }
  const auto holds = flags_.narrow(0, n_flags_, write.n_blocks);
  n_flags_ += write.n_blocks;
  write.holds = holds.mutable_data_ptr<bool>();
  held_.push_back(flags_);
  return holds;
}

void StepWrites::copy(const at::Tensor& from, const at::Tensor& to) {
  KVC_CHECK(from.sizes() == to.sizes() && from.scalar_type() == to.scalar_type(), "a step's write: ", from.sizes(), " ",
            from.scalar_type(), " into ", to.sizes(), " ", to.scalar_type());
  DeviceWrite write{.from = bytes_of(from), .to = bytes_of(to)};
  set_sizes(write, to, to.size(2) * to.element_size());
  write.n_blocks = blocks_of(to.numel() * to.element_size());
  held_.insert(held_.end(), {from, to});
  writes_.push_back(write);
}

void StepWrites::fill(const at::Tensor& to, int byte) {
  DeviceWrite write{.to = bytes_of(to), .fill = byte};
  set_sizes(write, to, to.size(2) * to.element_size());
  write.n_blocks = blocks_of(to.numel() * to.element_size());
  held_.push_back(to);
  writes_.push_back(write);
}

at::Tensor StepWrites::convert(const at::Tensor& from, const at::Tensor& to) {
  DeviceWrite write{.what = DeviceWrite::What::numbers, .from = numbers_of(from), .to = numbers_of(to)};
  set_sizes(write, to, to.size(2));
  held_.insert(held_.end(), {from, to});
  const auto holds = checked(write);
  writes_.push_back(write);
  return holds;
}

void StepWrites::convert_to_float8(Float8 type, const at::Tensor& x, const at::Tensor& scale, const at::Tensor& to) {
  DeviceWrite write{.what = DeviceWrite::What::floats8, .from = numbers_of(x), .to = bytes_of(to), .floats = type};
  write.scale = {scale.mutable_data_ptr(), number_type_of(scale), scale.size(0) == 1 ? 0 : scale.stride(0), 0};
  set_sizes(write, to, to.size(2));
  write.n_blocks = blocks_of(to.numel());
  held_.insert(held_.end(), {x, scale, to});
  writes_.push_back(write);
}

at::Tensor StepWrites::finite(const at::Tensor& x) {
  DeviceWrite write{.what = DeviceWrite::What::numbers, .from = numbers_of(x)};
  set_sizes(write, x, x.size(2));
  held_.push_back(x);
  const auto holds = checked(write);
  writes_.push_back(write);
  return holds;
}

at::Tensor StepWrites::encode(const at::Tensor& x, DeviceWrite write, std::vector<at::Tensor> into) {
  write.from = numbers_of(x);
  set_sizes(write, x, x.size(2));
  if (write.what == DeviceWrite::What::tokens) write.n_blocks = blocks_of(x.numel());
  held_.push_back(x);
  held_.insert(held_.end(), into.begin(), into.end());
  const auto holds = checked(write);
  writes_.push_back(write);
  return holds;
}

void StepWrites::run() {
  turn_ = ++turns;
  if (!writes_.empty()) launch_(writes_);
  writes_.clear(), held_.clear();
}

}  // namespace kvc
