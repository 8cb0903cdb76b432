// Shards of one small experiment, and what they come to.
#pragma once

#include <cstdlib>

#include "merge/merge_shard.h"
#include "merge/shard.h"
#include "store_fixture.h"
#include "support/stable_dump.h"

namespace kvc {

class MergeTest : public StoreTest {
 protected:
  static constexpr int64_t kCells = 4, kSamples = 6;

  static std::string cell_name(int64_t cell) { return concat("cell", cell); }

  // Sample (cell, sample) is in shard (cell + sample) % n. upto: of an unfinished shard, how many samples of each cell.
  std::filesystem::path shard(const std::string& name, int64_t i, int64_t n, int64_t upto = kSamples) {
    const auto path = folder_ / name;
    auto store = ResultStore::open(path);
    for (int64_t c = 0; c < kCells; ++c) {
      auto cell = make_cell(cell_name(c), c % 2 ? "kivi" : "full", concat("task", c));
      cell.n_samples = kSamples;
      cell.provenance_json = concat("{\"host\":\"", name, "\"}");
      store.put_cell(cell);
      for (int64_t s = 0; s < upto; ++s) {
        if ((c + s) % n != i) continue;
        auto sample = make_sample(cell.key, s, static_cast<double>((c + s) % 2));
        sample.encode_seconds = static_cast<double>(i) + 0.25;  // the machine's
        store.put_sample(sample);
      }
    }
    return path;
  }

  // The file as `xz` packs it.
  std::filesystem::path packed(const std::filesystem::path& path) {
    const auto command = concat("xz --keep --force '", path.string(), "'");
    Database::open(path, Database::Mode::kReadWrite, 0).execute("PRAGMA wal_checkpoint(TRUNCATE)");
    EXPECT_EQ(std::system(command.c_str()), 0);
    return path.string() + ".xz";
  }

  std::string dump(const std::filesystem::path& path) {
    auto store = ResultStore::open_readonly(path);
    return stable_dump(store.database());
  }

  // One after the other, as the program does it.
  ShardCounts merge(const std::filesystem::path& out, const std::vector<std::filesystem::path>& shards) {
    auto store = ResultStore::open(out);
    ShardCounts last;
    for (const auto& path : shards) {
      check_shard(path);
      last = merge_shard(store.database(), path);
    }
    return last;
  }
};

}  // namespace kvc
