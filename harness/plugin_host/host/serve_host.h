// One host: answers the calls of hosted/protocol.h with one plugin, until it is ended.
#pragma once

namespace kvc {

// On the descriptors of hosted/protocol.h.
[[noreturn]] void serve_host();

}  // namespace kvc
