// A shard: an ordinary results database whose rows another one takes over.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "store/database.h"
#include "text/temporary_folder.h"

namespace kvc {

// What the arguments name: files as they are, the *.sqlite and *.sqlite.xz of folders, and what patterns ('shards/*.sqlite') fit, in
// order; `out` is left out of folders and patterns. Throws Error for a folder or pattern without any, and for `out`
// itself.
std::vector<std::filesystem::path> shard_paths(const std::vector<std::string>& arguments,
                                               const std::filesystem::path& out);

// Throws Error, naming the file and what is wrong: none is there, no database, another program's, another schema, no
// whole one. A writer may go on meanwhile.
void check_shard(const std::filesystem::path& path);

// The file as the schema `shard` of the connection, for reading, as long as this lives. One of the write-ahead log is
// read where it is: each transaction sees one state of it, and its writer goes on. Of another, whose writer a reader
// would keep waiting, and of a packed one a temporary copy is made.
class AttachedShard {
 public:
  AttachedShard(Database& db, const std::filesystem::path& path);
  ~AttachedShard();
  AttachedShard(const AttachedShard&) = delete;
  AttachedShard& operator=(const AttachedShard&) = delete;

 private:
  Database& db_;
  TemporaryFolder unpacked_in_;
};

}  // namespace kvc
