// Downloads against a server on loopback that breaks off, lies, and refuses.
#include "fetch/download.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "fetch/data_sources.h"
#include "kvc/check.h"
#include "text/files.h"

namespace kvc {
namespace {

// Answers each connection by `answer(request, index of the connection)`, as it stands, and closes it.
class Server {
 public:
  using Answer = std::function<std::string(const std::string& request, int i)>;
  explicit Server(Answer answer) : answer_(std::move(answer)), socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), length) != 0) std::abort();
    ::listen(socket_, 8);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() {
    ::shutdown(socket_, SHUT_RDWR);
    ::close(socket_);
    thread_.join();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/file"; }
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    for (int i = 0;; ++i) {
      const int client = ::accept(socket_, nullptr, nullptr);
      if (client < 0) return;
      std::string request;
      char bytes[4096];
      while (request.find("\r\n\r\n") == std::string::npos) {
        const auto n = ::recv(client, bytes, sizeof bytes, 0);
        if (n <= 0) break;
        request.append(bytes, static_cast<size_t>(n));
      }
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      const auto text = answer_(request, i);
      for (size_t sent = 0; sent < text.size();) {
        const auto n = ::send(client, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
        if (n <= 0) break;
        sent += static_cast<size_t>(n);
      }
      ::close(client);
    }
  }

  Answer answer_;
  int socket_;
  int port_ = 0;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<std::string> requests_;
};

std::string body() {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "line " + std::to_string(i) + "\n";
  return text;
}

size_t asked_from(const std::string& request) {
  const auto at = request.find("Range: bytes=");
  return at == std::string::npos ? 0 : std::stoul(request.substr(at + 13));
}

// The whole body, or from where the request asks, promised in full and broken off after `n_sent` bytes.
std::string http(const std::string& whole, const std::string& request, size_t n_sent = std::string::npos) {
  const size_t from = asked_from(request);
  std::string head = from == 0 ? "HTTP/1.1 200 OK\r\n"
                               : "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " + std::to_string(from) + "-" +
                                     std::to_string(whole.size() - 1) + "/" + std::to_string(whole.size()) + "\r\n";
  head += "Content-Length: " + std::to_string(whole.size() - from) + "\r\nConnection: close\r\n\r\n";
  return head + whole.substr(from, n_sent);
}

class DownloadTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(root_); }
  Download wanted(const std::string& url) {
    return {url, root_ / "a" / "file",        static_cast<int64_t>(body().size()), sha256_hex(body()),
            4,   std::chrono::milliseconds(1)};
  }
  std::string message(const Download& wanted) {
    try {
      download(wanted);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  bool has_part() const { return std::filesystem::exists(root_ / "a" / "file.part"); }
  std::filesystem::path root_ = std::filesystem::temp_directory_path() / ("kvc_download_" + std::to_string(::getpid()));
};

TEST_F(DownloadTest, BringsTheFileWhole) {
  Server server([](const auto& request, int) { return http(body(), request); });
  EXPECT_EQ(message(wanted(server.url())), "");
  EXPECT_EQ(read_file(root_ / "a" / "file"), body());
  EXPECT_FALSE(has_part());
}

TEST_F(DownloadTest, GoesOnWhereTheConnectionBroke) {
  Server server([](const auto& request, int i) { return http(body(), request, i < 2 ? 50'000 : std::string::npos); });
  EXPECT_EQ(message(wanted(server.url())), "");
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
    EXPECT_NE(text.find("4 times; 4000 of " + std::to_string(body().size()) + " bytes are there"), std::string::npos)
        << text;
    EXPECT_FALSE(std::filesystem::exists(root_ / "a" / "file"));
  }
  Server server([](const auto& request, int) { return http(body(), request); });
  EXPECT_EQ(message(wanted(server.url())), "");
  EXPECT_EQ(asked_from(server.requests()[0]), 4000u);
  EXPECT_EQ(read_file(root_ / "a" / "file"), body());
}

TEST_F(DownloadTest, StartsAgainWhereTheServerCannotResume) {
  Server server([](const auto& request, int i) {
    return i == 0 ? http(body(), request, 1000) : http(body(), "");  // 200 and the whole, whatever was asked
  });
  EXPECT_EQ(message(wanted(server.url())), "");
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

TEST_F(DownloadTest, NobodyThereIsAnErrorOfOneLine) {
  const auto text = message(wanted("http://127.0.0.1:9/file"));
  EXPECT_NE(text.find("http://127.0.0.1:9/file: "), std::string::npos);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST_F(DownloadTest, OtherKindsOfAddressAreRefused) {
  std::filesystem::create_directories(root_);
  std::ofstream(root_ / "secret") << body();
  EXPECT_NE(message(wanted("file://" + (root_ / "secret").string())), "");
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
  EXPECT_NE(text.find("the next call goes on from them"), std::string::npos) << text;
  EXPECT_FALSE(std::filesystem::exists(root_ / "a" / "file"));
  EXPECT_EQ(message(wanted(server.url())), "");
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
  const auto folder = std::filesystem::temp_directory_path() / ("kvc_sources_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
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
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kvc
