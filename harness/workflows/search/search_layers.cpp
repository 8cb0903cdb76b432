#include "search/search_layers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "experiment/open_compressor.h"
#include "plugin_loader/plugin_library.h"
#include "search/search_score.h"
#include "wire/forked_child.h"

namespace kvc {
namespace {

constexpr size_t kTogether = 8;  // candidates that share a prefill, random ones and mutations in turn
constexpr size_t kParents = kTogether / 2;

struct Proposal {
  LayerPlan plan;
  std::string family;
};

// One that has been scored.
struct Candidate {
  LayerPlan plan;
  double nll;
  int64_t bytes;
  bool failed;
};

class LayerSearch {
 public:
  LayerSearch(const Experiment& experiment, const Grid& grid, const SearchSettings& settings, ResultStore& store,
              const OnSearchStep& on_step)
      : written_(grid.worker.compressors.front()),
        settings_(settings),
        samples_(search_samples(grid, settings.n_samples)),
        record_(search_record(experiment, grid, settings_, samples_)),
        on_step_(on_step),
        scorer_(grid, samples_, experiment, [this](int64_t n) { step(n); }),
        store_(store) {
    stage_ = SearchStage::likelihoods, n_steps_ = 0;
    record_.n_answer_tokens = scorer_.n_answer_tokens();
    record_.kv_bytes_fp16 = scorer_.fp16_bytes();
    store_.put_search(record_);
    result_.key = record_.key;
    result_.option = settings_.option;
  }

  SearchResult run() {
    auto space = measured_space();
    const auto n_all = static_cast<size_t>(settings_.n_candidates);
    std::vector<Proposal> batch;
    for (const auto& plan : space.two_steps()) {
      if (candidates_.size() + batch.size() >= n_all / 2) break;
      if (space.propose(plan)) batch.push_back({plan, "two_steps"});
      if (batch.size() == kTogether) store(score(std::exchange(batch, {})));
    }
    store(score(batch));
    while (candidates_.size() < n_all && score_proposals(space)) {
    }
    rescore();
    const auto best = store_.best(record_.key);
    KVC_CHECK(best, "search: no candidate of ", candidates_.size(), " fits the budget");
    result_.best = candidates_[static_cast<size_t>(*best)].plan;
    return std::move(result_);
  }

 private:
  std::vector<CompressorChoice> compressors_of(const std::vector<LayerPlan>& plans) const {
    std::vector<CompressorChoice> compressors;
    for (const auto& plan : plans) {
      compressors.push_back(written_);
      compressors.back().options[settings_.option] = to_text(plan);
    }
    return compressors;
  }

  // Scores those that no search with this calibration has scored.
  std::vector<CandidateRecord> score(const std::vector<Proposal>& proposals) {
    std::vector<CandidateRecord> records;
    std::vector<LayerPlan> missing;
    std::vector<size_t> places;
    for (const auto& [plan, family] : proposals) {
      const auto found = store_.find_score(record_.calibration_key, to_text(plan));
      records.push_back({to_text(plan), family, plan, found.value_or(CandidateScore())});
      if (found) continue;
      missing.push_back(plan);
      places.push_back(records.size() - 1);
    }
    n_steps_ += n_samples() * static_cast<int64_t>(records.size() - missing.size());
    n_present_ += n_samples() * static_cast<int64_t>(records.size() - missing.size());
    if (!missing.empty()) {
      auto scores = scorer_.score(compressors_of(missing));
      for (size_t i = 0; i < scores.size(); ++i) records[places[i]].score = std::move(scores[i]);
    }
    result_.n_scored += static_cast<int64_t>(missing.size());
    result_.n_present += static_cast<int64_t>(records.size() - missing.size());
    return records;
  }

  // Stores them as this search's next.
  void store(const std::vector<CandidateRecord>& records) {
    if (records.empty()) return;
    store_.put_candidates(record_.key, static_cast<int64_t>(candidates_.size()), records);
    for (const auto& [text, family, values, score] : records) {
      const auto& layers = score.bytes_of_layer;
      const auto bytes = std::accumulate(layers.begin(), layers.end(), int64_t{0});
      candidates_.push_back({values, score.nll, bytes, !score.error.empty() || !std::isfinite(score.nll)});
    }
  }

  int64_t n_samples() const { return static_cast<int64_t>(samples_.size()); }

  // So many candidates have had a sample more.
  void step(int64_t n_candidates) {
    n_steps_ += n_candidates;
    const int64_t n_all = stage_ == SearchStage::answers       ? 1
                          : stage_ == SearchStage::likelihoods ? settings_.n_candidates
                                                               : settings_.n_rescored;
    on_step_(stage_, n_steps_, n_present_, n_all * n_samples());
  }

  // Each level for all layers: what a layer's caches hold at it. Where one fails nothing is stored, so that the next
  // search tries it again: it may have been the machine's fault.
  SearchSpace measured_space() {
    const auto n_layers = static_cast<size_t>(scorer_.n_layers());
    std::vector<Proposal> uniform;
    for (const int64_t level : settings_.levels) uniform.push_back({LayerPlan(n_layers, level), "uniform"});
    const auto records = score(uniform);
    std::vector<std::vector<int64_t>> bytes(n_layers);
    for (size_t i = 0; i < records.size(); ++i) {
      const auto& [error, nll, bytes_of_layer] = records[i].score;
      KVC_CHECK(error.empty(), "search: ", settings_.option, " ", settings_.levels[i], " in every layer: ", error);
      for (size_t layer = 0; layer < n_layers; ++layer) bytes[layer].push_back(bytes_of_layer[layer]);
    }
    store(records);
    SearchSpace space(settings_.levels, std::move(bytes), budget_bytes(), settings_.seed);
    const auto fp16_bytes = static_cast<double>(record_.kv_bytes_fp16);
    KVC_CHECK(space.least_bytes() <= budget_bytes(), "search: the budget is ", settings_.budget,
              " of 16-bit storage, the smallest caches need ", static_cast<double>(space.least_bytes()) / fp16_bytes);
    for (const auto& proposal : uniform) space.propose(proposal.plan);
    return space;
  }

  int64_t budget_bytes() const {
    return static_cast<int64_t>(std::floor(settings_.budget * static_cast<double>(record_.kv_bytes_fp16)));
  }

  // Indices of those that fit by the bytes they were found to hold, lowest nll first.
  std::vector<size_t> ranking() const {
    std::vector<size_t> order(candidates_.size());
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](size_t i) { return candidates_[i].failed || candidates_[i].bytes > budget_bytes(); });
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return candidates_[a].nll < candidates_[b].nll; });
    return order;
  }

  // As many random plans as mutations of the best. -> false where all plans that fit have been tried
  bool score_proposals(SearchSpace& space) {
    const auto left = std::min(kTogether, static_cast<size_t>(settings_.n_candidates) - candidates_.size());
    const auto parents = ranking();
    std::vector<Proposal> batch;
    for (size_t i = 0; i < left; ++i) {
      const bool mutates = i % 2 == 1 && !parents.empty();
      const auto plan = mutates
                            ? space.mutation_of(candidates_[parents[i / 2 % std::min(kParents, parents.size())]].plan)
                            : space.random();
      if (plan) batch.push_back({*plan, mutates ? "mutation" : "random"});
    }
    store(score(batch));
    return !batch.empty();
  }

  void rescore() {
    auto best = ranking();
    best.resize(std::min(best.size(), static_cast<size_t>(settings_.n_rescored)));
    stage_ = SearchStage::accuracy, n_steps_ = n_present_ = 0;
    for (size_t first = 0; first < best.size(); first += kTogether) {
      std::vector<size_t> missing;
      std::vector<LayerPlan> plans;
      for (size_t i = first; i < std::min(best.size(), first + kTogether); ++i) {
        const auto& plan = candidates_[best[i]].plan;
        if (const auto found = store_.find_correct(record_.calibration_key, to_text(plan))) {
          store_.put_correct(record_.key, static_cast<int64_t>(best[i]), *found);
          n_steps_ += n_samples(), n_present_ += n_samples();
          continue;
        }
        missing.push_back(best[i]);
        plans.push_back(plan);
      }
      if (plans.empty()) continue;
      const auto n_correct = scorer_.n_correct(compressors_of(plans));
      for (size_t i = 0; i < missing.size(); ++i) {
        store_.put_correct(record_.key, static_cast<int64_t>(missing[i]), n_correct[i]);
      }
    }
  }

  CompressorChoice written_;
  SearchSettings settings_;
  std::vector<SearchSample> samples_;
  SearchRecord record_;
  const OnSearchStep& on_step_;
  SearchStage stage_ = SearchStage::answers;
  int64_t n_steps_ = 0, n_present_ = 0;  // of the stage
  PlanScorer scorer_;
  SearchStore store_;
  std::vector<Candidate> candidates_;  // in the order they were tried
  SearchResult result_;
};

}  // namespace

Grid search_grid(const Experiment& experiment, const Paths& paths, SearchSettings& settings) {
  KVC_CHECK(experiment.compressors.size() == 1, "search: the experiment names ", experiment.compressors.size(),
            " compressors, expected the one to search");
  const auto& choice = experiment.compressors.front();
  KVC_CHECK(choice.parts.empty(), choice.where, ": error: search: ", choice.plugin,
            " is a composition, expected a plugin");
  auto whole = experiment;
  whole.limit.reset();
  auto grid = expand_grid(whole, paths);
  KVC_CHECK(grid.left_out.empty(), "search: ", grid.left_out.front());
  const auto& opened = grid.worker.compressors.front();
  const auto said = in_child({name_in_errors(choice)}, [&](size_t) {
    const auto asked = resolved(settings, PluginLibrary(opened.file, opened.sha256), choice);
    return nlohmann::json{{"option", asked.option}, {"levels", asked.levels}};
  });
  said.front().at("option").get_to(settings.option);
  said.front().at("levels").get_to(settings.levels);
  return grid;
}

SearchResult search_layers(const Experiment& experiment, const Grid& grid, const SearchSettings& settings,
                           ResultStore& store, const OnSearchStep& on_step) {
  return LayerSearch(experiment, grid, settings, store, on_step).run();
}

}  // namespace kvc
