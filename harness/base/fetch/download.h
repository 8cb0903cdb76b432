// Files fetched over HTTP: resumed where they broke off, and kept only if they are the files that were asked for.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "kvc/check.h"

namespace kvc {

struct Download {
  std::string url;  // http or https; from https no redirect leads to http
  std::filesystem::path to;
  int64_t n_bytes = 0;
  std::string sha256;                                  // or "", and then
  std::string git_blob = "";                           // what git calls the file (git_blob_id)
  std::string token = "";                              // sent as a bearer's to the address' own host and port alone
  std::function<void(int64_t n_bytes)> on_bytes = {};  // told how many are there
  int n_tries = 5;                                     // connections in all; what the ones before have brought is kept
  std::chrono::milliseconds pause{1000};               // before the second, twice that before the third, ...
};

// An answer that is none of the file: 404 and its like.
class HttpError : public Error {
 public:
  HttpError(const std::string& url, long status)
      : Error(concat(url, ": the server answered ", status)), status_(status) {}
  long status() const { return status_; }

 private:
  long status_;
};

// What arrives is collected in "<to>.part", which outlives an error and is gone on with by the next call; `to` appears
// whole, by a rename. Throws HttpError, EnvironmentError (the connection broke too often, the file cannot be written),
// or Error where the file has another size or hash; such a file is deleted. All name the address, never the token.
void download(const Download& wanted);

// What is at the address, at most `most_bytes`, for small texts; errors as above.
std::string download_text(const std::string& url, const std::string& token, int64_t most_bytes, int n_tries = 5,
                          std::chrono::milliseconds pause = std::chrono::milliseconds(1000));

}  // namespace kvc
