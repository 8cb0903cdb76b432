#include "model_lookup/model_path.h"

#include <cstdio>

#include "experiment/paths.h"
#include "fetch/fetch_progress.h"
#include "fetch/model_source.h"

namespace kvc {
namespace {

template <class AnyExperiment>
void place(const std::string& model, AnyExperiment& experiment) {
  auto source = get_model(model, model_places(find_paths().root));
  experiment.model_path = std::move(source.path);
  experiment.model_origin = std::move(source.origin);
}

}  // namespace

std::filesystem::path model_path(const std::string& as_written) {
  return get_model(as_written, model_places(find_paths().root)).path;
}

void place_model(Experiment& experiment) { place(experiment.model_name, experiment); }

void place_model(BenchExperiment& experiment) {
  if (!experiment.subject.model.empty()) place(experiment.subject.model, experiment);
}

bool is_model_here(const std::string& model) {
  return model.empty() || find_model(model, model_places(find_paths().root));
}

bool tell_missing_model(const std::string& experiment, const std::string& model) {
  if (is_model_here(model)) return false;
  const auto missing = missing_model(model, model_places(find_paths().root));
  std::printf(
      "experiment %s: the model %s is not downloaded; a run would fetch %s from %s into %s (`kvc model get %s` does so "
      "now)%s\n",
      experiment.c_str(), model.c_str(), megabytes(missing.n_bytes).c_str(), missing.from.c_str(), missing.to.c_str(),
      model.c_str(), missing.terms.empty() ? "" : ("; accept the " + missing.terms + " first").c_str());
  return true;
}

}  // namespace kvc
