// The sections of a report. Each returns its HTML, or "" where the database has nothing for it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "report/report.h"
#include "store/database.h"

namespace kvc {

// One cell's headline score and bytes, as results/tables/summary.sql has them.
struct ScoredCell {
  std::string key, task, extractor;
  int64_t n_ok = 0;
  double kv_bytes = 0, kv_bytes_fp16 = 0;
  bool has_score = false;
  double score = 0, low = 0, high = 0;  // percent
};

struct ReportData {
  Database& db;
  const ReportOptions& options;
  std::vector<CellGroup> groups;  // compressors, in the order of the summary; suspects are out unless asked for
  bool many_models = false;
  std::map<std::string, ScoredCell> cells;  // by key, those of `groups`
  std::vector<std::string> tasks;
  std::string label(const CellGroup& group) const;
};

std::string pareto_section(const ReportData& data);
std::string compare_section(const ReportData& data);
std::string bytes_section(const ReportData& data);
std::string error_section(const ReportData& data);
std::string memory_section(const ReportData& data);
std::string extra_sections(const ReportData& data);  // stages, searches, times, capacities
std::string provenance_section(const ReportData& data);

struct SampleSection {
  std::string html;
  int64_t n_embedded = 0;
  size_t bytes = 0;
};
SampleSection sample_section(const ReportData& data);

}  // namespace kvc
