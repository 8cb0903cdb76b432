// The entry of a plugin: one exported data symbol, kvc_plugin, and the KVC_PLUGIN line that makes it.
#pragma once

#include <boost/dll/alias.hpp>
#include <memory>

#include "kvc/build_id.h"
#include "kvc/compressor.h"
#include "kvc/options.h"

namespace kvc {

constexpr uint32_t kAbiVersion = 5;

// Properties that a plugin declares; part of the descriptor, shown by `kvc plugins NAME`.
struct Capabilities {
  bool lossy = true;             // false: K and V are returned unchanged, up to 16-bit rounding
  bool one_by_one_same = false;  // incremental append is bit-identical to one-shot append
  bool prefix_local = false;     // codes of a prefix do not depend on later tokens
  bool estimates = false;        // attended() may differ from dequantize(): vectors with unbiased inner products
  bool simulated = false;        // stores floats, and computes its size; excluded from tables of sizes
  // For compositions of compressors.
  bool evicts = false;          // a cache may store fewer tokens than length()
  bool splits = false;          // stores K and V separately, so make_cache supports LayerInfo::holds k or v
  bool chunked_prompt = false;  // append() takes a prompt in chunks, and gives the cache of a whole prompt's append, or
                                // says in `deviations` how it differs
  bool turns_keys = false;      // reads rope_frequencies, so tokens must have their positions in the text
  const char* devices = "";     // why its caches are on the CPU only, in one line; "": they support GPUs
  const char* formula =
      "";  // source of the formula of paper_bytes(), as named in tables: "GEAR"; "": the plugin itself
};

struct PluginDescriptor {
  uint32_t abi_version;    // first field, so that a host can check it before reading the rest
  const char* build_id;    // KVC_BUILD_ID: C++ types cross the boundary, so only an exact match is accepted
  const char* name;        // equals the file's stem
  const char* summary;     // one line
  const char* source;      // paper, section
  const char* deviations;  // differences from the paper or its public code, and why; "none" if there are none
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

// KVC_PLUGIN(KiviOptions, Kivi, "kivi", "one line", "Liu et al. 2024, section 3", "deviations",
//            {.one_by_one_same = true})
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
