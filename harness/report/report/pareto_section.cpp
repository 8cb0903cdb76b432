// Accuracy against measured bytes: one chart a task and one over the tasks, and the tables behind them.
#include <map>
#include <optional>

#include "kvc/check.h"
#include "render/escape.h"
#include "report/charts.h"
#include "report/html.h"
#include "report/pareto.h"
#include "report/sections.h"
#include "report/svg.h"

namespace kvc {
namespace {

ParetoPoint point_of(const ReportData& data, const CellGroup& group, double kv_bytes, double kv_bytes_fp16,
                     const Mean& mean) {
  ParetoPoint point;
  point.label = data.label(group);
  point.plugin = group.plugin;
  point.cell_key = group.cells.begin()->second;
  point.kv_percent = 100 * kv_bytes / kv_bytes_fp16;
  point.score = mean.score;
  point.low = mean.low;
  point.high = mean.high;
  return point;
}

std::vector<ParetoPoint> points_of_task(const ReportData& data, const std::string& task) {
  std::vector<ParetoPoint> points;
  for (const auto& group : data.groups) {
    const auto key = group.cells.find(task);
    if (key == group.cells.end()) continue;
    const auto& cell = data.cells.at(key->second);
    if (!cell.has_score || cell.kv_bytes_fp16 <= 0) continue;
    points.push_back(point_of(data, group, cell.kv_bytes, cell.kv_bytes_fp16, {cell.score, cell.low, cell.high}));
    points.back().cell_key = cell.key;
  }
  return points;
}

// Compressors that have a score in every task; their tasks' accuracies count alike.
std::vector<ParetoPoint> points_of_all(const ReportData& data) {
  std::vector<ParetoPoint> points;
  for (const auto& group : data.groups) {
    std::vector<Mean> means;
    double kv_bytes = 0, kv_bytes_fp16 = 0;
    for (const auto& [task, key] : group.cells) {
      const auto& cell = data.cells.at(key);
      if (!cell.has_score) continue;
      means.push_back({cell.score, cell.low, cell.high});
      kv_bytes += cell.kv_bytes;
      kv_bytes_fp16 += cell.kv_bytes_fp16;
    }
    if (means.size() != data.tasks.size() || kv_bytes_fp16 <= 0) continue;
    points.push_back(point_of(data, group, kv_bytes, kv_bytes_fp16, mean_of(means)));
  }
  return points;
}

std::string chart_of(const std::string& title, const std::vector<ParetoPoint>& points) {
  XyChart chart{title, "KV size, measured [% of 16 bits]", "accuracy [%]", {}};
  std::map<std::string, size_t> series;  // by plugin
  for (const auto& point : points) {
    const auto [place, is_new] = series.emplace(point.plugin, chart.series.size());
    if (is_new) chart.series.push_back({point.plugin, {}});
    const auto text = concat(point.label, "\nKV ", short_number(point.kv_percent), " %, accuracy ",
                             short_number(point.score), " [", short_number(point.low), ", ", short_number(point.high),
                             "] %", point.is_dominated ? "" : "\non the Pareto front");
    chart.series[place->second].points.push_back(
        {point.kv_percent, point.score, point.low, point.high, text, cell_link(point.cell_key), point.is_dominated});
  }
  chart.front = front_of(points);
  return draw(chart);
}

Table table_of(const std::string& title, const std::vector<ParetoPoint>& points) {
  constexpr auto kRight = TableColumn::Align::kRight;
  Table table;
  table.title = title;
  table.columns = {{"compressor"},
                   {"KV size", kRight, "%", 1},
                   {"accuracy", kRight, "%", 1},
                   {"low", kRight, "%", 1},
                   {"high", kRight, "%", 1},
                   {"front"},
                   {"cell"}};
  for (const auto& point : points) {
    table.rows.push_back({point.label, point.kv_percent, point.score, point.low, point.high,
                          std::string(point.is_dominated ? "" : "on the Pareto front"), point.cell_key});
  }
  return table;
}

std::string details(const std::string& summary, const std::string& body) {
  return concat("<details><summary>", escape_html(summary), "</summary>", body, "</details>\n");
}

std::string part(const std::string& title, std::vector<ParetoPoint> points) {
  if (points.empty()) return "";
  mark_dominated(points);
  const auto area = concat("Hypervolume: ", short_number(hypervolume(points)));
  return concat(chart_of(title, points), details(concat("The ", points.size(), " points of ", title, "; ", area),
                                                 html_table(table_of("", points), 6)));
}

}  // namespace

std::string pareto_section(const ReportData& data) {
  std::string body;
  if (data.tasks.size() > 1) {
    body += part(concat("mean of ", data.tasks.size(), " tasks"), points_of_all(data));
  }
  for (const auto& task : data.tasks) body += part(task, points_of_task(data, task));
  if (body.empty()) return "";
  const std::string about =
      "<p>Filled: on the Pareto front; hollow: another compressor is no larger and no less accurate. Bars: 95 % "
      "intervals, Wilson's, or bootstrap for graded scores; for a mean over tasks, their half-widths are combined in "
      "quadrature. Hypervolume: fraction of the area up to 100 % size and 100 % accuracy that the front "
      "dominates.</p>\n";
  return section("pareto", "Accuracy against measured size", about + body);
}

}  // namespace kvc
