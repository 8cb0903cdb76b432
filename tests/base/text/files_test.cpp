#include "text/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "support/message_of.h"
#include "support/temp_folder.h"
#include "text/jsonl.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::TempFolder;

// Files that this process writes beyond so many bytes are refused, as on a full disk.
class FileLimit {
 public:
  explicit FileLimit(rlim_t n_bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{n_bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

size_t n_entries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

void make_socket(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(socket);
}

TEST(Files, WhatWouldBlockOrNeverEndIsRefusedByItsKind) {
  TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  make_socket(folder / "socket");
  fs::create_symlink("loop", folder / "loop");
  fs::create_symlink(folder / "pipe", folder / "link");
  const std::pair<std::string, std::string> kinds[] = {
      {(folder / "pipe").string(), "it is a named pipe (FIFO), expected a file"},
      {(folder / "link").string(), "it is a named pipe (FIFO), expected a file"},
      {(folder / "socket").string(), "it is a socket, expected a file"},
      {folder.string(), "it is a folder"},
      {"/dev/zero", "it is a device, expected a file"},
      {(folder / "loop").string(), "Too many levels of symbolic links"},
      {(folder / std::string(300, 'x')).string(), "File name too long"},
      {(folder / "none").string(), "No such file or directory"},
      {(folder / std::string("a\0b", 3)).string(), "its name holds a NUL character"},
  };
  for (const auto& [path, why] : kinds) {
    const auto expected = concat("cannot read ", path_in_quotes(path), ": ", why);
    EXPECT_EQ(message_of([&] { read_file(path); }), expected);
    EXPECT_EQ(message_of([&] { sha256_file(path); }), expected);
    EXPECT_EQ(message_of([&] { read_jsonl(path, [](int64_t, const auto&) {}); }), expected);
  }
}

TEST(Files, ANameInAMessageIsOneLine) {
  EXPECT_EQ(path_in_quotes(std::string("a\0b\nc\x1b[2J", 9)), "'a\\x00b\\nc\\x1b[2J'");
  EXPECT_EQ(path_in_quotes(std::string(300, 'x')), "'" + std::string(300, 'x') + "'");
}

TEST(Files, AreReadFromAShellsPipe) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "abc", 3), 3);
  ::close(ends[1]);
  EXPECT_EQ(read_file(concat("/dev/fd/", ends[0])), "abc");
  ::close(ends[0]);
}

TEST(OutputFile, ThatDoesNotFitLeavesWhatWasThere) {
  TempFolder folder;
  const auto path = folder.write("a", "old");
  {
    const FileLimit limit(4096);
    const std::string large(100'000, 'x');
    EXPECT_EQ(message_of([&] { write_file(path, large); }),
              concat("cannot write '", path.string(), "': File too large"));
    EXPECT_THROW(write_file(folder / "b", large), EnvironmentError);
    OutputFile many(folder / "c");
    EXPECT_THROW(for (int i = 0; i < 100; ++i) many.write(std::string(1000, 'x')), EnvironmentError);
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(n_entries(folder), 1u);
}

TEST(OutputFile, ThatIsNotCommittedIsNotThere) {
  TempFolder folder;
  { OutputFile(folder / "a").write("half"); }
  EXPECT_EQ(n_entries(folder), 0u);
  OutputFile whole(folder / "a");
  whole.write("ab");
  whole.write(std::string(200'000, 'c'));
  whole.write("d");
  EXPECT_FALSE(fs::exists(folder / "a"));
  whole.commit();
  EXPECT_EQ(read_file(folder / "a"), "ab" + std::string(200'000, 'c') + "d");
  EXPECT_EQ(n_entries(folder), 1u);
}

TEST(OutputFile, InPlaceHasNoOtherName) {
  TempFolder folder;
  OutputFile file(folder / "a", OutputFile::How::kInPlace);
  EXPECT_TRUE(fs::exists(folder / "a"));
  file.write("text");
  file.commit();
  EXPECT_EQ(read_file(folder / "a"), "text");
  { OutputFile(folder / "b", OutputFile::How::kInPlace).write("half"); }
  EXPECT_EQ(n_entries(folder), 1u);
}

TEST(OutputFile, TakesAFilesPlaceBehindItsLinksAndWithItsPermissions) {
  TempFolder folder;
  const auto path = folder.write("a", "old");
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("a", folder / "link");
  fs::create_symlink("b", folder / "dangling");
  write_file(folder / "link", "new");
  write_file(folder / "dangling", "other");
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "b"), "other");
}

TEST(OutputFile, OfWhatIsNoFileIsToldAndDoesNotBlock) {
  TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  make_socket(folder / "socket");
  fs::create_symlink("loop", folder / "loop");
  const std::pair<fs::path, std::string> kinds[] = {
      {"/dev/full", "No space left on device"},
      {folder / "pipe", "No such device or address"},  // without a reader
      {folder / "socket", "No such device or address"},
      {folder, "Is a directory"},
      {folder / "loop", "Too many levels of symbolic links"},
      {folder / "none/a", "No such file or directory"},
      {folder / std::string(300, 'x'), "File name too long"},
      {folder / std::string("a\0b", 3), "Invalid argument"},
  };
  for (const auto& [path, why] : kinds) {
    EXPECT_EQ(message_of([&] { write_file(path, "text"); }), concat("cannot write ", path_in_quotes(path), ": ", why));
  }
  EXPECT_NO_THROW(write_file("/dev/null", "text"));
  const auto longest = folder / std::string(255, 'x');  // no other name of the folder would fit
  write_file(longest, "text");
  EXPECT_EQ(read_file(longest), "text");
}

}  // namespace
}  // namespace kvc
