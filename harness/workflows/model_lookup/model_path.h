// Where the models lie that users name; what is missing is fetched, with its progress on standard error.
#pragma once

#include <filesystem>
#include <string>

#include "experiment/bench_experiment.h"
#include "experiment/experiment.h"

namespace kvc {

// A folder, a .gguf file, a name of models/catalog.yaml or hf:ORG/NAME[@REVISION], on this machine then.
std::filesystem::path model_path(const std::string& as_written);

// Sets the experiment's model_path and model_origin. A bench of a layer or of random weights has no model.
void place_model(Experiment& experiment);
void place_model(BenchExperiment& experiment);

// Whether an experiment can be read with its model as things are: it is on this machine, or there is none. Fetches
// nothing; throws Error for what is no name of a model.
bool is_model_here(const std::string& model);

// For a dry run: true where the model would have to be fetched, and then printed what.
bool tell_missing_model(const std::string& experiment, const std::string& model);

}  // namespace kvc
