#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "cli/verbs.h"
#include "experiment/task_names.h"
#include "fetch/data_sources.h"
#include "fetch/download.h"
#include "fetch/make_data.h"
#include "kvc/check.h"
#include "text/hash_cache.h"
#include "text/message.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

struct DataArguments {
  std::vector<std::string> tasks;
  std::string data_dir;
  bool fetch = false;
};

// A file of the data folder, and the tasks that read it.
using Needed = std::map<std::string, std::vector<std::string>>;

Needed needed_files(const std::vector<std::string>& names, const Paths& paths) {
  Needed needed;
  for (const auto& id : find_tasks(paths.root / "tasks")) {
    const auto name = id.name();
    const auto is_asked = [&](const std::string& asked) { return name == asked || name.starts_with(asked + "/"); };
    if (!names.empty() && std::none_of(names.begin(), names.end(), is_asked)) continue;
    for (const auto& file : data_files(load_task(id))) needed[file].push_back(name);
  }
  for (const auto& name : names) tasks_of(name, paths);  // or says that there is none
  return needed;
}

std::string tasks_text(const std::vector<std::string>& tasks) {
  return tasks.size() == 1 ? tasks[0] : concat(tasks[0], " and ", tasks.size() - 1, " more");
}

const char* state_text(DataState state) {
  switch (state) {
    case DataState::kMissing:
      return "missing";
    case DataState::kRight:
      return "ok";
    case DataState::kUnchecked:
      return "there";
    case DataState::kWrong:
      return "WRONG";
  }
  throw Error("DataState out of range");
}

void print(const std::string& file, const std::vector<std::string>& tasks, const DataSource& source, DataState state,
           const std::string& found) {
  std::printf("%-8s %s (%s)\n", state_text(state), file.c_str(), tasks_text(tasks).c_str());
  std::printf("         %s\n         %s", source.url.c_str(), source.licence.c_str());
  if (source.n_bytes) {
    std::printf(", %ld bytes, SHA-256 %s", *source.n_bytes, source.sha256.c_str());
  }
  std::printf("\n");
  if (state == DataState::kWrong) std::printf("         here: %s\n", found.c_str());
  if (state == DataState::kMissing && !source.command.empty()) {
    std::printf("         --fetch prints it by Debian's package %s into the user's cache folder\n",
                source.package.c_str());
  }
  if (state == DataState::kMissing && !source.may_fetch) std::printf("         not fetched: %s\n", source.note.c_str());
}

// -> whether the file is there now
bool fetch(const std::string& file, const DataSource& source, const fs::path& path) {
  try {
    std::printf("         fetching\n");
    std::fflush(stdout);
    if (source.command.empty()) {
      KVC_CHECK(!path.empty(), "there is no data folder: set KVC_DATA or pass --data-dir");
      download({source.url, path, *source.n_bytes, source.sha256});
    } else {  // the data folder may be others', or none
      KVC_CHECK(!user_cache_folder().empty(), "there is no cache folder: set XDG_CACHE_HOME or HOME");
      make_data(source, user_cache_folder() / "data" / file);
    }
    std::printf("         fetched\n");
    return true;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "kvc: %s: %s\n", file.c_str(), one_line(said_by(e)).c_str());
    return false;
  }
}

int list_data(const DataArguments& arguments) {
  const auto paths = find_paths();
  const auto folder = data_folder(arguments.data_dir);
  const auto sources = load_data_sources(paths.root / "tasks" / "data.yaml");
  int n_missing = 0, n_files = 0;
  for (const auto& [file, tasks] : needed_files(arguments.tasks, paths)) {
    const auto source = sources.find(file);
    KVC_CHECK(source != sources.end(), "tasks/data.yaml does not say where '", file, "' comes from");
    const auto path = data_path(file, folder);
    std::string found;
    const auto state = check_data(source->second, path, found);
    print(file, tasks, source->second, state, found);
    const bool fetched = arguments.fetch && state == DataState::kMissing && source->second.may_fetch &&
                         fetch(file, source->second, path);
    ++n_files;
    n_missing += (state == DataState::kMissing && !fetched) || state == DataState::kWrong;
  }
  std::printf("%d files, %d of them missing or wrong, in %s\n", n_files, n_missing,
              folder.empty() ? "the user's cache folder (KVC_DATA is not set)" : folder.c_str());
  return n_missing > 0 ? kEnvironment : kOk;
}

}  // namespace

void add_data_verb(Verb program) {
  auto arguments = std::make_shared<DataArguments>();
  auto verb = program.add_subcommand(
      "data", "Lists and checks the data files that tasks need; --fetch downloads those whose licence allows it");
  verb.add_option("tasks", arguments->tasks, "only these tasks or suites");
  verb.add_option("--data-dir", arguments->data_dir, "the data folder (default: KVC_DATA)");
  verb.add_flag("--fetch", arguments->fetch, "download missing files whose licence allows it");
  verb.on_call([arguments] { return list_data(*arguments); });
}

}  // namespace kvc
