// What the caches of a batch write in one decode step on a device: recorded while the caches append, and written by one
// launch for all of them. Without a StepWrites of the thread everything is written at once by LibTorch's operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kvc/check.h"
#include "kvc/device_write.h"

namespace kvc {

// Tensors are the device's, [H, T, D] with rows of D numbers that are next to one another. They are kept until run(),
// and until then what is read must not be written, nor what is written be read: call run() before. Nothing that is
// written is read in the same turn.
class KVC_EXPORT StepWrites {
 public:
  using Launch = std::function<void(std::span<const DeviceWrite>)>;

  // Records the writes of this thread as long as it lives; what is not written by then is not written at all. Has memory
  // for the checks of n_caches caches.
  StepWrites(at::Device device, int64_t n_caches, Launch launch);
  ~StepWrites();
  StepWrites(const StepWrites&) = delete;
  StepWrites& operator=(const StepWrites&) = delete;

  static StepWrites* of_device(at::Device device);  // this thread's, or null

  void copy(const at::Tensor& from, const at::Tensor& to);  // of one type: bytes
  void fill(const at::Tensor& to, int byte);                // every byte
  // Numbers of fp16, bf16 or fp32. -> [1] bool, once written whether all that is stored is finite
  at::Tensor convert(const at::Tensor& from, const at::Tensor& to);
  at::Tensor finite(const at::Tensor& x);
  // Floats of 8 bits of x / scale, [H or 1, 1, 1] fp32, into bytes.
  void convert_to_float8(Float8 type, const at::Tensor& x, const at::Tensor& scale, const at::Tensor& to);
  // A write of codes without `from` and `holds`: x is what is encoded, `into` what is written.
  at::Tensor encode(const at::Tensor& x, DeviceWrite write, std::vector<at::Tensor> into);

  // Whether these are numbers as convert(), finite() and encode() take them.
  static bool takes(const at::Tensor& x);

  at::Device device() const { return device_; }
  static DeviceRows rows_of(const at::Tensor& x);  // of any type; strides in elements

  void run();                             // writes what was recorded
  int64_t turn() const { return turn_; }  // counts run(): what was recorded in this turn is not written yet
  static void run_if_waiting(int64_t turn, at::Device device);  // if what was recorded in that turn is not written yet

 private:
  at::Tensor checked(DeviceWrite& write);

  at::Device device_;
  Launch launch_;
  StepWrites* before_;
  int64_t turn_;
  std::vector<DeviceWrite> writes_;
  std::vector<at::Tensor> held_;
  at::Tensor flags_;  // bools of checks, given out one after another
  int64_t n_flags_ = 0;
};

}  // namespace kvc
