#include "kvc/footprint.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace kvc {

const char* to_string(CacheTensor tensor) {
  switch (tensor) {
    case CacheTensor::k:
      return "k";
    case CacheTensor::v:
      return "v";
    case CacheTensor::shared:
      return "shared";
  }
  throw Error("CacheTensor out of range");
}

const char* to_string(ByteKind kind) {
  switch (kind) {
    case ByteKind::codes:
      return "codes";
    case ByteKind::scales:
      return "scales";
    case ByteKind::zeros:
      return "zeros";
    case ByteKind::low_rank:
      return "low_rank";
    case ByteKind::sparse_values:
      return "sparse_values";
    case ByteKind::sparse_index:
      return "sparse_index";
    case ByteKind::means:
      return "means";
    case ByteKind::norms:
      return "norms";
    case ByteKind::sketch:
      return "sketch";
    case ByteKind::codebook:
      return "codebook";
    case ByteKind::recent:
      return "recent";
    case ByteKind::mask:
      return "mask";
    case ByteKind::index:
      return "index";
    case ByteKind::scores:
      return "scores";
    case ByteKind::parameters:
      return "parameters";
    case ByteKind::reserved:
      return "reserved";
  }
  throw Error("ByteKind out of range");
}

namespace {

AllocatedBytes allocated_for(int64_t bytes, at::Device device) {
  if (device.is_cpu()) return {bytes, bytes};
  constexpr int64_t kBlock = 512, kLarge = 1 << 20;
  const int64_t blocks = (bytes + kBlock - 1) / kBlock * kBlock;
  return {blocks, device.is_cuda() && blocks >= kLarge ? blocks + kLarge : blocks};
}

}  // namespace

bool Footprint::add_storage(const at::Tensor& held) {
  if (!held.defined() || held.storage().nbytes() == 0) return false;
  const void* storage = held.storage().data();
  if (std::find(seen_.begin(), seen_.end(), storage) != seen_.end()) return false;
  seen_.push_back(storage);
  const auto allocated = allocated_for(static_cast<int64_t>(held.storage().nbytes()), held.device());
  allocated_.least += allocated.least, allocated_.most += allocated.most;
  return true;
}

void Footprint::add(CacheTensor tensor, ByteKind kind, const at::Tensor& held) {
  if (add_storage(held)) add_to_row(tensor, kind, static_cast<int64_t>(held.storage().nbytes()));
}

void Footprint::add_used(CacheTensor tensor, ByteKind kind, const at::Tensor& view) {
  if (view.defined() && view.is_cpu()) return add(tensor, kind, view);
  if (!add_storage(view)) return;
  const auto all = static_cast<int64_t>(view.storage().nbytes()), used = static_cast<int64_t>(view.nbytes());
  add_to_row(tensor, kind, used);
  if (all > used) add_to_row(tensor, ByteKind::reserved, all - used);
}

void Footprint::add_bytes(CacheTensor tensor, ByteKind kind, int64_t bytes) {
  allocated_.least += bytes, allocated_.most += bytes;
  add_to_row(tensor, kind, bytes);
}

void Footprint::add(const Footprint& other) {
  for (const auto& row : other.rows_) add_to_row(row.tensor, row.kind, row.bytes);
  allocated_.least += other.allocated_.least, allocated_.most += other.allocated_.most;
}

void Footprint::add_to_row(CacheTensor tensor, ByteKind kind, int64_t bytes) {
  const auto row =
      std::find_if(rows_.begin(), rows_.end(), [&](const auto& r) { return r.tensor == tensor && r.kind == kind; });
  if (row == rows_.end()) {
    rows_.push_back({tensor, kind, bytes});
  } else {
    row->bytes += bytes;
  }
}

int64_t Footprint::total_bytes() const {
  int64_t total = 0;
  for (const auto& row : rows_) total += row.kind == ByteKind::reserved ? 0 : row.bytes;
  return total;
}

}  // namespace kvc
