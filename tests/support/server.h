// A server on loopback that answers as a test says: it breaks off, lies, redirects and refuses.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace kvc::test {

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
  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string url() const { return endpoint() + "/file"; }
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

inline std::string body() {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "line " + std::to_string(i) + "\n";
  return text;
}

inline size_t asked_from(const std::string& request) {
  const auto at = request.find("Range: bytes=");
  return at == std::string::npos ? 0 : std::stoul(request.substr(at + 13));
}

// The whole body, or from where the request asks, promised in full and broken off after `n_sent` bytes.
inline std::string http(const std::string& whole, const std::string& request, size_t n_sent = std::string::npos) {
  const size_t from = asked_from(request);
  std::string head = from == 0 ? "HTTP/1.1 200 OK\r\n"
                               : "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " + std::to_string(from) + "-" +
                                     std::to_string(whole.size() - 1) + "/" + std::to_string(whole.size()) + "\r\n";
  head += "Content-Length: " + std::to_string(whole.size() - from) + "\r\nConnection: close\r\n\r\n";
  return head + whole.substr(from, n_sent);
}

// "/file" of "GET /file HTTP/1.1"
inline std::string path_of(const std::string& request) {
  const auto from = request.find(' ') + 1;
  return request.substr(from, request.find(' ', from) - from);
}

inline std::string status(int code, const std::string& more = "") {
  return "HTTP/1.1 " + std::to_string(code) + " X\r\n" + more + "Content-Length: 0\r\nConnection: close\r\n\r\n";
}

inline std::string redirect(const std::string& to) { return status(302, "Location: " + to + "\r\n"); }

inline bool has_token(const std::string& request, const std::string& token) {
  return request.find("Authorization: Bearer " + token) != std::string::npos;
}

}  // namespace kvc::test
