#include "faults/work.h"

#include <stdlib.h>

#include "contract/stopwatch.h"
#include "render/table.h"
#include "text/files.h"

namespace kvc::test {
namespace {

namespace fs = std::filesystem;

constexpr char kFull[] = "  - full\n", kCompressors[] = "  - full\n  - kivi: {bits: 2, group_size: 32, recent: 32}\n";
constexpr char kOthersResults[] = R"({"model_name": "m", "config": {"model": "hf", "model_args": {"a": 1}}, "results": {
  "t1": {"alias": "t1", "acc,none": 0.5, "acc_stderr,none": 0.1, "f1,none": 0.25}, "t2": {"acc,none": 0.75}}})";
// As if the tasks scored otherwise when the rows were stored.
constexpr char kOtherScores[] =
    "UPDATE score SET value = 1 - value, answer = 'x'; UPDATE cell SET scoring_json = '{\"metric\": \"other\"}'";

void must(const Finished& finished) {
  if (finished.exit_code != 0) throw Error("a command that nothing disturbs failed: " + finished.err);
}

}  // namespace

Workplace::Workplace() {
  ::setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  const auto made = [&](const std::string& name) { return (folder / name).string(); };
  const auto db = database.string();
  const auto small = folder.write("small.yaml", small_experiment(kCompressors, 2)).string();
  must(run_program(folder, {"run", small, "--db", made("whole.sqlite")}));
  must(run_program(folder, {"run", small, "--db", made("half.sqlite"), "--limit", "1"}));
  fs::copy_file(folder / "whole.sqlite", folder / "other.sqlite");
  Database::open(folder / "other.sqlite", Database::Mode::kReadWrite, 0).execute(kOtherScores);
  const auto search = folder
                          .write("search.yaml",
                                 "name: s\nmodel: models/demo\ntasks: [demo/lookup]\nlimit: 2\n"
                                 "compressors:\n  - tada: {recent: 16}\n")
                          .string();
  const auto results = folder.write("results_1.json", kOthersResults).string();
  works_ = {
      {"run", {"run", small, "--db", db}, "half.sqlite", ""},
      {"fresh", {"run", small, "--db", db}, "", ""},
      {"sizes", {"run", small, "--db", db, "--set", "sizes=[2048, 8192]"}, "whole.sqlite", ""},
      {"rescore", {"rescore", db}, "other.sqlite", ""},
      {"import", {"import", "lm-eval", results, "--db", db}, "half.sqlite", ""},
      {"search",
       {"search", search, "--db", db, "--output", made("found.yaml"), "--samples", "2", "--budget", "0.9",
        "--candidates", "8", "--rescore", "2"},
       "",
       "found.yaml"},
      {"report", {"report", db, "-o", made("r.html")}, "whole.sqlite", "r.html"},
      {"export", {"export", "csv", db, "-o", made("r.csv")}, "whole.sqlite", "r.csv"},
      {"table", {"table", "--db", db}, "whole.sqlite", ""},
  };
}

const Work& Workplace::work(const std::string& name) const {
  for (const auto& work : works_) {
    if (work.name == name) return work;
  }
  throw Error("no work " + name);
}

void Workplace::remove_database() {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) fs::remove(database.string() + suffix);
}

void Workplace::begin(const Work& work) {
  remove_database();
  if (!work.output.empty()) fs::remove(folder / work.output);
  if (!work.before.empty()) fs::copy_file(folder / work.before, database);
}

std::string Workplace::left(const Work& work) {
  return dump(database) + (work.output.empty() ? "" : read_file(folder / work.output));
}

std::set<std::string> Workplace::finished() {
  std::set<std::string> rows;
  if (!fs::exists(database)) return rows;
  try {
    auto store = ResultStore::open_readonly(database);
    auto select = store.database().prepare("SELECT * FROM sample WHERE status = 'ok'");
    while (select.step()) {
      std::string row;
      for (int i = 0; i < select.n_columns(); ++i) row += select.text(i) + "|";
      rows.insert(row);
    }
  } catch (const Error&) {  // it holds nothing yet
  }
  return rows;
}

const Workplace::Undisturbed& Workplace::undisturbed(const Work& work) {
  const auto known = undisturbed_.find(work.name);
  if (known != undisturbed_.end()) return known->second;
  begin(work);
  const auto start = Clock::now();
  must(run_program(folder, work.arguments));
  const double seconds = seconds_since(start);
  return undisturbed_[work.name] = {left(work), seconds};
}

Amount amount() {
  const char* asked = std::getenv("KVC_TEST_FAULTS");
  const std::string text = asked ? asked : "";
  return text == "all" ? Amount::all : text == "slow" ? Amount::slow : Amount::few;
}

Workplace& place() {
  static Workplace place;
  return place;
}

std::string unfit_end(const Finished& ended) {
  if (ended.signal != 0) return concat("ended by signal ", ended.signal, ": ", ended.err);
  for (const char* raw : {"std::", "terminate called", "what():", "c10::Error"}) {
    if (ended.err.find(raw) != std::string::npos) return concat("a raw text: ", ended.err);
  }
  const bool refused = ended.exit_code == 2 || ended.exit_code == 3;
  if (ended.exit_code != 0 && ended.exit_code != 4 && !refused)
    return concat("exit code ", ended.exit_code, ": ", ended.err);
  if (refused && n_lines_of_kvc(ended.err) != 1) return concat(n_lines_of_kvc(ended.err), " lines of kvc: ", ended.err);
  return "";
}

}  // namespace kvc::test
