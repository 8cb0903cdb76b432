// What a database holds of windows of running text, block by block.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "store/database.h"

namespace kvc {

// Sums over consecutive scored tokens.
struct TextBlock {
  int64_t position = 0, n_tokens = 0;  // position: of its first token in the window
  double nll = 0, kl = 0;              // in nats
  int64_t n_top1_same = 0;
};

struct TextWindow {
  std::string prompt_sha256;  // of the window's text
  std::vector<TextBlock> blocks;
};

using TextWindows = std::map<int64_t, TextWindow>;  // of a cell, by sample

// Those that failed are left out.
TextWindows text_windows(Database& db, const std::string& cell_key);

// The window's block of the same tokens as `block`; null: there is none.
const TextBlock* same_block(const TextWindow& window, const TextBlock& block);

}  // namespace kvc
