// Plans made by hand.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/plan.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace kvc {

using test::message_of;
using test::TempFolder;

inline PlannedCell planned(const std::string& task, const std::string& compressor, double seconds, double prefill = 0) {
  PlannedCell cell;
  cell.key = task + "/" + compressor;
  cell.task = task, cell.compressor = compressor;
  cell.n_samples = 10;
  cell.is_baseline = compressor == "full";
  cell.seconds = seconds, cell.prefill_seconds = prefill;
  return cell;
}

// One experiment without a load time; every cell in the one shard.
inline Plan plan_of(const std::vector<PlannedCell>& cells) {
  Plan plan;
  plan.name = "grid", plan.folder = "/shared/grid";
  plan.experiments = {{"/shared/x.yaml", {}, "x", "models/demo", 0}};
  plan.cells = cells;
  plan.shards.emplace_back();
  for (size_t c = 0; c < cells.size(); ++c) plan.shards[0].push_back(c);
  plan.arrays = {{"", 0, 1}};
  plan.predicted_by = {"a trial"};
  return plan;
}

}  // namespace kvc
