#include "plugin_loader/plugin_trust.h"

#include <gtest/gtest.h>

#include "plugin_loader/plugin_library.h"
#include "support/message_of.h"
#include "support/temp_folder.h"
#include "text/files.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using test::message_of;

const fs::path kFull = fs::path(KVC_BINARY_DIR) / "plugins/full.so";

TEST(PluginTrust, RefusesWhatAnybodyMayWriteOrReplace) {
  const test::TempFolder folder;
  const auto file = folder / "full.so";
  fs::copy_file(kFull, file);
  EXPECT_EQ(message_of([&] { PluginLibrary library(file); }), "no error");
  fs::permissions(folder, fs::perms::all);
  EXPECT_EQ(message_of([&] { PluginLibrary library(file); }),
            file.string() + ": this plugin is in a world-writable folder; `chmod o-w " + folder.string() + "`");
  fs::permissions(folder, fs::perms::all | fs::perms::sticky_bit);  // as /tmp is
  EXPECT_EQ(message_of([&] { PluginLibrary library(file); }), "no error");
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(message_of([&] { PluginLibrary library(file); }),
            file.string() + ": this plugin is world-writable; `chmod o-w` it");
  const test::TempFolder elsewhere;
  fs::create_symlink(file, elsewhere / "full.so");
  fs::permissions(file, fs::perms::others_write, fs::perm_options::remove);
  fs::permissions(folder, fs::perms::all);
  EXPECT_EQ(message_of([&] { PluginLibrary library(elsewhere / "full.so"); }),
            file.string() + ": this plugin is in a world-writable folder; `chmod o-w " + folder.string() + "`");
}

TEST(PluginTrust, RefusesAFileThatWasReplaced) {
  const auto sum = sha256_file(kFull);
  EXPECT_EQ(message_of([&] { PluginLibrary library(kFull, sum); }), "no error");
  const std::string other(64, '0');
  EXPECT_EQ(message_of([&] { PluginLibrary library(kFull, other); }),
            kFull.string() + ": SHA-256 is " + sum + ", the run began with " + other + ": the file was replaced");
}

TEST(AllowedPlugins, AreThoseWhoseSumsAreListed) {
  const test::TempFolder folder;
  const std::string a(64, 'a'), b(64, 'b'), c(64, 'c');
  const auto list = folder.write("sums", "# ours\n\n" + a + "  plugins/full.so\n" + b + "\n").string();
  const AllowedPlugins allowed(list);
  EXPECT_EQ(message_of([&] { allowed.check("x.so", a), allowed.check("x.so", b); }), "no error");
  EXPECT_EQ(message_of([&] { allowed.check("x.so", c); }), "x.so: SHA-256 " + c + " is not listed in '" + list + "'");
  EXPECT_EQ(message_of([&] { AllowedPlugins("").check("x.so", c); }), "no error");
  EXPECT_EQ(message_of([&] { AllowedPlugins(folder.write("none", "").string()).check("x.so", c); }),
            "x.so: SHA-256 " + c + " is not listed in '" + (folder / "none").string() + "'");
  EXPECT_EQ(folder.relative(message_of([&] { AllowedPlugins(folder.write("bad", a + "\nfull.so\n").string()); })),
            "bad:2: error: 'full.so', expected a SHA-256 of 64 hex digits in lower case, or a comment after #");
}

}  // namespace
}  // namespace kvc
