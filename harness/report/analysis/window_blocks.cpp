#include "analysis/window_blocks.h"

#include <algorithm>

namespace kvc {

TextWindows text_windows(Database& db, const std::string& cell_key) {
  auto select = db.prepare(
      "SELECT l.sample, s.prompt_sha256, l.position, l.n_tokens, l.nll, l.kl, l.n_top1_same FROM likelihood AS l"
      " JOIN sample AS s ON s.cell_key = l.cell_key AND s.sample = l.sample AND s.status = 'ok'"
      " WHERE l.cell_key = ? ORDER BY l.sample, l.position");
  select.bind(1, cell_key);
  TextWindows windows;
  while (select.step()) {
    auto& window = windows[select.integer(0)];
    window.prompt_sha256 = select.text(1);
    window.blocks.push_back({select.integer(2), select.integer(3), select.real(4), select.real(5), select.integer(6)});
  }
  return windows;
}

const TextBlock* same_block(const TextWindow& window, const TextBlock& block) {
  const auto found = std::ranges::find_if(window.blocks, [&](const auto& other) {
    return other.position == block.position && other.n_tokens == block.n_tokens;
  });
  return found == window.blocks.end() ? nullptr : &*found;
}

}  // namespace kvc
