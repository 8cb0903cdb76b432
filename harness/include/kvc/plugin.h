// The entry of a plugin: one exported data symbol, kvc_plugin, and the KVC_PLUGIN line that makes it.
#pragma once

#include <boost/dll/alias.hpp>
#include <memory>

#include "kvc/build_id.h"
#include "kvc/compressor.h"
#include "kvc/options.h"

namespace kvc {

constexpr uint32_t kAbiVersion = 4;

// What a plugin says of itself; part of the descriptor, shown by `kvc plugins NAME`.
struct Capabilities {
  bool lossy = true;             // false only where K and V come back as they went in, to 16 bits
  bool one_by_one_same = false;  // appending tokens one by one holds the same codes as appending them at once
  bool prefix_local = false;     // what is stored for a prefix does not depend on the tokens after it
  bool estimates = false;  // attended() may be vectors whose inner products are unbiased, which dequantize()'s are not
  bool simulated = false;  // true where floats are stored and bytes only claimed; such rows stay out of size tables
  // What a composition of compressors has to know.
  bool evicts = false;       // a cache may hold fewer tokens than length()
  bool splits = false;       // K and V are stored apart: make_cache serves LayerInfo::holds k or v
  bool turns_keys = false;   // reads rope_frequencies: tokens must come at the positions of the text
  const char* devices = "";  // where its caches live on the CPU alone: why, in a line; "": on GPUs as well
  const char* formula = "";  // whose closed form paper_bytes() is, as tables call it: "GEAR"; "": the plugin's own
};

struct PluginDescriptor {
  uint32_t abi_version;    // first, so that a host may look before it believes the rest
  const char* build_id;    // KVC_BUILD_ID: C++ types cross the border, so only an exact match is honest
  const char* name;        // equals the file's stem
  const char* summary;     // one line
  const char* source;      // paper, section
  const char* deviations;  // where this differs from the paper or its public code, and why; "none" if nothing
  Capabilities capabilities;
  void (*visit_defaults)(OptionVisitor&);                        // describes: visits a fresh options struct
  std::unique_ptr<Compressor> (*create)(OptionVisitor& assign);  // visits a fresh struct with `assign`, then constructs
};

template <class Options>
void visit_defaults(OptionVisitor& visitor) {
  Options options;
  options.visit(visitor);
}

template <class Options, class Method>
std::unique_ptr<Compressor> create_compressor(OptionVisitor& assign) {
  Options options;
  options.visit(assign);
  return std::make_unique<Method>(options);
}

}  // namespace kvc

// KVC_PLUGIN(KiviOptions, Kivi, "kivi", "one line", "Liu et al. 2024, section 3", "deviations", {.one_by_one_same =
// true})
#define KVC_PLUGIN(Options, Method, name, summary, source, deviations, ...)                 \
  namespace {                                                                               \
  extern const ::kvc::PluginDescriptor kDescriptor;                                         \
  const ::kvc::PluginDescriptor kDescriptor = {::kvc::kAbiVersion,                          \
                                               KVC_BUILD_ID,                                \
                                               name,                                        \
                                               summary,                                     \
                                               source,                                      \
                                               deviations,                                  \
                                               ::kvc::Capabilities __VA_ARGS__,             \
                                               &::kvc::visit_defaults<Options>,             \
                                               &::kvc::create_compressor<Options, Method>}; \
  }                                                                                         \
  BOOST_DLL_ALIAS(kDescriptor, kvc_plugin)
