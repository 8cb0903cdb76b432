// kvc merge: shards into one database.
#include <cstdio>
#include <future>
#include <memory>

#include "cli/verbs.h"
#include "kvc/check.h"
#include "merge/merge_shard.h"
#include "merge/shard.h"
#include "run/progress.h"
#include "text/message.h"

namespace kvc {
namespace {

struct MergeArguments {
  std::string out;
  std::vector<std::string> shards;
};

// "cell 0a1b2c3d4e5f (kivi, demo/swaps), sample 7, score {"extractor":"first"}: value is 1.0, in 's.sqlite' 0.0"
std::string in_words(const Conflict& c, const std::string& shard) {
  std::string text;
  if (!c.cell_key.empty()) text += concat("cell ", c.cell_key.substr(0, 12), " (", c.plugin, ", ", c.task, "), ");
  if (c.sample >= 0) text += concat("sample ", c.sample, ", ");
  text += c.table + (c.row_key.empty() ? "" : " " + c.row_key) + ": ";
  constexpr size_t kMostBytes = 200;
  const auto brief = [](const std::string& value) {
    return value.size() <= kMostBytes ? value : value.substr(0, kMostBytes) + "...";
  };
  text += c.column.empty() ? "the row is " : c.column + " is ";
  return in_one_line(concat(text, brief(c.kept), ", in '", shard, "' ", brief(c.other)));
}

class MergeRun {
 public:
  explicit MergeRun(const MergeArguments& arguments)
      : out_(arguments.out), shards_(shard_paths(arguments.shards, arguments.out)), store_(open_store(arguments.out)) {
    store_.database().execute(
        "PRAGMA cache_size = -262144");  // KiB: the places that keys fall on are all over the file
  }

  // The next shard is checked while one is merged.
  int run() {
    std::future<void> next = check(0);
    for (size_t i = 0; i < shards_.size(); ++i) {
      auto checked = std::move(next);
      if (i + 1 < shards_.size()) next = check(i + 1);
      const auto shard = shards_[i].string();
      show(i);
      try {
        checked.get();
        report(shard, merge_shard(store_.database(), shard));
      } catch (const Error& error) {
        if (!checked_is_to_blame(error)) throw;
        progress_.make_room();
        std::fprintf(stderr, "kvc: skipped: %s\n", one_line(error.what()).c_str());
        ++n_skipped_;
      }
    }
    return end();
  }

 private:
  std::future<void> check(size_t i) const {
    return std::async(std::launch::async, [path = shards_[i]] { check_shard_or_tell(path); });
  }

  // A damaged file is the shard's fault and no reason to end, as one of the database that is merged into would be.
  static void check_shard_or_tell(const std::filesystem::path& path) {
    try {
      check_shard(path);
    } catch (const std::exception& error) {
      throw Error(said_by(error));
    }
  }
  static bool checked_is_to_blame(const Error& error) {
    return dynamic_cast<const EnvironmentError*>(&error) == nullptr;
  }

  void show(size_t i) {
    ProgressState state;
    state.n_done = static_cast<int64_t>(i), state.n_total = static_cast<int64_t>(shards_.size());
    state.unit = "shards";
    state.seconds_left = left_by_count(state.n_done, state.n_total, progress_.seconds_so_far());
    state.doing = shards_[i].filename().string();
    progress_.show(state);
  }

  void report(const std::string& shard, const ShardCounts& n) {
    progress_.make_room();
    std::printf("%s: %ld cells, %ld samples new, %ld there already", shard.c_str(), n.n_cells, n.n_new, n.n_there);
    if (n.n_replaced > 0) std::printf(", %ld of the new in place of failed ones", n.n_replaced);
    if (n.n_conflicts > 0) std::printf(", %ld conflicts", n.n_conflicts);
    std::printf("\n");
    std::fflush(stdout);
    for (const auto& conflict : n.conflicts) {
      std::fprintf(stderr, "conflict: %s\n", in_words(conflict, shard).c_str());
    }
    const auto n_more = n.n_conflicts - static_cast<int64_t>(n.conflicts.size());
    if (n_more > 0) std::fprintf(stderr, "conflict: %ld more in '%s'\n", n_more, shard.c_str());
    n_new_ += n.n_new, n_conflicts_ += n.n_conflicts;
  }

  int end() {
    progress_.make_room();
    const auto n_cells = store_.database().integer("SELECT count(*) FROM cell");
    const auto n_samples = store_.database().integer("SELECT count(*) FROM sample");
    std::printf("%s: %ld cells, %ld samples, %ld of them new\n", out_.c_str(), n_cells, n_samples, n_new_);
    if (n_conflicts_ > 0) {
      std::fprintf(
          stderr, "kvc: %ld conflicts: existing rows are kept, both sides are in the table `conflicts` (`kvc query`)\n",
          n_conflicts_);
    }
    if (n_skipped_ > 0) std::fprintf(stderr, "kvc: %ld of %zu shards skipped\n", n_skipped_, shards_.size());
    return n_skipped_ > 0 ? kUsage : n_conflicts_ > 0 ? kConflict : kOk;
  }

  std::string out_;
  std::vector<std::filesystem::path> shards_;
  ResultStore store_;
  Progress progress_;
  int64_t n_new_ = 0, n_conflicts_ = 0, n_skipped_ = 0;
};

}  // namespace

void add_merge_verb(Verb program) {
  auto arguments = std::make_shared<MergeArguments>();
  auto verb = program.add_subcommand(
      "merge", "Merges the databases of shards into one; rows that disagree are recorded as conflicts");
  verb.add_option("out", arguments->out, "results database; created if missing").required();
  verb.add_option("shards", arguments->shards,
                  "databases, also packed ones (.sqlite.xz), folders or patterns; running shards may be merged, and "
                  "merged again later")
      .required();
  verb.on_call([arguments] { return MergeRun(*arguments).run(); });
}

}  // namespace kvc
