#include "analysis/paired_kl.h"

#include <cstdio>

#include "analysis/interval_text.h"
#include "kvc/check.h"
#include "stats/clustered.h"
#include "stats/paired.h"

namespace kvc {
namespace {

// B - A of the blocks that both windows have; adds both sides' KL to the sums.
Cluster differences(const TextWindow& a, const TextWindow& b, PairedKl& sums) {
  Cluster cluster;
  for (const auto& block : a.blocks) {
    const auto* other = same_block(b, block);
    if (!other) continue;
    cluster.values.push_back(other->kl - block.kl);
    cluster.weights.push_back(static_cast<double>(block.n_tokens));
    sums.kl_a += block.kl;
    sums.kl_b += other->kl;
    sums.n_tokens += block.n_tokens;
  }
  return cluster;
}

}  // namespace

const char* const kPairedKlNote =
    "difference of mean KL per token, in nats, over the same tokens, with its 95 % interval: windows and blocks of "
    "tokens within them are resampled (10000 draws, seed 0); p: sign flips of windows, adjusted for all rows (Holm); "
    "neither is given for fewer than 5 windows";

std::string kl_text(double nats) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", nats);
  return text;
}

std::string difference_text(const PairedKl& kl) {
  if (kl.n_windows == 0) return "";
  return with_interval(kl.difference, kl.interval, kl_text);
}

PairedKl paired_kl(const std::vector<std::pair<TextWindows, TextWindows>>& cells) {
  PairedKl paired;
  std::vector<Cluster> clusters;
  for (const auto& [all_a, all_b] : cells) {
    for (const auto& [sample, a] : all_a) {
      const auto b = all_b.find(sample);
      if (b == all_b.end()) continue;
      KVC_CHECK(a.prompt_sha256 == b->second.prompt_sha256, "window ", sample,
                " is another text in each of the two cells");
      auto cluster = differences(a, b->second, paired);
      if (!cluster.values.empty()) clusters.push_back(std::move(cluster));
    }
  }
  paired.n_windows = static_cast<int64_t>(clusters.size());
  if (clusters.empty()) return paired;
  const auto n = static_cast<double>(paired.n_tokens);
  paired.difference = (paired.kl_b - paired.kl_a) / n;
  paired.kl_a /= n;
  paired.kl_b /= n;
  std::vector<double> means;
  for (const auto& cluster : clusters) means.push_back(clustered_mean({&cluster, 1}));
  if (means.size() > 1) paired.sd = sample_deviation(means);
  paired.interval = interval_of_texts(clusters);
  if (paired.interval) paired.p = sign_flip_test(means).p;
  return paired;
}

}  // namespace kvc
