#include "mask_store.h"

#include <ATen/ops/from_blob.h>
#include <kvc/shared.h>

#include <algorithm>

namespace gearx {

std::shared_ptr<const Mask> MaskStore::find(const MaskKey& key, int64_t n_copies) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(held_.begin(), held_.end(),
                                  [&](const Held& held) { return held.key == key && held.n_copies == n_copies; });
  if (found == held_.end()) return nullptr;
  held_.splice(held_.begin(), held_, found);
  return found->mask;
}

std::shared_ptr<const Mask> MaskStore::get(const MaskKey& key, int64_t n_copies) const {
  if (auto mask = find(key, n_copies)) return mask;
  const kvc::Shared shared;
  const auto one = make_mask(key);
  Mask copies;
  copies.reserve(one.size() * static_cast<size_t>(n_copies));
  for (auto row = one.begin(); row != one.end(); row += key.token_degree) {
    for (int64_t copy = 0; copy < n_copies; ++copy) {
      for (int64_t i = 0; i < key.token_degree; ++i) {
        copies.push_back(static_cast<uint16_t>(row[i] + copy * key.n_channels));
      }
    }
  }
  auto made = std::make_shared<const Mask>(std::move(copies));
  const std::lock_guard lock(mutex_);
  held_.push_front({key, n_copies, made});
  if (held_.size() > kHeld) held_.pop_back();
  return made;
}

at::Tensor MaskStore::index(const MaskKey& key, int64_t n_copies, at::Device device) const {
  const auto mask = get(key, n_copies);
  const auto here = at::from_blob(
      const_cast<uint16_t*>(mask->data()), {key.n_tokens, n_copies * key.token_degree}, [mask](void*) {},
      at::TensorOptions(at::kUInt16));
  if (device.is_cpu()) return here;
  const kvc::Shared shared;
  const std::lock_guard lock(mutex_);
  for (auto& held : held_) {
    if (held.mask != mask) continue;
    if (!held.there.defined() || held.there.device() != device) held.there = here.to(device);
    return held.there;
  }
  return here.to(device);  // let go in the meantime
}

}  // namespace gearx
