#include "experiment/named_files.h"

#include <algorithm>

#include "task/task_yaml.h"
#include "text/files.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void add(const fs::path& file, json& files) {
  if (fs::is_regular_file(file)) files[fs::absolute(file).lexically_normal().string()] = sha256_file(file);
}

// An option of kind file holds an absolute path by then.
void add(const CompressorChoice& compressor, json& files) {
  for (const auto& part : compressor.parts) add(part, files);
  if (!compressor.parts.empty()) return;
  for (const auto& [name, value] : compressor.options.items()) {
    if (value.is_string() && value.get<std::string>().starts_with('/')) add(fs::path(value.get<std::string>()), files);
  }
}

bool is_below(const fs::path& file, const fs::path& folder) {
  const auto relative = fs::weakly_canonical(file).lexically_relative(fs::weakly_canonical(folder));
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

json named_files(const Experiment& experiment, const WorkerSetUp& worker, const std::vector<fs::path>& task_files,
                 const Paths& paths) {
  auto files = json::object();
  for (const auto& text : experiment.texts) add(text, files);
  add(fs::path(worker.quantization.smoothing_file), files);
  for (const auto& compressor : worker.compressors) add(compressor, files);
  for (const auto& file : task_files) {
    if (!is_below(file, paths.root / "tasks")) add(file, files);
  }
  return files;
}

NamedFiles NamedFiles::read(Database& db, const std::string& cell_key) {
  NamedFiles named;
  auto select = db.prepare(
      "SELECT f.key, f.value FROM cell_provenance AS p, json_each(p.provenance_json, '$.files') AS f"
      " WHERE p.cell_key = ?");
  select.bind(1, cell_key);
  while (select.step()) named.files_.insert({select.text(0), select.text(1)});
  return named;
}

std::string NamedFiles::check(const std::string& what, const std::set<Found>& recorded) {
  std::string otherwise;
  for (const auto& [path, sha256] : recorded) {
    const auto now = fs::is_regular_file(path) ? sha256_file(path) : "gone";
    if (now == sha256) return path;
    otherwise = concat(what, " '", path, "': SHA-256 ", sha256, " when the cell was computed, now ", now);
  }
  throw Error(otherwise);
}

std::string NamedFiles::find(const std::string& what, const std::string& sha256) const {
  std::set<Found> recorded;
  for (const auto& file : files_) {
    if (file.second == sha256) recorded.insert(file);
  }
  KVC_CHECK(!recorded.empty(), what, " of SHA-256 ", sha256,
            ": the cell's provenance does not say where it is; `kvc run` with its experiment records that");
  return check(what, recorded);
}

bool NamedFiles::has(const std::string& sha256) const {
  return std::any_of(files_.begin(), files_.end(), [&](const auto& file) { return file.second == sha256; });
}

std::string NamedFiles::find_task(const std::string& name) const {
  std::set<Found> recorded;
  for (const auto& file : files_) {
    if (!file.first.ends_with(".yaml")) continue;
    if ((name + "/").starts_with(TaskId{file.first, ""}.name() + "/")) recorded.insert(file);
  }
  return recorded.empty() ? "" : check("task file", recorded);
}

}  // namespace kvc
