#include "fetch/download.h"

#include <curl/curl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>

#include "kvc/check.h"
#include "text/files.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

constexpr long kStallSeconds = 30, kConnectSeconds = 30;

// A file being written, closed with its errors seen.
class PartFile {
 public:
  PartFile(const fs::path& path, bool append)
      : path_(path), file_(std::fopen(path.c_str(), append ? "ab" : "wb"), &std::fclose) {
    if (!file_) throw EnvironmentError(concat("cannot write '", path.string(), "': ", std::strerror(errno)));
    std::setvbuf(file_.get(), nullptr, _IONBF, 0);  // a full disk shows at the write that meets it
  }
  bool write(const char* bytes, size_t n) {
    errno = 0;
    if (std::fwrite(bytes, 1, n, file_.get()) == n) return true;
    error_ = errno;
    return false;
  }
  int error() const { return error_; }

 private:
  fs::path path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  int error_ = 0;
};

// Where the bytes of a transfer go.
class Sink {
 public:
  explicit Sink(int64_t room) : room_(room) {}
  virtual ~Sink() = default;
  bool take(const char* bytes, size_t n) {
    too_much_ = static_cast<int64_t>(n) > room_;
    if (too_much_ || !write(bytes, n)) return false;
    room_ -= static_cast<int64_t>(n);
    return true;
  }
  bool too_much() const { return too_much_; }

 protected:
  virtual bool write(const char* bytes, size_t n) = 0;
  int64_t room() const { return room_; }

 private:
  int64_t room_;  // bytes that may still come
  bool too_much_ = false;
};

class FileSink : public Sink {
 public:
  FileSink(const Download& wanted, const fs::path& part, int64_t have)
      : Sink(wanted.n_bytes - have), wanted_(wanted), file_(part, have > 0) {}
  int error() const { return file_.error(); }

 private:
  bool write(const char* bytes, size_t n) override {
    if (!file_.write(bytes, n)) return false;
    if (wanted_.on_bytes) wanted_.on_bytes(wanted_.n_bytes - room() + static_cast<int64_t>(n));
    return true;
  }
  const Download& wanted_;
  PartFile file_;
};

class TextSink : public Sink {
 public:
  using Sink::Sink;
  std::string text;

 private:
  bool write(const char* bytes, size_t n) override {
    text.append(bytes, n);
    return true;
  }
};

size_t on_bytes(char* bytes, size_t size, size_t n, void* user) {
  return static_cast<Sink*>(user)->take(bytes, size * n) ? size * n : 0;
}

// One connection, with what it ended in.
class Connection {
 public:
  Connection(const std::string& url, const std::string& token, int64_t have, Sink& sink)
      : curl_(make_curl(url, have, sink)), headers_(nullptr, &curl_slist_free_all) {
    if (token.empty()) return;
    headers_.reset(curl_slist_append(nullptr, ("Authorization: Bearer " + token).c_str()));
    KVC_CHECK(headers_, "libcurl: no memory");
    curl_easy_setopt(curl_.get(), CURLOPT_HTTPHEADER, headers_.get());  // libcurl keeps it from other hosts and ports
  }
  CURLcode run() {
    const auto result = curl_easy_perform(curl_.get());
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status_);
    return result;
  }
  long status() const { return status_; }

 private:
  using Curl = std::unique_ptr<CURL, void (*)(CURL*)>;
  static Curl make_curl(const std::string& url, int64_t have, Sink& sink);

  Curl curl_;
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers_;
  long status_ = 0;
};

Connection::Curl Connection::make_curl(const std::string& url, int64_t have, Sink& sink) {
  static const CURLcode kReady = curl_global_init(CURL_GLOBAL_DEFAULT);
  Curl curl(curl_easy_init(), &curl_easy_cleanup);
  KVC_CHECK(kReady == CURLE_OK && curl, "libcurl cannot be started");
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_REDIR_PROTOCOLS_STR, url.starts_with("https:") ? "https" : "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(curl.get(), CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_USERAGENT, "kvc");
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  curl_easy_setopt(curl.get(), CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(have));
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, &on_bytes);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &sink);
  return curl;
}

int64_t size_of(const fs::path& path) {
  std::error_code none;
  const auto size = fs::file_size(path, none);
  return none ? 0 : static_cast<int64_t>(size);
}

// Why a connection broke off and may be tried again. Throws HttpError where another try brings the same answer.
std::string reason(const std::string& url, CURLcode result, long status) {
  if (result != CURLE_HTTP_RETURNED_ERROR) return curl_easy_strerror(result);
  constexpr long kTimeout = 408, kTooMany = 429, kServer = 500;
  if (status < kServer && status != kTimeout && status != kTooMany) throw HttpError(url, status);
  return concat("the server answered ", status);
}

std::string are_there(const Download& wanted, const fs::path& part) {
  return concat("; ", size_of(part), " of ", wanted.n_bytes, " bytes are kept, the next call resumes");
}

// One connection. -> why it broke off and may be tried again, or "" when it brought all that it had
std::string connect_once(const Download& wanted, const fs::path& part) {
  int64_t have = size_of(part);
  if (have >= wanted.n_bytes) {  // of another file, or damaged: the check below has the last word on equal sizes
    if (have == wanted.n_bytes && have > 0) return "";
    fs::remove(part);
    have = 0;
  }
  FileSink sink(wanted, part, have);
  if (wanted.n_bytes == 0) return "";  // made by being opened
  Connection connection(wanted.url, wanted.token, have, sink);
  const CURLcode result = connection.run();
  constexpr long kRangeNotSatisfiable = 416;  // libcurl takes it for the end of the file
  const bool no_range = have > 0 && connection.status() == kRangeNotSatisfiable;
  if (result == CURLE_OK && !no_range) return "";
  if (sink.error() != 0) {
    throw EnvironmentError(
        concat("cannot write '", part.string(), "': ", std::strerror(sink.error()), are_there(wanted, part)));
  }
  if (sink.too_much()) {
    fs::remove(part);
    throw Error(concat(wanted.url, ": more than the expected ", wanted.n_bytes, " bytes came; nothing was kept"));
  }
  if (result == CURLE_RANGE_ERROR || no_range) {
    fs::remove(part);  // the server cannot go on from the middle
    return "the server does not resume";
  }
  return reason(wanted.url, result, connection.status());
}

// `once` until it returns "", with growing pauses. -> what it last returned
std::string try_again(int n_tries, std::chrono::milliseconds pause, const std::function<std::string()>& once) {
  std::string why = "no try";
  for (int i = 0; i < n_tries && !why.empty(); ++i) {
    if (i > 0) std::this_thread::sleep_for(pause * (1 << (i - 1)));
    why = once();
  }
  return why;
}

void check_content(const Download& wanted, const fs::path& part) {
  const bool by_git = wanted.sha256.empty();
  const auto& expected = by_git ? wanted.git_blob : wanted.sha256;
  const auto found = by_git ? git_blob_id(part) : sha256_file(part);
  if (found == expected) return;
  fs::remove(part);
  throw Error(concat(wanted.url, ": the file's ", by_git ? "git blob id" : "SHA-256", " is ", found, ", expected ",
                     expected, "; it was deleted"));
}

}  // namespace

void download(const Download& wanted) {
  fs::path part = wanted.to;
  part += ".part";
  if (wanted.to.has_parent_path()) fs::create_directories(wanted.to.parent_path());
  const auto why = try_again(wanted.n_tries, wanted.pause, [&]() -> std::string {
    auto broken = connect_once(wanted, part);
    return broken.empty() && size_of(part) < wanted.n_bytes ? "the server ended early" : broken;
  });
  if (!why.empty()) {
    throw EnvironmentError(concat(wanted.url, ": ", why, ", ", wanted.n_tries, " times", are_there(wanted, part)));
  }
  check_content(wanted, part);
  fs::rename(part, wanted.to);
}

std::string download_text(const std::string& url, const std::string& token, int64_t most_bytes, int n_tries,
                          std::chrono::milliseconds pause) {
  std::string text;
  const auto why = try_again(n_tries, pause, [&]() -> std::string {
    TextSink sink(most_bytes);
    Connection connection(url, token, 0, sink);
    const CURLcode result = connection.run();
    KVC_CHECK(!sink.too_much(), url, ": more than ", most_bytes, " bytes came, which no such answer has");
    text = std::move(sink.text);
    return result == CURLE_OK ? "" : reason(url, result, connection.status());
  });
  if (!why.empty()) throw EnvironmentError(concat(url, ": ", why, ", ", n_tries, " times"));
  return text;
}

}  // namespace kvc
