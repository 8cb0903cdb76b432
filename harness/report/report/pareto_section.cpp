// Accuracy against measured bytes: one chart a task and one over the tasks, and the tables behind them.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "analysis/entries.h"
#include "analysis/interval_text.h"
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
  point.interval = mean.interval;
  return point;
}

std::vector<ParetoPoint> points_of_task(const ReportData& data, const std::string& task) {
  std::vector<ParetoPoint> points;
  for (const auto& group : data.groups) {
    const auto key = group.cells.find(task);
    if (key == group.cells.end()) continue;
    const auto& cell = data.cells.at(key->second);
    if (!cell.has_score || cell.kv_bytes_fp16 <= 0) continue;
    points.push_back(point_of(data, group, cell.kv_bytes, cell.kv_bytes_fp16, {cell.score, cell.interval}));
    points.back().cell_key = cell.key;
  }
  return points;
}

// What a task's scores are, by any of its cells.
std::string measure_of(const ReportData& data, const std::string& task) {
  for (const auto& [key, cell] : data.cells) {
    if (cell.task == task && cell.has_score) return cell.measure == "top-1" ? "top-1 agreement" : cell.measure;
  }
  return "";
}

// Compressors that have a score in every one of the tasks, which count alike.
std::vector<ParetoPoint> points_of_all(const ReportData& data, const std::set<std::string>& tasks) {
  std::vector<ParetoPoint> points;
  for (const auto& group : data.groups) {
    std::vector<Mean> means;
    double kv_bytes = 0, kv_bytes_fp16 = 0;
    for (const auto& [task, key] : group.cells) {
      const auto& cell = data.cells.at(key);
      if (!cell.has_score || !tasks.contains(task)) continue;
      means.push_back({cell.score, cell.interval});
      kv_bytes += cell.kv_bytes;
      kv_bytes_fp16 += cell.kv_bytes_fp16;
    }
    if (means.size() != tasks.size() || kv_bytes_fp16 <= 0) continue;
    points.push_back(point_of(data, group, kv_bytes, kv_bytes_fp16, mean_of(means)));
  }
  return points;
}

std::string chart_of(const std::vector<std::string>& methods, const std::string& title, const std::string& measure,
                     const std::vector<ParetoPoint>& points) {
  XyChart chart{title, "KV size, measured [% of 16 bits]", measure + " [%]", {}};
  std::map<std::string, size_t> series;  // by plugin
  for (const auto& point : points) {
    const auto [place, is_new] = series.emplace(point.plugin, chart.series.size());
    if (is_new) {
      const auto method = static_cast<size_t>(std::ranges::find(methods, point.plugin) - methods.begin());
      chart.series.push_back({point.plugin, {}, method});
    }
    const auto [low, high] = point.interval.value_or(Interval{point.score, point.score});
    const auto text = concat(point.label, "\nKV ", short_number(point.kv_percent), " %, ", measure, " ",
                             with_interval(point.score, point.interval, short_number), " %",
                             point.is_dominated ? "" : "\non the Pareto front");
    chart.series[place->second].points.push_back(
        {point.kv_percent, point.score, low, high, text, cell_link(point.cell_key), point.is_dominated});
  }
  chart.front = front_of(points);
  return draw(chart);
}

Table table_of(const std::string& measure, const std::vector<ParetoPoint>& points) {
  constexpr auto kRight = TableColumn::Align::kRight;
  Table table;
  table.columns = {{"compressor"},
                   {"KV size", kRight, "%", 1},
                   {measure, kRight, "%", 1},
                   {"low", kRight, "%", 1},
                   {"high", kRight, "%", 1},
                   {"front"},
                   {"cell"}};
  for (const auto& point : points) {
    const auto end = [&](double Interval::*bound) {
      return point.interval ? TableCell((*point.interval).*bound) : TableCell();
    };
    table.rows.push_back({point.label, point.kv_percent, point.score, end(&Interval::low), end(&Interval::high),
                          std::string(point.is_dominated ? "" : "on the Pareto front"), point.cell_key});
  }
  return table;
}

std::string details(const std::string& summary, const std::string& body) {
  return concat("<details><summary>", escape_html(summary), "</summary>", body, "</details>\n");
}

std::string part(const std::vector<std::string>& methods, const std::string& title, const std::string& measure,
                 std::vector<ParetoPoint> points) {
  if (points.empty()) return "";
  mark_dominated(points);
  const auto area = concat("Hypervolume: ", short_number(hypervolume(points)));
  return concat(chart_of(methods, title, measure, points),
                details(concat("The ", points.size(), " points of ", title, "; ", area),
                        html_table(table_of(measure, points), 6)));
}

}  // namespace

std::string pareto_section(const ReportData& data) {
  std::string body;
  const auto methods = stored_methods(data.db);
  std::map<std::string, std::string> measures;
  std::set<std::string> answered;  // whose mean says something
  for (const auto& task : data.tasks) {
    measures[task] = measure_of(data, task);
    if (!measures[task].empty() && measures[task] != "top-1 agreement") answered.insert(task);
  }
  if (answered.size() > 1) {
    body += part(methods, concat("mean of ", answered.size(), " tasks"), "score", points_of_all(data, answered));
  }
  for (const auto& task : data.tasks) body += part(methods, task, measures[task], points_of_task(data, task));
  if (body.empty()) return "";
  const std::string about =
      "<p>Filled: on the Pareto front; hollow: another compressor is no larger and scores no less. Bars: 95 % "
      "intervals: of accuracies Wilson's, of graded scores a bootstrap, of running text windows and blocks of tokens "
      "resampled (none for fewer than 5 windows); for a mean over tasks, their half-widths are combined in quadrature. "
      "Hypervolume: fraction of the area up to 100 % size and a score of 100 % that the front dominates.</p>\n";
  return section("pareto", "Score against measured size", about + body);
}

}  // namespace kvc
