// A plugin that calls itself otherwise than its file.
#include "exact_cache.h"

KVC_PLUGIN(test_plugins::NoOptions, test_plugins::ExactCompressor<test_plugins::ExactCache>, "another_name",
           "exact tokens", "none", "none", {.lossy = false})
