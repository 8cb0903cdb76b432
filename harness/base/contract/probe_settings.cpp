#include "contract/probe_settings.h"

#include <algorithm>

namespace kvc {

const std::vector<std::string>& probe_measures() {
  static const std::vector<std::string> names{"rel_fro",
                                              "abs_fro",
                                              "rel_fro_end",
                                              "abs_fro_end",
                                              "score_rel_sq",
                                              "output_rel_fro",
                                              "logit_max_abs",
                                              "logit_l2",
                                              "kl",
                                              "top1_same",
                                              "logit_max_abs_free",
                                              "first_divergence",
                                              "sigma",
                                              "q1",
                                              "median",
                                              "q3",
                                              "min",
                                              "max",
                                              "channel_mean_abs",
                                              "lambda1",
                                              "lambda2"};
  return names;
}

bool ProbeValues::wants(const std::string& measure) const {
  return std::find(measures_.begin(), measures_.end(), measure) != measures_.end();
}

bool ProbeValues::wants_any(const std::vector<std::string>& measures) const {
  return std::any_of(measures.begin(), measures.end(), [this](const auto& measure) { return wants(measure); });
}

void ProbeValues::add(ProbeRow value) {
  if (wants(value.measure)) values_.push_back(std::move(value));
}

}  // namespace kvc
