// What computes with a plugin besides its own file is part of what its cells are named by.
#include "plugin_loader/linked_libraries.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "plugin_loader/build_compressor.h"
#include "support/message_of.h"
#include "support/temp_folder.h"
#include "text/files.h"

namespace kvc {
namespace {

const std::filesystem::path kBuild = KVC_BINARY_DIR;

std::string kvc_libraries() {
  return concat("libkvc.so ", sha256_file(kBuild / "lib/libkvc.so"), ", libkvc_quant.so ",
                sha256_file(kBuild / "lib/libkvc_quant.so"));
}

TEST(LinkedLibraries, OfAPluginAreKvcsOwn) {
  EXPECT_EQ(PluginLibrary(kBuild / "plugins/full.so").runtime(), kvc_libraries());
}

// Else another checkout of the same commit would name its cells differently.
TEST(LinkedLibraries, AndPluginsAreTheSameFilesWhereverTheBuildLies) {
  auto files = find_plugins({kBuild / "plugins"});
  for (const char* name : {"libkvc.so", "libkvc_quant.so"}) files.push_back(kBuild / "lib" / name);
  EXPECT_GT(files.size(), 30u);
  for (const auto& file : files) {
    const auto bytes = read_file(file);
    for (const std::string folder : {KVC_BINARY_DIR, KVC_SOURCE_DIR, "site-packages"}) {
      EXPECT_EQ(bytes.find(folder), bytes.npos) << file << " names " << folder;
    }
  }
}

TEST(LinkedLibraries, AreThoseThatItBringsAlongAndNotTheSystems) {
  const test::TempFolder folder;
  folder.write("deep.c", "double deep = 3;");
  folder.write("mine.c", "extern double deep; double mine(void) { return deep; }");
  folder.write("links.c", "#include <math.h>\ndouble mine(void); double links(void) { return sqrt(mine()); }");
  const auto compile = [&](const std::string& name, const std::string& file, const std::string& linked) {
    const auto command = concat("cd '", folder.path().string(), "' && cc -shared -fPIC ", name, ".c -o ", file,
                                " -Wl,-soname,", file, " -L. ", linked, " -Wl,-rpath,'$ORIGIN'");
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  };
  compile("deep", "libdeep.so", "");
  compile("mine", "libmine.so", "-ldeep");
  compile("links", "links.so", "-lmine -lm");
  void* library = ::dlopen((folder / "links.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  EXPECT_EQ(linked_libraries(::dlsym(library, "links")), concat("libdeep.so ", sha256_file(folder / "libdeep.so"),
                                                                ", libmine.so ", sha256_file(folder / "libmine.so")));
}

TEST(LinkedLibraries, ThatAreOthersThanWhenTheRunBeganAreRefused) {
  CompressorChoice full{.plugin = "full", .options = nlohmann::json::object(), .where = "x.yaml:1:1"};
  full.file = kBuild / "plugins/full.so";
  full.runtime = "libkvc.so 0123";
  const auto message = test::message_of([&] { build_compressor(full, {}); });
  EXPECT_EQ(message, concat("x.yaml:1:1: error: ", (kBuild / "plugins/full.so").string(), ": computes with ",
                            kvc_libraries(), ", the run began with libkvc.so 0123: one of them was replaced"));
}

}  // namespace
}  // namespace kvc
