#include "fetch/make_data.h"

#include <cstdio>
#include <memory>

#include "fetch/file_lock.h"
#include "kvc/check.h"
#include "text/files.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostBytes = int64_t{64} << 20;  // where the source does not say how many there are

// What the command prints, at most one byte more than is wanted. -> its exit status, as pclose has it
int run_into(const DataSource& source, const fs::path& part) {
  OutputFile file(part, OutputFile::How::kInPlace);
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(::popen(source.command.c_str(), "r"), &::pclose);
  KVC_CHECK(output, "cannot run '", source.command, "'");
  char buffer[1 << 16];
  int64_t left = source.n_bytes.value_or(kMostBytes) + 1;
  for (size_t n; left > 0 && (n = std::fread(buffer, 1, sizeof buffer, output.get())) > 0;) {
    file.write({buffer, n});
    left -= static_cast<int64_t>(n);
  }
  const int status = ::pclose(output.release());
  file.commit();
  return status;
}

}  // namespace

void make_data(const DataSource& source, const fs::path& to) {
  make_folder(to.parent_path());
  const fs::path part = to.string() + ".part";
  const int status = run_into(source, part);
  std::string found;
  const auto state = check_data(source, part, found);
  const bool printed = fs::file_size(part) > 0;  // of a pipe the shell tells the last program's status alone
  const bool is_right = source.n_bytes ? state == DataState::kRight : fs::file_size(part) <= uintmax_t{kMostBytes};
  if (!is_right) fs::remove(part);
  KVC_CHECK(status == 0 && printed, "'", source.command, "' failed; it is of Debian's package ", source.package,
            " (as root: apt-get install ", source.package, ")");
  KVC_CHECK(is_right || source.n_bytes, "'", source.command, "' printed more than ", kMostBytes, " bytes");
  KVC_CHECK(is_right, "'", source.command, "' printed ", found, ", expected ", source.n_bytes.value_or(0),
            " bytes, SHA-256 ", source.sha256);
  fs::rename(part, to);
}

}  // namespace kvc
