// `kvc tasks`: what there is to run, suite by suite, and what is missing for the rest.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "cli/verbs.h"
#include "experiment/task_names.h"
#include "fetch/data_sources.h"
#include "kvc/check.h"
#include "task/dataset.h"
#include "task/task_inventory.h"
#include "text/nearest.h"

namespace kvc {
namespace {

constexpr size_t kWidth = 118;
constexpr size_t kMostFiles = 5;  // named of a suite's missing ones
constexpr int kIndent = 28;       // of names behind a suite and its counts

// A task file, and of the tasks that it stands for how many can run here.
struct FileCount {
  std::string name;  // below its suite
  size_t n_tasks = 0, n_that_run = 0;
};

struct Suite {
  std::string name;
  std::vector<FileCount> files;
  std::set<std::string> missing;
  size_t n_tasks = 0, n_that_run = 0;
};

std::vector<Suite> suites_of(const TaskInventory& inventory) {
  std::vector<Suite> suites;
  for (const auto& task : inventory.tasks) {
    if (suites.empty() || suites.back().name != task.suite()) suites.push_back({task.suite(), {}, {}});
    auto& suite = suites.back();
    const auto file = task.spec.yaml_file.stem().string();
    if (suite.files.empty() || suite.files.back().name != file) suite.files.push_back({file});
    auto& count = suite.files.back();
    ++count.n_tasks, ++suite.n_tasks;
    count.n_that_run += task.can_run(), suite.n_that_run += task.can_run();
    suite.missing.insert(task.missing.begin(), task.missing.end());
  }
  return suites;
}

// "+cot8", "-rte", "+five_shot/* (57)", "-icl/* (3 of 5)"
std::string marked(const FileCount& file) {
  const auto name = (file.n_that_run == file.n_tasks ? "+" : "-") + file.name;
  if (file.n_tasks == 1) return name;
  return file.n_that_run == file.n_tasks || file.n_that_run == 0
             ? concat(name, "/* (", file.n_tasks, ")")
             : concat(name, "/* (", file.n_that_run, " of ", file.n_tasks, ")");
}

void print(const Suite& suite) {
  const auto counts = concat(suite.n_that_run, " of ", suite.n_tasks);
  auto line = suite.name + std::string(std::max<size_t>(1, 16 - std::min<size_t>(15, suite.name.size())), ' ') + counts;
  line.resize(std::max<size_t>(line.size() + 1, kIndent), ' ');
  size_t column = line.size();
  for (const auto& file : suite.files) {
    const auto name = marked(file);
    if (column > kIndent && column + name.size() > kWidth) {
      line.back() = '\n';  // in place of the blank
      line += std::string(kIndent, ' ');
      column = kIndent;
    }
    line += name + " ";
    column += name.size() + 1;
  }
  line.pop_back();
  std::printf("%s\n", line.c_str());
}

// "icl: boolq/train.jsonl, rte/train.jsonl", and below it the command that gets them.
void print_missing(const Suite& suite, const std::map<std::string, DataSource>& sources) {
  const auto can_fetch = [&](const std::string& file) {
    const auto source = sources.find(file);
    return source != sources.end() && source->second.may_fetch;
  };
  const auto n = suite.missing.size();
  const auto n_fetched = static_cast<size_t>(std::count_if(suite.missing.begin(), suite.missing.end(), can_fetch));
  std::string how = n_fetched == 0 ? concat("kvc data ", suite.name) : concat("kvc data ", suite.name, " --fetch");
  if (n_fetched == 0) how += "  # says where to get them";
  if (n_fetched > 0 && n_fetched < n) how += concat("  # fetches ", n_fetched, ", says where to get the others");
  std::printf("  %s: %s\n%*s%s\n", suite.name.c_str(),
              some_of({suite.missing.begin(), suite.missing.end()}, kMostFiles).c_str(), 6, "", how.c_str());
}

// What is missing, once a suite, and how it is got.
void print_missing(const std::vector<Suite>& suites, const std::string& data_dir, const Paths& paths) {
  const auto misses = [](const Suite& suite) { return !suite.missing.empty(); };
  if (std::none_of(suites.begin(), suites.end(), misses)) return;
  if (data_dir.empty()) {
    std::printf(
        "\nKVC_DATA is not set; tasks with external data need it. To download what licences allow:\n"
        "  export KVC_DATA=FOLDER; kvc data --fetch         # or one suite: kvc data SUITE --fetch\n");
    return;
  }
  const auto sources = load_data_sources(paths.root / "tasks" / "data.yaml");
  std::printf("\nmissing in %s:\n", data_dir.c_str());
  for (const auto& suite : suites) {
    if (misses(suite)) print_missing(suite, sources);
  }
}

void print_overview(const TaskInventory& inventory, const std::vector<Suite>& suites) {
  std::printf("suite           run here    tasks: + can run here, - data missing; /* is several tasks\n");
  for (const auto& suite : suites) print(suite);
  std::printf("\n%zu tasks in %zu suites, %zu of them can run here; details: kvc tasks SUITE\n", inventory.tasks.size(),
              suites.size(), inventory.n_that_run());
}

std::string samples_text(const ListedTask& task, const std::string& data_dir) {
  if (!task.can_run()) return "data missing";
  try {
    const auto n = count_samples(task.spec, data_dir);
    return concat(n, n == 1 ? " sample" : " samples");
  } catch (const Error& e) {
    return concat("no data: ", e.what());
  }
}

void print_each(const TaskInventory& inventory, const std::string& data_dir) {
  for (const auto& task : inventory.tasks) {
    std::printf("%s %-32s %s (%s)\n", task.can_run() ? "+" : "-", task.spec.name.c_str(), task.spec.summary.c_str(),
                samples_text(task, data_dir).c_str());
  }
}

int list_tasks(const std::vector<std::string>& names) {
  const auto paths = find_paths();
  const auto data_dir = data_folder("");
  std::vector<TaskId> ids = names.empty() ? find_tasks(paths.root / "tasks") : std::vector<TaskId>();
  for (const auto& name : names) {
    const auto found = tasks_of(name, paths);
    ids.insert(ids.end(), found.begin(), found.end());
  }
  const auto inventory = take_inventory(ids, data_dir);
  const auto suites = suites_of(inventory);
  names.empty() ? print_overview(inventory, suites) : print_each(inventory, data_dir);
  print_missing(suites, data_dir, paths);
  for (const auto& problem : inventory.broken) std::fprintf(stderr, "kvc: %s\n", problem.c_str());
  return inventory.broken.empty() ? kOk : kUsage;
}

}  // namespace

void add_tasks_verb(Verb program) {
  auto names = std::make_shared<std::vector<std::string>>();
  auto verb = program.add_subcommand("tasks", "Lists the tasks by suite, and the data that is missing for the rest");
  verb.add_option("names", *names,
                  "suites, tasks or patterns ('demo/*'): one line per task, with summary and number of samples");
  verb.on_call([names] { return list_tasks(*names); });
}

}  // namespace kvc
