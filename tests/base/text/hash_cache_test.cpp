// Hashes are remembered as long as the file is the same, and nothing in the cache's folder is believed that is broken.
#include "text/hash_cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "kvc/check.h"
#include "support/temp_folder.h"
#include "text/files.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

// FIPS 180-2's examples
constexpr const char* kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

class HashCacheTest : public testing::Test {
 protected:
  HashCacheTest() { write("abc"); }

  // As if written long ago
  void write(const std::string& bytes) const {
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << bytes;
    fs::last_write_time(file(), fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  fs::path file() const { return folder_ / "weights"; }
  fs::path cache() const { return folder_ / "cache"; }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> found;
    if (!fs::exists(cache() / "sha256")) return found;
    for (const auto& entry : fs::directory_iterator(cache() / "sha256")) found.push_back(entry.path());
    return found;
  }
  // Puts another hash into the entry, with a check that fits: only one who believes the entry gives it back.
  void plant(const std::string& sha256) const {
    auto text = read_file(entries().at(0));
    text = text.substr(0, text.find('\n') - 64) + sha256;
    std::ofstream(entries().at(0)) << text << "\n" << sha256_hex(text) << "\n";
  }

  test::TempFolder folder_;
};

TEST_F(HashCacheTest, RemembersAFileThatIsTheSame) {
  EXPECT_EQ(HashCache(cache()).sha256(file()), kAbc);
  ASSERT_EQ(entries().size(), 1u);
  plant(kEmpty);
  EXPECT_EQ(HashCache(cache()).sha256(file()), kEmpty);
}

TEST_F(HashCacheTest, VerifyBelievesNothingAndPutsTheEntryRight) {
  HashCache(cache()).sha256(file());
  plant(kEmpty);
  EXPECT_EQ(HashCache(cache(), true).sha256(file()), kAbc);
  EXPECT_EQ(HashCache(cache()).sha256(file()), kAbc);
}

TEST_F(HashCacheTest, NoticesOtherBytesOfTheSameSizeAndTime) {
  const auto time = fs::last_write_time(file());
  HashCache(cache()).sha256(file());
  write("abd");
  fs::last_write_time(file(), time);  // what a copy that keeps times does; the time of change tells
  EXPECT_EQ(HashCache(cache()).sha256(file()), sha256_hex("abd"));
}

TEST_F(HashCacheTest, NoticesAnotherFileInItsPlace) {
  HashCache(cache()).sha256(file());
  std::ofstream(folder_ / "other") << "xyz";
  fs::last_write_time(folder_ / "other", fs::last_write_time(file()));
  fs::rename(folder_ / "other", file());
  EXPECT_EQ(HashCache(cache()).sha256(file()), sha256_hex("xyz"));
}

TEST_F(HashCacheTest, DoesNotRememberAFileWrittenJustNow) {
  std::ofstream(file(), std::ios::trunc) << "abc";
  EXPECT_EQ(HashCache(cache()).sha256(file()), kAbc);
  EXPECT_TRUE(entries().empty());
}

TEST_F(HashCacheTest, TakesABrokenEntryForNone) {
  HashCache(cache()).sha256(file());
  plant(kEmpty);
  const auto whole = read_file(entries().at(0));
  for (size_t n = 0; n < whole.size(); ++n) {  // cut at each byte, and each byte altered
    std::ofstream(entries().at(0), std::ios::trunc) << whole.substr(0, n);
    EXPECT_EQ(HashCache(cache()).sha256(file()), kAbc) << "cut at byte " << n;
    auto altered = whole;
    altered[n] = static_cast<char>(altered[n] ^ 1);
    std::ofstream(entries().at(0), std::ios::trunc) << altered;
    EXPECT_EQ(HashCache(cache()).sha256(file()), kAbc) << "altered at byte " << n;
  }
}

TEST_F(HashCacheTest, SharesAFileThroughItsLinks) {
  fs::create_symlink(file(), folder_ / "link");
  EXPECT_EQ(HashCache(cache()).sha256(folder_ / "link"), kAbc);
  EXPECT_EQ(HashCache(cache()).sha256(file()), kAbc);
  EXPECT_EQ(entries().size(), 1u);
}

TEST_F(HashCacheTest, HashesWithoutAFolderAndWhereItCannotBe) {
  EXPECT_EQ(HashCache("").sha256(file()), kAbc);
  std::ofstream(cache()) << "a file stands there";
  EXPECT_EQ(HashCache(cache()).sha256(file()), kAbc);
  EXPECT_THROW(HashCache(cache()).sha256(folder_ / "none"), Error);
}

TEST_F(HashCacheTest, SurvivesManyWriters) {
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    bool ok = true;
    for (int round = 0; round < 200; ++round) ok &= HashCache(cache(), round % 2 == 0).sha256(file()) == kAbc;
    _exit(ok ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(entries().size(), 1u) << "a temporary file was left";
}

TEST(UserCacheFolder, IsWhereTheEnvironmentSays) {
  setenv("HOME", "/home/someone", 1);
  setenv("XDG_CACHE_HOME", "/var/cache/x", 1);
  EXPECT_EQ(user_cache_folder(), "/var/cache/x/kvc");
  setenv("XDG_CACHE_HOME", "relative", 1);  // the specification: to be ignored
  EXPECT_EQ(user_cache_folder(), "/home/someone/.cache/kvc");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(user_cache_folder(), "/home/someone/.cache/kvc");
  unsetenv("HOME");
  EXPECT_EQ(user_cache_folder(), "");
}

}  // namespace
}  // namespace kvc
