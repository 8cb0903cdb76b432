#include "figure/draw_figure.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "figure/gnuplot_script.h"
#include "kvc/check.h"
#include "text/files.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

// In the child: becomes gnuplot in `folder`, its messages in the file of descriptor `log`. 127: there is none.
[[noreturn]] void become_gnuplot(const fs::path& folder, const std::string& script, int log) {
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  if (chdir(folder.c_str()) != 0) _exit(126);
  execlp("gnuplot", "gnuplot", script.c_str(), static_cast<char*>(nullptr));
  _exit(127);
}

// What gnuplot said, and its exit status.
std::pair<int, std::string> run_gnuplot(const fs::path& script) {
  char log_name[] = "/tmp/kvc_gnuplot_XXXXXX";
  const int log = mkstemp(log_name);
  KVC_CHECK(log >= 0, "no temporary file for gnuplot's messages: ", std::strerror(errno));
  const auto folder = fs::absolute(script).parent_path();
  const pid_t child = fork();
  if (child == 0) become_gnuplot(folder, script.filename().string(), log);
  close(log);
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const auto said = read_file(log_name);
  unlink(log_name);
  KVC_CHECK(child > 0, "gnuplot cannot be started: ", std::strerror(errno));
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, said};
}

// gnuplot's message is its last line that is not empty.
std::string last_line(const std::string& text) {
  const auto end = text.find_last_not_of(" \n\t");
  if (end == std::string::npos) return "no message";
  const auto begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

// Whether the picture has its end: gnuplot says nothing of a full disk.
bool is_whole(const fs::path& picture) {
  constexpr size_t kEndBytes = 64;
  const auto bytes = read_file(picture), extension = picture.extension().string();
  const auto end = bytes.substr(bytes.size() - std::min(bytes.size(), kEndBytes));
  const char* mark = extension == ".svg" ? "</svg>" : extension == ".pdf" ? "%%EOF" : "IEND";
  return end.find(mark) != std::string::npos;
}

}  // namespace

DrawnFigure draw_figure(const FigureLayout& layout, const FigureData& data, const fs::path& picture) {
  const auto extension = picture.extension().string();
  KVC_CHECK(extension == ".svg" || extension == ".pdf" || extension == ".png", "'", picture.string(), "': ends in '",
            extension, "', expected .svg, .pdf or .png");
  if (picture.has_parent_path()) fs::create_directories(picture.parent_path());
  DrawnFigure drawn{fs::path(picture).replace_extension(".gp"), fs::path(picture).replace_extension(".dat")};
  write_file(drawn.dat, write_dat(data));
  write_file(drawn.script, write_gnuplot(layout, data, drawn.dat.filename().string(), picture.filename().string(),
                                         extension.substr(1)));
  const auto [status, said] = run_gnuplot(drawn.script);
  const auto kept = concat("'", drawn.script.string(), "' and '", drawn.dat.string(), "' are written");
  if (status == 127) {
    throw EnvironmentError(
        concat("gnuplot is missing (Debian package gnuplot-nox), so '", picture.string(), "' is not drawn; ", kept));
  }
  if (status != 0 || !fs::exists(picture)) {
    throw EnvironmentError(concat("gnuplot did not draw '", picture.string(), "': ", last_line(said), "; ", kept));
  }
  if (!is_whole(picture)) {
    fs::remove(picture);
    throw EnvironmentError(
        concat("gnuplot could not write '", picture.string(), "' to its end (is the disk full?); ", kept));
  }
  return drawn;
}

}  // namespace kvc
