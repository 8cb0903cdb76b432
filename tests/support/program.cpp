#include "support/program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kvc::test {

Program::Program(const TempFolder& folder, std::vector<std::string> arguments, const std::string& input,
                 const std::vector<std::string>& wrapper)
    : folder_(folder) {
  folder.write("in", input);
  std::vector<std::string> words = wrapper;
  words.push_back(KVC_BINARY_DIR "/bin/kvc");
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  ::posix_spawn_file_actions_addopen(&actions, 0, (folder / "in").c_str(), O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, (folder / "out").c_str(), kFlags, 0600);
  ::posix_spawn_file_actions_addopen(&actions, 2, (folder / "err").c_str(), kFlags, 0600);
  ::setenv("KVC_ROOT", KVC_SOURCE_DIR, 1);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  if (::posix_spawn(&child_, argv[0], &actions, &attributes, argv.data(), environ) != 0) std::abort();
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
}

void Program::kill() { ::kill(child_, SIGKILL); }

void Program::signal_group(int signal) { ::kill(-child_, signal); }

Finished Program::wait() {
  int status = 0;
  ::waitpid(child_, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(folder_ / "out"), read_file(folder_ / "err"),
          WIFSIGNALED(status) ? WTERMSIG(status) : 0};
}

Finished run_program(const TempFolder& folder, std::vector<std::string> arguments, const std::string& input) {
  return Program(folder, std::move(arguments), input).wait();
}

int64_t n_lines_of_kvc(const std::string& err) {
  int64_t n = 0;
  for (size_t at = 0; (at = err.find("kvc: ", at)) != std::string::npos; ++at) n += at == 0 || err[at - 1] == '\n';
  return n;
}

std::string small_experiment(const std::string& compressors, int limit) {
  return "name: small\nmodel: models/demo\ntasks: [demo/truth, demo/lookup]\nlimit: " + std::to_string(limit) +
         "\nsizes: []\nplugin_path: [" KVC_BINARY_DIR "/tests/plugins]\ncompressors:\n" + compressors;
}

}  // namespace kvc::test
