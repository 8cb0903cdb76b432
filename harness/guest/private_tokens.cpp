#include "guest/private_tokens.h"

#include <ATen/ATen.h>

#include <limits>

namespace kvc {
namespace {

// Into the copy that is there, where it is one of the same shape.
void copy(const at::Tensor& from, at::Tensor& to) {
  if (!from.defined()) {
    to.reset();
  } else if (to.defined() && to.sizes() == from.sizes() && to.options().type_equal(from.options()) &&
             to.strides() == from.strides()) {
    to.copy_(from);
  } else {
    to = from.clone();
  }
}

bool is_shared(const at::Tensor& tensor) {
  return tensor.defined() && (tensor.use_count() > 1 || tensor.storage().use_count() > 1);
}

}  // namespace

const NewTokens& PrivateTokens::lend(const NewTokens& tokens) {
  copy(tokens.q, copy_.q);
  copy(tokens.k, copy_.k);
  copy(tokens.v, copy_.v);
  copy_.first_position = tokens.first_position;
  return copy_;
}

void PrivateTokens::take_back() {
  std::string kept;
  for (const auto& [name, tensor] : {std::pair("q", &copy_.q), std::pair("k", &copy_.k), std::pair("v", &copy_.v)}) {
    if (!is_shared(*tensor)) continue;
    kept += (kept.empty() ? "" : ", ") + std::string(name);
    tensor->reset();
  }
  KVC_CHECK(kept.empty(), "append() kept the caller's ", kept, "; what is kept must be copied");
}

void PrivateTokens::poison() {
  for (auto* tensor : {&copy_.k, &copy_.v}) {
    if (tensor->defined()) tensor->fill_(std::numeric_limits<float>::quiet_NaN());
  }
}

}  // namespace kvc
