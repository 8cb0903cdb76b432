#include "sandbox/private_tokens.h"

#include <ATen/ATen.h>

#include <cstring>
#include <limits>

#include "kvc/step_writes.h"

namespace kvc {
namespace {

// The bytes that a tensor on the CPU spans without a gap; or null.
std::byte* bytes_of(const at::Tensor& x) {
  return x.is_cpu() && x.is_non_overlapping_and_dense() ? static_cast<std::byte*>(x.data_ptr()) : nullptr;
}

bool fits(const at::Tensor& to, const at::Tensor& from) {
  return to.defined() && to.sizes() == from.sizes() && to.dtype() == from.dtype() && to.device() == from.device() &&
         (!to.is_cpu() || to.strides() == from.strides());
}

// This thread's, where it writes such tensors.
StepWrites* writes_of(const at::Tensor& x) {
  return StepWrites::takes(x) ? StepWrites::of_device(x.device()) : nullptr;
}

// Into the copy that is there, where it is one of the same shape.
void copy(const at::Tensor& from, at::Tensor& to) {
  if (!from.defined()) {
    to.reset();
  } else if (!fits(to, from)) {
    to = from.clone();
  } else if (auto* bytes = bytes_of(to)) {  // a step's few hundred bytes: less than what a call of LibTorch costs
    std::memcpy(bytes, from.const_data_ptr(), from.nbytes());
  } else if (auto* writes = writes_of(from)) {
    writes->copy(from, to);
  } else {
    to.copy_(from);
  }
}

bool is_shared(const at::Tensor& tensor) {
  return tensor.defined() && (tensor.use_count() > 1 || tensor.storage().use_count() > 1);
}

}  // namespace

bool PrivateTokens::has_room(const NewTokens& tokens) const {
  const auto has = [](const at::Tensor& to, const at::Tensor& from) { return !from.defined() || fits(to, from); };
  return has(copy_.q, tokens.q) && has(copy_.k, tokens.k) && has(copy_.v, tokens.v);
}

const NewTokens& PrivateTokens::copy_in(const NewTokens& tokens) {
  copy(tokens.q, copy_.q);
  copy(tokens.k, copy_.k);
  copy(tokens.v, copy_.v);
  copy_.first_position = tokens.first_position;
  copy_.kind = tokens.kind;
  return copy_;
}

void PrivateTokens::reclaim() {
  std::string kept;
  for (const auto& [name, tensor] : {std::pair("q", &copy_.q), std::pair("k", &copy_.k), std::pair("v", &copy_.v)}) {
    if (!is_shared(*tensor)) continue;
    kept += (kept.empty() ? "" : ", ") + std::string(name);
    tensor->reset();
  }
  KVC_CHECK(kept.empty(), "append() kept the caller's ", kept, "; copy what you keep");
}

void PrivateTokens::invalidate() {
  for (auto* tensor : {&copy_.k, &copy_.v}) {
    if (!tensor->defined()) continue;
    if (auto* bytes = bytes_of(*tensor)) {
      std::memset(bytes, 0xff, tensor->nbytes());  // a NaN of each type
    } else if (auto* writes = writes_of(*tensor)) {
      writes->fill(*tensor, 0xff);
    } else {
      tensor->fill_(std::numeric_limits<float>::quiet_NaN());
    }
  }
}

}  // namespace kvc
