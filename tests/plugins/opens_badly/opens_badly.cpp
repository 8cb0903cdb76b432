// Exact fp16 tokens; where and what the environment says, it does as no plugin should: OPENS_BADLY="create exits".
#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "exact_cache.h"

namespace {

namespace fs = std::filesystem;

// With a file of the same name that has a byte more.
void replace_itself() {
  static const int here = 0;
  Dl_info info;
  ::dladdr(&here, &info);
  const fs::path file = info.dli_fname;
  fs::copy_file(file, file.string() + ".new");
  std::ofstream(file.string() + ".new", std::ios::app) << '\n';
  fs::rename(file.string() + ".new", file);
}

void misbehave(const std::string& where) {
  const char* asked = std::getenv("OPENS_BADLY");
  if (!asked || !std::string(asked).starts_with(where + " ")) return;
  const auto how = std::string(asked).substr(where.size() + 1);
  if (how == "exits") std::exit(0);
  if (how == "crashes") std::abort();
  if (how == "throws_an_int") throw 42;
  if (how == "hangs") std::this_thread::sleep_for(std::chrono::hours(1));
  if (how == "replaces_itself") replace_itself();
  if (how == "replaces_itself_and_crashes") replace_itself(), std::abort();
}

const bool opened = [] { return misbehave("initializer"), true; }();

class Cache final : public test_plugins::ExactCache {
 public:
  using ExactCache::ExactCache;
  void append(const kvc::NewTokens& tokens) override {
    static int n_prompts = 0;
    if (length() == 0 && info().layer == 0 && ++n_prompts == 3) misbehave("third_prompt");
    ExactCache::append(tokens);
  }
};

class OpensBadly final : public kvc::Compressor {
 public:
  explicit OpensBadly(const test_plugins::NoOptions&) { misbehave("create"); }
  void check_model(const kvc::ModelShape&) const override { misbehave("check_model"); }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<Cache>(info);
  }
  double bits() const override { return 16; }
  double paper_bytes(const kvc::ModelShape&, int64_t, int64_t) const override { return 0; }
};

}  // namespace

KVC_PLUGIN(test_plugins::NoOptions, OpensBadly, "opens_badly", "opens as the environment says", "none", "none",
           {.lossy = false})
