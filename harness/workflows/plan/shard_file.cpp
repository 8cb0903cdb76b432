#include "plan/shard_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "kvc/check.h"
#include "text/open_file.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

fs::path folder_of_node() {
  for (const char* name : {"SLURM_TMPDIR", "TMPDIR"}) {
    const char* folder = std::getenv(name);
    if (folder && fs::is_directory(folder)) return folder;
  }
  return "/tmp";
}

// An open file that is closed.
struct Descriptor {
  Descriptor(const fs::path& path, int flags) : number(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (number < 0) throw EnvironmentError(concat("'", path.string(), "': ", std::strerror(errno)));
  }
  ~Descriptor() { ::close(number); }
  int number;
};

void copy_bytes(const fs::path& from, const fs::path& to) {
  const Descriptor source(from, O_RDONLY), target(to, O_WRONLY | O_CREAT | O_TRUNC);
  std::array<char, 1 << 16> buffer;
  const auto refuse = [](const fs::path& path) {
    throw EnvironmentError(concat("'", path.string(), "': ", std::strerror(errno)));
  };
  for (ssize_t n; (n = ::read(source.number, buffer.data(), buffer.size())) != 0;) {
    if (n < 0) refuse(from);
    for (ssize_t done = 0; done < n;) {
      const auto written = ::write(target.number, buffer.data() + done, static_cast<size_t>(n - done));
      if (written < 0) refuse(to);
      done += written;
    }
  }
  if (::fsync(target.number) != 0) refuse(to);
}

// Beside `path`, another for each process of each machine.
fs::path part_of(const fs::path& path) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return concat(path.string(), ".part-", host.data(), "-", ::getpid());
}

// What killed processes left of it an hour ago or more.
void remove_parts(const fs::path& path) {
  std::error_code none;
  const auto name = path.filename().string() + ".part-";
  for (const auto& file : fs::directory_iterator(path.parent_path(), none)) {
    if (!file.path().filename().string().starts_with(name)) continue;
    const auto age = fs::file_time_type::clock::now() - file.last_write_time(none);
    if (age > std::chrono::hours(1)) fs::remove(file.path(), none);
  }
}

}  // namespace

void copy_whole(const fs::path& from, const fs::path& to) {
  const auto part = part_of(to);
  try {
    copy_bytes(from, part);
    fs::rename(part, to);
    const Descriptor folder(to.parent_path().empty() ? "." : to.parent_path(), O_RDONLY | O_DIRECTORY);
    ::fsync(folder.number);
  } catch (const std::exception& e) {
    std::error_code none;
    fs::remove(part, none);
    throw EnvironmentError(concat("cannot copy a shard's results to '", to.string(), "': ", e.what()));
  }
}

ShardFile::ShardFile(fs::path shared) : shared_(std::move(shared)) {
  check_database_path(shared_);
  auto name = (folder_of_node() / "kvc-shard-XXXXXX").string();
  if (!::mkdtemp(name.data())) {
    throw EnvironmentError(concat("a shard's folder '", name, "': ", std::strerror(errno)));
  }
  folder_ = name;
  try {
    std::error_code none;
    if (!shared_.parent_path().empty()) fs::create_directories(shared_.parent_path(), none);
    remove_parts(shared_);
    const auto local = folder_ / "shard.sqlite";
    if (fs::exists(shared_)) copy_bytes(shared_, local);
    store_.emplace(open_store(local));
  } catch (...) {
    std::error_code none;
    fs::remove_all(folder_, none);
    throw;
  }
}

ShardFile::~ShardFile() {
  store_.reset();
  std::error_code none;
  fs::remove_all(folder_, none);
}

void ShardFile::bring() {
  const auto whole = folder_ / "whole.sqlite";
  std::error_code none;
  fs::remove(whole, none);
  {
    auto read = Database::open(store_->database().path(), Database::Mode::kReadOnly, 10'000);
    read.prepare("VACUUM INTO ?").bind(1, whole.string()).run();
  }
  copy_whole(whole, shared_);
}

}  // namespace kvc
