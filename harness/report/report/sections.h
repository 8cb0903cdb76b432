// The sections of a report. Each returns its HTML, or "" where the database has nothing for it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analysis/summary_rows.h"
#include "report/report.h"
#include "store/database.h"

namespace kvc {

struct ReportData {
  Database& db;
  const ReportOptions& options;
  std::vector<CellGroup> groups;  // compressors, in the order of the summary; suspects are out unless asked for
  bool many_models = false;
  std::map<std::string, SummaryRow> cells;  // by key, those of `groups`
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
