// A compressor around one other, whose caches hold that one's.
#pragma once

#include <functional>
#include <memory>

#include "compose/part.h"

namespace kvc {

// Makes the cache of a layer: a ComposedCache of n_stages whose prompt() is the inner compressor's cache.
using MakeWrapped =
    std::function<std::unique_ptr<LayerCache>(const LayerInfo& info, const Compressor& inner, int n_stages)>;

// name: "sinks" -> the part "sinks(kivi)". Throws Error for a part that observes the prompt.
Part wrapped(const char* name, Part part, MakeWrapped make);

}  // namespace kvc
