// A descriptor that claims another build.
#include "exact_cache.h"

namespace {

using Method = test_plugins::ExactCompressor<test_plugins::ExactCache>;
extern const kvc::PluginDescriptor kDescriptor;
const kvc::PluginDescriptor kDescriptor = {kvc::kAbiVersion,
                                           "another compiler",
                                           "wrong_build_id",
                                           "refused before anything of it is called",
                                           "none",
                                           "none",
                                           {},
                                           &kvc::visit_defaults<test_plugins::NoOptions>,
                                           &kvc::create_compressor<test_plugins::NoOptions, Method>};

}  // namespace

BOOST_DLL_ALIAS(kDescriptor, kvc_plugin)
