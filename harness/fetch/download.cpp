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
    KVC_CHECK(file_, "cannot write '", path.string(), "': ", std::strerror(errno));
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

struct Transfer {
  PartFile* file;
  int64_t room;  // bytes that may still come
  bool too_much = false;
};

size_t on_bytes(char* bytes, size_t size, size_t n, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const auto n_bytes = static_cast<int64_t>(size * n);
  transfer.too_much = n_bytes > transfer.room;
  if (transfer.too_much || !transfer.file->write(bytes, size * n)) return 0;
  transfer.room -= n_bytes;
  return size * n;
}

using Curl = std::unique_ptr<CURL, void (*)(CURL*)>;

Curl make_curl(const Download& wanted, int64_t have, Transfer& transfer) {
  static const CURLcode kReady = curl_global_init(CURL_GLOBAL_DEFAULT);
  Curl curl(curl_easy_init(), &curl_easy_cleanup);
  KVC_CHECK(kReady == CURLE_OK && curl, "libcurl cannot be started");
  curl_easy_setopt(curl.get(), CURLOPT_URL, wanted.url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(curl.get(), CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  curl_easy_setopt(curl.get(), CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(have));
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, &on_bytes);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &transfer);
  return curl;
}

int64_t size_of(const fs::path& path) {
  std::error_code none;
  const auto size = fs::file_size(path, none);
  return none ? 0 : static_cast<int64_t>(size);
}

// One connection. -> why it broke off and may be tried again, or "" when it brought all that it had
std::string connect_once(const Download& wanted, const fs::path& part) {
  int64_t have = size_of(part);
  if (have >= wanted.n_bytes) {  // of another file, or damaged: the check below has the last word on equal sizes
    if (have == wanted.n_bytes) return "";
    fs::remove(part);
    have = 0;
  }
  PartFile file(part, have > 0);
  Transfer transfer{&file, wanted.n_bytes - have};
  const auto curl = make_curl(wanted, have, transfer);
  const CURLcode result = curl_easy_perform(curl.get());
  if (result == CURLE_OK) return "";
  KVC_CHECK(file.error() == 0, "cannot write '", part.string(), "': ", std::strerror(file.error()), "; ", size_of(part),
            " of ", wanted.n_bytes, " bytes are there, the next call goes on from them");
  if (transfer.too_much) {
    fs::remove(part);
    throw Error(concat(wanted.url, ": more than the expected ", wanted.n_bytes, " bytes came; nothing was kept"));
  }
  if (result == CURLE_RANGE_ERROR) {  // the server cannot go on from the middle
    fs::remove(part);
    return "the server does not resume";
  }
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (result == CURLE_HTTP_RETURNED_ERROR && status < 500) {
    throw Error(concat(wanted.url, ": the server answered ", status));
  }
  return result == CURLE_HTTP_RETURNED_ERROR ? concat("the server answered ", status) : curl_easy_strerror(result);
}

}  // namespace

void download(const Download& wanted) {
  fs::path part = wanted.to;
  part += ".part";
  if (wanted.to.has_parent_path()) fs::create_directories(wanted.to.parent_path());
  std::string why = "no try";
  for (int i = 0; i < wanted.n_tries && !why.empty(); ++i) {
    if (i > 0) std::this_thread::sleep_for(wanted.pause * (1 << (i - 1)));
    why = connect_once(wanted, part);
    if (why.empty() && size_of(part) < wanted.n_bytes) why = "the server ended early";
  }
  KVC_CHECK(why.empty(), wanted.url, ": ", why, ", ", wanted.n_tries, " times; ", size_of(part), " of ", wanted.n_bytes,
            " bytes are there, the next call goes on from them");
  const auto hash = sha256_file(part);
  if (hash != wanted.sha256) {
    fs::remove(part);
    throw Error(concat(wanted.url, ": the file's SHA-256 is ", hash, ", expected ", wanted.sha256, "; it was deleted"));
  }
  fs::rename(part, wanted.to);
}

}  // namespace kvc
