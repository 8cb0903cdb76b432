// What every number stands on: each cell's hashes, settings, and the machines and builds that computed it.
#include <map>
#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "render/escape.h"
#include "report/html.h"
#include "report/sections.h"
#include "report/svg.h"
#include "text/json.h"

namespace kvc {
namespace {

// Texts that many cells share, each shown once, in the order they came.
class SharedTexts {
 public:
  explicit SharedTexts(std::string name) : name_(std::move(name)) {}

  std::string link(const std::string& text) {
    const auto [place, is_new] = numbers_.emplace(text, texts_.size() + 1);
    if (is_new) texts_.push_back(text);
    return concat("<a href=\"#", name_, "-", place->second, "\">", name_, " ", place->second, "</a>");
  }

  std::string html() const {
    std::string html;
    for (size_t i = 0; i < texts_.size(); ++i) {
      const auto json = try_json<nlohmann::ordered_json>(texts_[i]);
      const auto text =
          json.is_discarded() ? texts_[i] : json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
      html += concat("<details id=\"", name_, "-", i + 1, "\"><summary>", name_, " ", i + 1, "</summary><pre>",
                     escape_html(text), "</pre></details>\n");
    }
    return html;
  }

 private:
  std::string name_;
  std::map<std::string, size_t> numbers_;
  std::vector<std::string> texts_;
};

std::string td(const std::string& html, const std::string& attributes = "") {
  return "<td" + attributes + ">" + html + "</td>";
}

std::string code(const std::string& text) { return "<code>" + escape_html(text) + "</code>"; }

class CellList {
 public:
  explicit CellList(const ReportData& data)
      : data_(data),
        machines_of_(
            data.db.prepare("SELECT provenance_json FROM cell_provenance WHERE cell_key = ? ORDER BY sha256")) {}

  std::string html() {
    auto select = data_.db.prepare(
        "SELECT key, kind, model, task, plugin, plugin_sha256, options_json, generation_json, model_json,"
        " json_patch(task_json, scoring_json)"
        " FROM cell WHERE ?1 = 'all' OR key IN (SELECT cell_key FROM experiment_cell WHERE experiment = ?1)"
        " ORDER BY model, task, is_lossy, plugin, bits DESC, options_label, key");
    select.bind(1, data_.options.experiment);
    std::string rows;
    while (select.step()) rows += row(select);
    return concat("<div class=\"wide\"><table class=\"sortable\"><thead><tr>", heading("cell"), heading("kind"),
                  heading("model"), heading("task"), heading("compressor"), heading("options"), heading("binary"),
                  heading("weights"), heading("task file"), heading("generation"), heading("computed by"),
                  "</tr></thead><tbody>\n", rows, "</tbody></table></div>\n", weights_.html(), tasks_.html(),
                  settings_.html(), machines_.html());
  }

 private:
  static std::string heading(const std::string& name) {
    return "<th><button type=\"button\">" + name + "</button></th>";
  }

  std::string row(const Statement& cell) {
    const auto key = cell.text(0);
    std::string machines;
    for (machines_of_.bind(1, key); machines_of_.step();) {
      machines += (machines.empty() ? "" : ", ") + machines_.link(machines_of_.text(0));
    }
    machines_of_.reset();
    return concat(
        "<tr id=\"", cell_anchor(key), "\">",
        td(concat("<code class=\"k\" title=\"", escape_html(key), "\">", escape_html(key.substr(0, 12)), "</code>")),
        td(escape_html(cell.text(1))), td(escape_html(cell.text(2))), td(escape_html(cell.text(3))),
        td(escape_html(cell.text(4))), td(code(cell.text(6)), " class=\"long\""),
        td("<code class=\"k\">" + escape_html(cell.text(5).substr(0, 12)) + "</code>"), td(weights_.link(cell.text(8))),
        td(tasks_.link(cell.text(9))), td(settings_.link(cell.text(7))), td(machines), "</tr>\n");
  }

  const ReportData& data_;
  Statement machines_of_;
  SharedTexts weights_{"weights"}, tasks_{"task-file"}, settings_{"generation"}, machines_{"machine"};
};

}  // namespace

std::string provenance_section(const ReportData& data) {
  const std::string about =
      "<p>Cell: one compressor configuration on one task and model. Its key is a hash of everything that can change "
      "generations: weights, tokenizer, task, data, the compressor's binary and options, and generation settings; "
      "scoring "
      "is not part of it. Binary: the first digits of its SHA-256.</p>\n";
  return section("provenance", "Provenance", about + CellList(data).html());
}

}  // namespace kvc
