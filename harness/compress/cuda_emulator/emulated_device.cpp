#include "cuda_emulator/emulated_device.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <string_view>

#include "cuda_emulator/device_memory.h"
#include "cuda_emulator/emulated_memory.h"
#include "kvc/check.h"
#include "kvc/emulated_launches.h"

namespace kvc {
namespace {

using Stack = torch::jit::Stack;

constexpr auto kType = c10::DeviceType::PrivateUse1;
// As LibTorch names who defines its operations.
constexpr auto kSource = "harness/compress/cuda_emulator/emulated_device.cpp";
const c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

std::atomic<int64_t> n_reads{0}, n_operations{0};

bool is_here(const at::Tensor& x) { return x.defined() && x.device().type() == kType; }

// The same bytes as a tensor of the CPU's.
at::Tensor on_host(const at::Tensor& x) {
  if (!is_here(x)) return x;
  const auto options = at::TensorOptions(x.scalar_type()).device(at::kCPU);
  if (x.numel() == 0) return at::empty(x.sizes(), options);  // an operation may make it larger
  return at::from_blob(cuda_emulated::bytes_of_device(x.data_ptr()), x.sizes(), x.strides(), options);
}

at::Tensor on_device(const at::Tensor& x) {
  if (!x.defined() || !x.is_cpu()) return x;
  auto copy = at::empty_strided(x.sizes(), x.strides(), at::TensorOptions(x.scalar_type()).device(kType));
  if (x.numel() > 0) on_host(copy).copy_(x);
  return copy;
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &emulated_memory(), kKeys, type.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &emulated_memory(), kKeys, type.value_or(at::kFloat));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  if (is_here(from) && !is_here(to)) ++n_reads;
  if (to.numel() == 0) return to;
  on_host(to).copy_(on_host(from));
  ++n_operations;
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

const at::Tensor& resize_(const at::Tensor& x, at::IntArrayRef size, std::optional<at::MemoryFormat>) {
  auto* impl = x.unsafeGetTensorImpl();
  const auto bytes = at::detail::computeStorageNbytesContiguous(size, x.element_size(), x.storage_offset());
  if (bytes > x.storage().nbytes()) {
    KVC_CHECK(x.storage().nbytes() == 0, "cuda-emulated: a tensor that holds something is made larger");
    x.storage().set_data_ptr_noswap(emulated_memory().allocate(bytes));
    x.storage().unsafeGetStorageImpl()->set_nbytes(bytes);
  }
  impl->set_sizes_contiguous(size);
  return x;
}

// What an operation is given: tensors, lists and options of them.
template <class F>
void for_each_tensor(const c10::IValue& value, F f) {
  if (value.isTensor()) {
    f(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& x : value.toTensorVector()) f(x);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& x : value.toOptionalTensorVector()) {
      if (x) f(*x);
    }
  }
}

c10::IValue argument_on_host(const c10::IValue& value) {
  if (value.isTensor()) return on_host(value.toTensor());
  if (value.isDevice()) return value.toDevice().type() == kType ? c10::IValue(at::Device(at::kCPU)) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& x : value.toTensorVector()) list.push_back(on_host(x));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& x : value.toOptionalTensorVector()) {
      list.push_back(x ? std::optional(on_host(*x)) : std::nullopt);
    }
    return list;
  }
  return value;
}

// As CUDA's operations do: beside the device's tensors only numbers, and places to take, may be the CPU's.
void check_devices(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& given) {
  if (std::string_view(schema.name()).starts_with("aten::index")) return;
  bool any_here = false, any_there = false;
  for (const auto& value : given) {
    for_each_tensor(value, [&](const at::Tensor& x) {
      if (x.defined()) (x.device().type() == kType ? any_here : any_there) |= x.device().type() == kType || x.dim() > 0;
    });
  }
  KVC_CHECK(!any_here || !any_there, schema.name(), ": tensors of cpu and of cuda-emulated");
}

// The argument that the operation gives back written to, as its schema says.
const c10::IValue* written_argument(const c10::FunctionSchema& schema, size_t result,
                                    const std::vector<c10::IValue>& given) {
  const auto* alias = schema.returns()[result].alias_info();
  if (!alias || !alias->isWrite()) {
    KVC_CHECK(!alias, schema.name(), ": a view that cuda-emulated does not make");
    return nullptr;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const auto* of = schema.arguments()[i].alias_info();
    if (of && *of == *alias) return &given[i];
  }
  return nullptr;
}

// An empty tensor that the operation wrote to got a size.
void take_result(const at::Tensor& to, const at::Tensor& result) {
  if (to.sizes() == result.sizes()) return;
  to.resize_(result.sizes());
  copy_from(result, to, false);
}

c10::IValue result_on_device(const c10::IValue& result) {
  if (result.isTensor()) return on_device(result.toTensor());
  if (!result.isTensorList()) return result;
  c10::List<at::Tensor> list;
  for (const at::Tensor& x : result.toTensorVector()) list.push_back(on_device(x));
  return list;
}

// Whether the host needs values to go on: for what is no tensor, or for a result's size.
bool reads_values(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& given) {
  const auto& returns = schema.returns();
  const auto is_value = [](const c10::Argument& x) { return x.type()->kind() != c10::TypeKind::TensorType; };
  if (std::any_of(returns.begin(), returns.end(), is_value) &&
      returns.front().type()->kind() != c10::TypeKind::ListType) {
    return true;
  }
  const std::string_view name = std::string_view(schema.name()).substr(std::string_view("aten::").size());
  if (name == "nonzero" || name == "masked_select" || name == "bincount" || name.find("unique") != name.npos)
    return true;
  if (name == "repeat_interleave") return given.back().isNone();
  bool by_mask = false;
  if (name.starts_with("index") && given.size() > 1) {
    for_each_tensor(given[1], [&](const at::Tensor& x) { by_mask |= x.defined() && x.scalar_type() == at::kBool; });
  }
  return by_mask;
}

void run_on_host(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const auto& schema = op.schema();
  const size_t n_given = schema.arguments().size();
  const std::vector<c10::IValue> given(stack->end() - static_cast<std::ptrdiff_t>(n_given), stack->end());
  check_devices(schema, given);
  if (reads_values(schema, given)) ++n_reads;
  ++n_operations;
  stack->resize(stack->size() - n_given);
  std::vector<c10::IValue> on_host;  // held: several results come as references to arguments that are gone
  for (const auto& value : given) on_host.push_back(argument_on_host(value));
  stack->insert(stack->end(), on_host.begin(), on_host.end());
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  const size_t n_results = schema.returns().size(), first = stack->size() - n_results;
  for (size_t i = 0; i < n_results; ++i) {
    auto& result = (*stack)[first + i];
    const auto* written = written_argument(schema, i, given);
    if (written && written->isTensor()) take_result(written->toTensor(), result.toTensor());
    result = written ? *written : result_on_device(result);
  }
}

}  // namespace

c10::Device emulated_device() {
  static const bool known = [] {
    static c10::impl::NoOpDeviceGuardImpl<kType> guard;
    c10::impl::device_guard_impl_registry[static_cast<size_t>(kType)].store(&guard);
    c10::SetAllocator(kType, &emulated_memory());
    static torch::Library operations(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, kSource, 0);
    operations.impl("empty.memory_format", empty);
    operations.impl("empty_strided", empty_strided);
    operations.impl("as_strided", at::native::as_strided_tensorimpl);
    operations.impl("view", static_cast<at::Tensor (*)(const at::Tensor&, at::IntArrayRef)>(at::native::view));
    operations.impl("_reshape_alias", at::native::_reshape_alias);
    operations.impl("unfold", at::native::unfold);
    operations.impl("resize_", resize_);
    operations.impl("_copy_from", copy_from);
    operations.impl("_copy_from_and_resize", copy_from_and_resize);
    static torch::Library all(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, kSource, 0);
    all.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
    return true;
  }();
  return {known ? kType : at::kCPU, 0};
}

int64_t n_reads_of_emulated_device() { return n_reads; }
int64_t n_kernels_of_emulated_device() { return n_operations + emulated_launches(); }

}  // namespace kvc
