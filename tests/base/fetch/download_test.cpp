// Downloads against a server on loopback that breaks off, lies, and refuses.
#include "fetch/download.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "fetch/data_sources.h"
#include "kvc/check.h"
#include "support/message_of.h"
#include "support/server.h"
#include "support/temp_folder.h"
#include "text/files.h"

namespace kvc::test {
namespace {

class DownloadTest : public testing::Test {
 protected:
  Download wanted(const std::string& url) {
    Download wanted{url, root_ / "a" / "file", static_cast<int64_t>(body().size()), sha256_hex(body())};
    wanted.n_tries = 4;
    wanted.pause = std::chrono::milliseconds(1);
    return wanted;
  }
  std::string message(const Download& wanted) {
    return message_of([&] { download(wanted); });
  }
  bool has_part() const { return std::filesystem::exists(root_ / "a" / "file.part"); }
  TempFolder root_;
};

TEST_F(DownloadTest, BringsTheFileWhole) {
  Server server([](const auto& request, int) { return http(body(), request); });
  EXPECT_EQ(message(wanted(server.url())), "no error");
  EXPECT_EQ(read_file(root_ / "a" / "file"), body());
  EXPECT_FALSE(has_part());
}

TEST_F(DownloadTest, GoesOnWhereTheConnectionBroke) {
  Server server([](const auto& request, int i) { return http(body(), request, i < 2 ? 50'000 : std::string::npos); });
  EXPECT_EQ(message(wanted(server.url())), "no error");
  EXPECT_EQ(read_file(root_ / "a" / "file"), body());
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(asked_from(requests[0]), 0u);
  EXPECT_EQ(asked_from(requests[1]), 50'000u);
  EXPECT_EQ(asked_from(requests[2]), 100'000u);
}

TEST_F(DownloadTest, KeepsWhatCameForTheNextCall) {
  {
    Server server([](const auto& request, int) { return http(body(), request, 1000); });
    const auto text = message(wanted(server.url()));
    EXPECT_NE(text.find("4 times; 4000 of " + std::to_string(body().size()) + " bytes are kept"), std::string::npos)
        << text;
    EXPECT_FALSE(std::filesystem::exists(root_ / "a" / "file"));
  }
  Server server([](const auto& request, int) { return http(body(), request); });
  EXPECT_EQ(message(wanted(server.url())), "no error");
  EXPECT_EQ(asked_from(server.requests()[0]), 4000u);
  EXPECT_EQ(read_file(root_ / "a" / "file"), body());
}

TEST_F(DownloadTest, StartsAgainWhereTheServerCannotResume) {
  Server server([](const auto& request, int i) {
    return i == 0 ? http(body(), request, 1000) : http(body(), "");  // 200 and the whole, whatever was asked
  });
  EXPECT_EQ(message(wanted(server.url())), "no error");
  EXPECT_EQ(read_file(root_ / "a" / "file"), body());
}

TEST_F(DownloadTest, RefusesAnotherFileOfTheSameSize) {
  auto other = body();
  other[5] = 'x';
  Server server([&](const auto& request, int) { return http(other, request); });
  const auto text = message(wanted(server.url()));
  EXPECT_NE(text.find("the file's SHA-256 is " + sha256_hex(other) + ", expected " + sha256_hex(body())),
            std::string::npos)
      << text;
  EXPECT_FALSE(std::filesystem::exists(root_ / "a" / "file"));
  EXPECT_FALSE(has_part());
}

TEST_F(DownloadTest, RefusesALongerFile) {
  Server server([&](const auto& request, int) { return http(body() + "more", request); });
  EXPECT_NE(message(wanted(server.url())).find("more than the expected"), std::string::npos);
  EXPECT_FALSE(has_part());
}

TEST_F(DownloadTest, SaysWhatTheServerAnswered) {
  Server server([](const auto&, int i) {
    return i == 0 ? std::string("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
                  : std::string("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope");
  });
  EXPECT_NE(message(wanted(server.url())).find("the server answered 404"), std::string::npos);
  EXPECT_EQ(server.requests().size(), 2u);  // 503 is tried again, 404 is not
  EXPECT_FALSE(std::filesystem::exists(root_ / "a" / "file"));
}

TEST_F(DownloadTest, TriesAgainWhereTheServerIsBusy) {
  Server server([](const auto& request, int i) { return i == 0 ? status(429) : http(body(), request); });
  EXPECT_EQ(message(wanted(server.url())), "no error");
}

// What an earlier call left is longer than the file that the server has now.
TEST_F(DownloadTest, StartsAgainWhereTheRangeIsNoneOfTheFile) {
  std::filesystem::create_directories(root_ / "a");
  std::ofstream(root_ / "a" / "file.part") << body().substr(0, 100'000);
  Server server([](const auto& request, int i) { return i == 0 ? status(416) : http(body(), request); });
  EXPECT_EQ(message(wanted(server.url())), "no error");
  EXPECT_EQ(asked_from(server.requests().at(1)), 0u);
  EXPECT_EQ(read_file(root_ / "a" / "file"), body());
}

TEST_F(DownloadTest, TheTokenStaysWithItsHostAndPort) {
  Server other([](const auto& request, int) { return http(body(), request); });
  Server server([&](const auto& request, int) {
    return path_of(request) == "/file" ? redirect("/moved") : redirect(other.url());
  });
  auto file = wanted(server.url());
  file.token = "hf_secret";
  EXPECT_EQ(message(file), "no error");
  ASSERT_EQ(server.requests().size(), 2u);
  for (const auto& request : server.requests()) EXPECT_TRUE(has_token(request, "hf_secret")) << request;
  ASSERT_EQ(other.requests().size(), 1u);
  EXPECT_EQ(other.requests()[0].find("hf_secret"), std::string::npos) << other.requests()[0];
  EXPECT_EQ(read_file(root_ / "a" / "file"), body());
}

TEST_F(DownloadTest, RedirectsWithoutEndAreAnError) {
  Server server([](const auto&, int) { return redirect("/file"); });
  auto file = wanted(server.url());
  file.n_tries = 1;
  EXPECT_NE(message(file).find("redirects"), std::string::npos) << message(file);
}

TEST_F(DownloadTest, ARedirectToAFileOfThisMachineIsRefused) {
  std::ofstream(root_ / "secret") << body();
  Server server([&](const auto&, int) { return redirect("file://" + (root_ / "secret").string()); });
  EXPECT_NE(message(wanted(server.url())), "no error");
  EXPECT_FALSE(std::filesystem::exists(root_ / "a" / "file"));
}

// `git hash-object` of "hello\n"
TEST_F(DownloadTest, ASmallFileIsKnownByWhatGitCallsIt) {
  Server server([](const auto&, int) { return http("hello\n", ""); });
  auto file = wanted(server.url());
  file.n_bytes = 6, file.sha256 = "", file.git_blob = "ce013625030ba8dba906f756967f9e9ca394464a";
  EXPECT_EQ(message(file), "no error");
  std::filesystem::remove(file.to);
  file.git_blob[0] = 'd';
  EXPECT_NE(message(file).find("git blob id is ce013625"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(file.to));
}

TEST_F(DownloadTest, AnEmptyFileNeedsNoConnection) {
  auto file = wanted("http://127.0.0.1:9/file");
  file.n_bytes = 0, file.sha256 = sha256_hex("");
  EXPECT_EQ(message(file), "no error");
  EXPECT_EQ(std::filesystem::file_size(file.to), 0u);
}

TEST_F(DownloadTest, SaysHowManyBytesAreThere) {
  Server server([](const auto& request, int i) { return http(body(), request, i < 1 ? 50'000 : std::string::npos); });
  auto file = wanted(server.url());
  std::vector<int64_t> told;
  file.on_bytes = [&](int64_t n) { told.push_back(n); };
  EXPECT_EQ(message(file), "no error");
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(told.back(), static_cast<int64_t>(body().size()));
}

TEST_F(DownloadTest, ATextIsBounded) {
  Server server([](const auto&, int) { return http(body(), ""); });
  EXPECT_EQ(download_text(server.url(), "", 1 << 20), body());
  EXPECT_THROW(download_text(server.url(), "", 1000), Error);
}

TEST_F(DownloadTest, NobodyThereIsAnErrorOfOneLine) {
  const auto text = message(wanted("http://127.0.0.1:9/file"));
  EXPECT_NE(text.find("http://127.0.0.1:9/file: "), std::string::npos);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST_F(DownloadTest, OtherKindsOfAddressAreRefused) {
  std::ofstream(root_ / "secret") << body();
  EXPECT_NE(message(wanted("file://" + (root_ / "secret").string())), "no error");
  EXPECT_FALSE(std::filesystem::exists(root_ / "a" / "file"));
}

// A file-size limit stands for the full disk: the write fails in the middle.
TEST_F(DownloadTest, AFullDiskIsSaidAndSurvived) {
  Server server([](const auto& request, int) { return http(body(), request); });
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{30'000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto text = message(wanted(server.url()));
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(text.find("cannot write '"), std::string::npos) << text;
  EXPECT_NE(text.find("the next call resumes"), std::string::npos) << text;
  EXPECT_FALSE(std::filesystem::exists(root_ / "a" / "file"));
  EXPECT_EQ(message(wanted(server.url())), "no error");
  EXPECT_EQ(read_file(root_ / "a" / "file"), body());
}

TEST(DataSources, TheProjectsListIsWhole) {
  const auto sources = load_data_sources(std::filesystem::path(KVC_SOURCE_DIR) / "tasks" / "data.yaml");
  EXPECT_GT(sources.size(), 200u);
  for (const auto& [file, source] : sources) {
    EXPECT_TRUE(source.url.starts_with("https://")) << file;
    EXPECT_FALSE(source.licence.empty()) << file;
  }
}

TEST(DataSources, WhatIsThereIsComparedByContent) {
  const TempFolder folder;
  std::ofstream(folder / "f") << "abc";
  // FIPS 180-2: SHA-256 of "abc".
  DataSource source{"https://x", "MIT", "", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                    true};
  std::string found;
  EXPECT_EQ(check_data(source, folder / "f", found), DataState::kRight);
  EXPECT_EQ(check_data(source, folder / "g", found), DataState::kMissing);
  std::ofstream(folder / "f") << "abd";
  EXPECT_EQ(check_data(source, folder / "f", found), DataState::kWrong);
  std::ofstream(folder / "f") << "abcd";
  EXPECT_EQ(check_data(source, folder / "f", found), DataState::kWrong);
  EXPECT_EQ(found, "4 bytes");
  source.n_bytes.reset();
  EXPECT_EQ(check_data(source, folder / "f", found), DataState::kUnchecked);
}

}  // namespace
}  // namespace kvc::test
