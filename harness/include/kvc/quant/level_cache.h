// A cache that encodes every token on arrival, as codes of levels.
#pragma once

#include "kvc/quant/tensor_pair_cache.h"

namespace kvc {

// Tokens as for BlockwiseTensor, with blocks of LevelCodes; K and V are constructed from the same `args`.
template <class Tokens>
class LevelCache final : public TensorPairCache<BlockwiseTensor<Tokens>> {
 public:
  template <class... Args>
  explicit LevelCache(const LayerInfo& info, const Args&... args)
      : TensorPairCache<BlockwiseTensor<Tokens>>(info, BlockwiseTensor<Tokens>(args...),
                                                 BlockwiseTensor<Tokens>(args...)) {}
};

}  // namespace kvc
