// What caches hold by kind, how far they are off, and what the peak of memory is made of.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "kvc/check.h"
#include "report/charts.h"
#include "report/html.h"
#include "report/sections.h"

namespace kvc {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

using Values = std::map<std::string, double>;

std::vector<BarChart::Bar> bars_of(const ReportData& data, const std::vector<Values>& by_group,
                                   const std::vector<std::string>& parts) {
  std::vector<BarChart::Bar> bars;
  for (size_t i = 0; i < data.groups.size(); ++i) {
    if (by_group[i].empty()) continue;
    BarChart::Bar bar{data.label(data.groups[i]), {}};
    for (const auto& part : parts) {
      const auto found = by_group[i].find(part);
      bar.values.push_back(found == by_group[i].end() ? kNone : found->second);
    }
    bars.push_back(std::move(bar));
  }
  return bars;
}

// Bytes by kind of each group, in percent of 16-bit storage of the same tokens.
std::vector<Values> kind_shares(const ReportData& data, std::vector<std::string>& kinds) {
  auto select = data.db.prepare("SELECT kind, sum(bytes) FROM kv_bytes WHERE cell_key = ? GROUP BY kind");
  std::vector<Values> shares(data.groups.size());
  Values totals;
  for (size_t i = 0; i < data.groups.size(); ++i) {
    double exact = 0;
    for (const auto& [task, key] : data.groups[i].cells) exact += data.cells.at(key).kv_bytes_fp16;
    for (const auto& [task, key] : data.groups[i].cells) {
      for (select.bind(1, key); exact > 0 && select.step();) {
        shares[i][select.text(0)] += 100 * select.real(1) / exact;
        totals[select.text(0)] += 100 * select.real(1) / exact;
      }
      select.reset();
    }
  }
  for (const auto& [kind, total] : totals) kinds.push_back(kind);
  std::sort(kinds.begin(), kinds.end(), [&](const auto& a, const auto& b) { return totals[a] > totals[b]; });
  return shares;
}

// Means over the ok samples of a group's cells.
std::vector<Values> sample_errors(const ReportData& data) {
  auto select = data.db.prepare(
      "SELECT sum(k_error), count(k_error), sum(v_error), count(v_error) FROM sample WHERE cell_key = ? AND status = "
      "'ok'");
  std::vector<Values> errors(data.groups.size());
  for (size_t i = 0; i < data.groups.size(); ++i) {
    double k = 0, n_k = 0, v = 0, n_v = 0;
    for (const auto& [task, key] : data.groups[i].cells) {
      select.bind(1, key);
      if (select.step()) {
        k += select.real(0);
        n_k += select.real(1);
        v += select.real(2);
        n_v += select.real(3);
      }
      select.reset();
    }
    if (n_k > 0) errors[i]["K"] = k / n_k;
    if (n_v > 0) errors[i]["V"] = v / n_v;
  }
  return errors;
}

struct LayerMeasure {
  const char *measure, *name;
};

// Norms that a probe takes layer by layer.
constexpr LayerMeasure kLayerMeasures[] = {{"rel_fro", "relative Frobenius error"},
                                           {"score_rel_sq", "relative squared error of attention scores"},
                                           {"output_rel_fro", "relative Frobenius error of the attention output"}};

// One chart a tensor: lines by compressor, means over samples, heads and steps.
std::string layer_charts(const ReportData& data, const LayerMeasure& measure) {
  auto select = data.db.prepare(
      "SELECT p.tensor, c.model, c.plugin, c.options_label, p.layer, avg(p.value) FROM probe AS p"
      " JOIN cell AS c ON c.key = p.cell_key"
      " WHERE p.measure = ?1 AND p.layer >= 0 AND (?2 = 'all' OR p.cell_key IN"
      " (SELECT cell_key FROM experiment_cell WHERE experiment = ?2))"
      " GROUP BY p.tensor, c.model, c.is_lossy, c.plugin, c.bits, c.options_label, p.layer"
      " ORDER BY p.tensor, c.model, c.is_lossy, c.plugin, c.bits DESC, c.options_label, p.layer");
  select.bind(1, std::string(measure.measure)).bind(2, data.options.experiment);
  std::map<std::string, XyChart> charts;  // by tensor
  while (select.step()) {
    auto& chart = charts[select.text(0)];
    const auto options = select.text(3);
    const auto label = concat(select.text(2), options.empty() ? "" : " ", options);
    const auto name = data.many_models ? concat(select.text(1), ": ", label) : label;
    if (chart.series.empty() || chart.series.back().name != name) chart.series.push_back({name, {}});
    const double value = select.is_null(5) ? kNone : select.real(5);
    const auto layer = select.integer(4);
    chart.series.back().points.push_back(
        {static_cast<double>(layer), value, value, value, concat(name, "\nlayer ", layer, ": ", value)});
  }
  std::string body;
  for (auto& [tensor, chart] : charts) {
    chart.title = concat(measure.name, ", ", tensor, ", by layer");
    chart.x_name = "layer";
    chart.y_name = measure.measure;
    chart.lines = true;
    body += draw(chart);
  }
  return body;
}

// The parts of the peak in that sample of the group that has the highest, in MiB.
std::vector<Values> peaks(const ReportData& data, bool& has_other) {
  constexpr double kMiB = 1024.0 * 1024.0;
  auto select = data.db.prepare(
      "SELECT peak_weights_bytes, peak_kv_bytes, peak_workspace_bytes, peak_other_bytes,"
      " max(peak_weights_bytes + peak_kv_bytes + peak_workspace_bytes + ifnull(peak_other_bytes, 0)) AS peak"
      " FROM sample WHERE cell_key = ? AND status = 'ok'");
  std::vector<Values> peaks(data.groups.size());
  for (size_t i = 0; i < data.groups.size(); ++i) {
    double highest = 0;
    for (const auto& [task, key] : data.groups[i].cells) {
      select.bind(1, key);
      if (select.step() && !select.is_null(4) && select.real(4) > highest) {
        highest = select.real(4);
        peaks[i] = {{"weights", select.real(0) / kMiB},
                    {"KV", select.real(1) / kMiB},
                    {"workspace", select.real(2) / kMiB},
                    {"other", select.real(3) / kMiB}};
        has_other |= select.real(3) > 0;
      }
      select.reset();
    }
  }
  return peaks;
}

}  // namespace

std::string bytes_section(const ReportData& data) {
  std::vector<std::string> kinds;
  const auto shares = kind_shares(data, kinds);
  if (kinds.empty()) return "";
  BarChart chart{"cache size at the end of a sample, by kind", "fraction of the same tokens at 16 bits [%]", kinds,
                 bars_of(data, shares, kinds)};
  return section("bytes", "Composition of the caches", draw(chart));
}

std::string error_section(const ReportData& data) {
  std::string body;
  for (const auto& measure : kLayerMeasures) body += layer_charts(data, measure);
  const auto errors = sample_errors(data);
  BarChart chart{"error of the prompt's K and V, mean over samples",
                 "relative Frobenius norm",
                 {"K", "V"},
                 bars_of(data, errors, {"K", "V"})};
  chart.stacked = false;
  body += draw(chart);
  return body.empty() ? "" : section("error", "Reconstruction error", body);
}

std::string memory_section(const ReportData& data) {
  bool has_other = false;
  const auto by_group = peaks(data, has_other);
  std::vector<std::string> parts = {"KV", "workspace", "weights"};
  if (has_other) parts.push_back("other");
  BarChart chart{"the sample with the highest peak, by part", "MiB", parts, bars_of(data, by_group, parts)};
  const auto body = draw(chart);
  return body.empty() ? "" : section("memory", "Peak memory", body);
}

}  // namespace kvc
