// Generations side by side: those samples of each task on which the compressors differ most, as JSON for the page.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "report/html.h"
#include "report/sections.h"
#include "text/json.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kPromptEnd = 1500;  // code points of a prompt that are shown

struct Spread {
  int64_t sample = 0;
  double n = 0, sum = 0, squares = 0;
  double variance() const { return squares / n - (sum / n) * (sum / n); }
};

// The samples that most compressors have, of these those whose scores vary most.
std::vector<int64_t> chosen_samples(const ReportData& data, const std::string& task) {
  std::map<int64_t, Spread> by_sample;
  auto select = data.db.prepare(
      "SELECT s.sample, s.value FROM score AS s JOIN sample USING (cell_key, sample)"
      " WHERE s.cell_key = ? AND s.position = 0 AND sample.status = 'ok'");
  for (const auto& group : data.groups) {
    const auto cell = group.cells.find(task);
    if (cell == group.cells.end()) continue;
    for (select.bind(1, cell->second); select.step();) {
      auto& spread = by_sample[select.integer(0)];
      spread.sample = select.integer(0);
      const double value = select.real(1);
      spread.n += 1;
      spread.sum += value;
      spread.squares += value * value;
    }
    select.reset();
  }
  std::vector<Spread> all;
  for (const auto& [sample, spread] : by_sample) all.push_back(spread);
  std::stable_sort(all.begin(), all.end(), [](const Spread& a, const Spread& b) {
    return a.n != b.n ? a.n > b.n : a.variance() > b.variance() + 1e-12;
  });
  std::vector<int64_t> samples;
  for (const auto& spread : all) {
    if (samples.size() < static_cast<size_t>(data.options.samples_per_task)) samples.push_back(spread.sample);
  }
  std::sort(samples.begin(), samples.end());
  return samples;
}

// A prompt's last code points; what stands before them is counted.
Json prompt_of(const std::string& prompt) {
  const auto points = to_code_points_replacing(prompt);
  const size_t cut = points.size() > kPromptEnd ? points.size() - kPromptEnd : 0;
  return {{"cut", cut}, {"text", to_utf8(points.substr(cut))}};
}

// Tokens behind a generation's end (a stop string is cut off) become "". False where the tokens are not its tokens.
bool cut_to(const std::string& generation, std::vector<std::string>& tokens) {
  std::string all;
  for (auto& token : tokens) {
    const auto left = generation.size() - std::min(generation.size(), all.size());
    all += token;
    token.resize(std::min(token.size(), left));
  }
  return !tokens.empty() && all.starts_with(generation);
}

// What the mark stands for; `n` generations, of which the tokens' texts of some are not at hand.
std::string what_is_marked(int64_t n, int64_t n_by_character) {
  const std::string after = ", and the text after it is highlighted.</p>\n";
  const std::string why = "the model's tokenizer is not available";
  if (n_by_character == 0) return "The first divergent token is marked" + after;
  if (n_by_character == n) return concat("The first divergent character is marked (", why, ")", after);
  return concat("The first divergent token is marked, in ", n_by_character, " of them the first divergent character (",
                why, ")", after);
}

class SampleWriter {
 public:
  explicit SampleWriter(const ReportData& data)
      : data_(data),
        select_(data.db.prepare(
            "SELECT s.generation, s.token_ids_json, s.n_prompt_tokens, s.n_new_tokens, s.stop_reason, s.kv_bytes,"
            " s.kv_bytes_fp16, s.gold, text.body, score.answer, score.value, score.extractor"
            " FROM sample AS s JOIN text ON text.sha256 = s.prompt_sha256"
            " LEFT JOIN score ON score.cell_key = s.cell_key AND score.sample = s.sample AND score.position = 0"
            " WHERE s.cell_key = ? AND s.sample = ? AND s.status = 'ok'")) {}

  // {"sample", "gold", "prompt", "answers": {group's index: ...}}; another model's prompt may differ, so it is the
  // first's.
  Json sample(const std::string& task, int64_t number) {
    Json json = {{"sample", number}, {"gold", ""}, {"prompt", nullptr}, {"answers", Json::object()}};
    for (size_t i = 0; i < data_.groups.size(); ++i) {
      const auto cell = data_.groups[i].cells.find(task);
      if (cell == data_.groups[i].cells.end()) continue;
      select_.bind(1, cell->second).bind(2, number);
      if (select_.step()) {
        json["gold"] = select_.text(7);
        if (json["prompt"].is_null()) json["prompt"] = prompt_of(select_.text(8));
        json["answers"][concat(i)] = answer(data_.groups[i], cell->second);
        ++n_;
      }
      select_.reset();
    }
    return json;
  }

  int64_t n() const { return n_; }
  int64_t n_by_character() const { return n_by_character_; }  // whose tokens' texts are not known

 private:
  Json answer(const CellGroup& group, const std::string& key) {
    const auto ids = try_json<Json>(select_.text(1));
    Json answer = {
        {"cell", cell_anchor(key)}, {"text", select_.text(0)}, {"ids", ids.is_array() ? ids : Json::array()}};
    answer["n_prompt_tokens"] = select_.integer(2);
    answer["n_new_tokens"] = select_.integer(3);
    answer["stop"] = select_.text(4);
    answer["kv_bytes"] = select_.integer(5);
    answer["kv_bytes_fp16"] = select_.integer(6);
    if (!select_.is_null(10)) answer["score"] = select_.real(10);
    if (!select_.is_null(9)) answer["answer"] = select_.text(9);
    if (data_.options.token_texts) {
      auto texts = data_.options.token_texts(group.model_label, key, answer["ids"].get<std::vector<int64_t>>());
      if (cut_to(select_.text(0), texts)) answer["tokens"] = texts;
    }
    n_by_character_ += !answer.contains("tokens");
    return answer;
  }

  const ReportData& data_;
  Statement select_;
  int64_t n_ = 0, n_by_character_ = 0;
};

constexpr const char* kControls = R"(<p class="controls"><label>Task <select id="s-task"></select></label>
<label>Sample <select id="s-sample"></select></label>
<label>Left <select id="s-left"></select></label>
<label>Right <select id="s-right"></select></label></p>
<div id="s-view"><p>This part needs JavaScript.</p></div>
)";

}  // namespace

SampleSection sample_section(const ReportData& data) {
  if (data.groups.empty() || data.options.samples_per_task < 1) return {};
  SampleWriter writer(data);
  Json page = {{"groups", Json::array()}, {"tasks", Json::array()}};
  for (const auto& group : data.groups) page["groups"].push_back(data.label(group));
  for (const auto& task : data.tasks) {
    Json samples = Json::array();
    for (const auto sample : chosen_samples(data, task)) samples.push_back(writer.sample(task, sample));
    if (!samples.empty()) page["tasks"].push_back({{"name", task}, {"samples", std::move(samples)}});
  }
  if (page["tasks"].empty()) return {};
  const auto json = script_json(page.dump(-1, ' ', false, Json::error_handler_t::replace));
  SampleSection made{"", writer.n(), json.size()};
  const auto about =
      concat("<p>Up to ", data.options.samples_per_task, " samples per task, those with the most different scores; ",
             made.n_embedded, " generations are in this page, ", made.bytes / static_cast<size_t>(made.n_embedded),
             " bytes each. ", what_is_marked(made.n_embedded, writer.n_by_character()));
  made.html =
      section("samples", "Generations side by side",
              concat(about, kControls, "<script type=\"application/json\" id=\"sample-data\">", json, "</script>\n"));
  return made;
}

}  // namespace kvc
