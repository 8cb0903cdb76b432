#include "conformance/verify.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "conformance/cases.h"

namespace kvc::conformance {
namespace {

using nlohmann::json;

// Lines that a child writes: {"refused"}, {"opened"}, then {"begin"} and {"end"} of each check, then {"done"}.
void write_line(int fd, const json& message) {
  const auto line = message.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  for (size_t written = 0; written < line.size();) {
    const auto n = ::write(fd, line.data() + written, line.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) ::_exit(1);  // the parent is gone
    written += static_cast<size_t>(n);
  }
}

// In the child: the checks from number `first` on, case by case.
void run_checks(int fd, const std::filesystem::path& file, const VerifyOptions& options, size_t first) {
  const PluginLibrary plugin(file);
  const auto cases = cases_of(plugin, options.options);
  const auto& d = plugin.descriptor();
  write_line(fd, {{"opened", {{"plugin", d.name}, {"summary", d.summary}, {"sha256", plugin.sha256()}}}});
  const bool serves_none = std::all_of(cases.begin(), cases.end(), [](const Case& c) { return !c.refusal.empty(); });
  const auto& checks = all_checks();
  for (size_t i = first; i < cases.size() * checks.size(); ++i) {
    const auto& c = cases[i / checks.size()];
    const auto& check = checks[i % checks.size()];
    write_line(fd, {{"begin", i}, {"check", check.name}, {"on", c.label()}});
    Outcome outcome;
    if (c.refusal.empty()) {
      outcome = run_check(check, {plugin, c.options, c.model});
    } else if (serves_none && i == 0) {
      outcome.complaints = {"refuses every model of the suite: " + c.refusal};
    } else {
      outcome.not_applicable = kRefusesModel + c.refusal;
    }
    write_line(fd, {{"end", i},
                    {"complaints", outcome.complaints},
                    {"not_applicable", outcome.not_applicable},
                    {"notes", outcome.notes}});
  }
  write_line(fd, {{"done", true}});
}

[[noreturn]] void child(int fd, const std::filesystem::path& file, const VerifyOptions& options, size_t first) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::dup2(2, 1);  // the report has standard output for itself
  try {
    run_checks(fd, file, options, first);
  } catch (const std::exception& e) {
    write_line(fd, {{"refused", e.what()}});
  }
  ::_exit(0);
}

// A child and what it says.
class Child {
 public:
  Child(const std::filesystem::path& file, const VerifyOptions& options, size_t first) {
    int ends[2];
    KVC_CHECK(::pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe: ", std::strerror(errno));
    std::fflush(nullptr);
    pid_ = ::fork();
    KVC_CHECK(pid_ >= 0, "cannot start a process: ", std::strerror(errno));
    if (pid_ == 0) {
      ::close(ends[0]);
      child(ends[1], file, options, first);
    }
    ::close(ends[1]);
    fd_ = ends[0];
  }
  ~Child() {
    ::close(fd_);
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Its next line; null where it has ended, or has said nothing for so long that it was killed.
  json receive(int seconds) {
    size_t end;
    while ((end = buffer_.find('\n')) == std::string::npos) {
      pollfd polled{fd_, POLLIN, 0};
      const int n_ready = ::poll(&polled, 1, seconds * 1000);
      if (n_ready < 0 && errno == EINTR) continue;
      timed_out_ = n_ready == 0;
      char bytes[1 << 12];
      const auto n = timed_out_ ? 0 : ::read(fd_, bytes, sizeof bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return nullptr;
      buffer_.append(bytes, static_cast<size_t>(n));
    }
    const auto line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return json::parse(line);
  }

  // How it ended, once receive() gave null.
  std::string epitaph(int seconds) {
    if (timed_out_) {
      ::kill(pid_, SIGKILL);
      return concat("no answer after ", seconds, " s");
    }
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFSIGNALED(status)
               ? concat("crashed by signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")")
               : concat("ended the process with exit code ", WEXITSTATUS(status));
  }

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
  std::string buffer_;
  bool timed_out_ = false;
};

Result result_of(const json& begin, const json& end) {
  Result result{.check = begin["check"], .on = begin["on"], .messages = {}, .notes = end["notes"]};
  const std::string not_applicable = end["not_applicable"];
  if (!end["complaints"].empty()) {
    result.verdict = Verdict::failed;
    result.messages = end["complaints"];
  } else if (!not_applicable.empty()) {
    result.verdict = Verdict::not_applicable;
    result.messages = {not_applicable};
  }
  return result;
}

}  // namespace

int64_t Report::count(Verdict verdict) const {
  return std::count_if(results.begin(), results.end(), [&](const Result& r) { return r.verdict == verdict; });
}

Report verify(const std::filesystem::path& file, const VerifyOptions& options) {
  Report report{.plugin = file.stem(), .summary = "", .sha256 = "", .file = file, .results = {}};
  const auto add = [&](Result result) {
    options.on_result(result);
    report.results.push_back(std::move(result));
  };
  for (size_t next = 0;;) {
    const size_t first = next;
    Child child(file, options, first);
    json begin = {{"check", "opens"}, {"on", "-"}};
    const char* when = " in check ";
    for (json message; !(message = child.receive(options.seconds_a_check)).is_null();) {
      if (message.contains("done")) return report;
      if (message.contains("refused")) throw Error(message["refused"].get<std::string>());
      if (message.contains("opened")) {
        report.plugin = message["opened"]["plugin"], report.summary = message["opened"]["summary"];
        report.sha256 = message["opened"]["sha256"];
      } else if (message.contains("begin")) {
        begin = message, when = " in check ";
        next = begin["begin"].get<size_t>() + 1;
      } else {
        add(result_of(begin, message));
        when = " after check ";
      }
    }
    const auto death = concat(child.epitaph(options.seconds_a_check), when, begin["check"].get<std::string>());
    add({.check = begin["check"], .on = begin["on"], .verdict = Verdict::failed, .messages = {death}, .notes = {}});
    if (next == first) return report;  // no child gets any further
  }
}

}  // namespace kvc::conformance
