// A descriptor that claims another ABI version.
#include "exact_cache.h"

namespace {

using Method = test_plugins::ExactCompressor<test_plugins::ExactCache>;
extern const kvc::PluginDescriptor kDescriptor;
const kvc::PluginDescriptor kDescriptor = {kvc::kAbiVersion + 41,
                                           KVC_BUILD_ID,
                                           "wrong_abi",
                                           "refused before anything of it is called",
                                           "none",
                                           "none",
                                           {},
                                           &kvc::visit_defaults<test_plugins::NoOptions>,
                                           &kvc::create_compressor<test_plugins::NoOptions, Method>};

}  // namespace

BOOST_DLL_ALIAS(kDescriptor, kvc_plugin)
