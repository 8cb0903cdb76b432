// kvc check MODEL...: what presets do to models, with a verdict for each.
#pragma once

#include <string>
#include <vector>

namespace kvc {

struct CheckModelArguments {
  // Models; and after the first, compressors in place of the file's: as experiments write them ("kivi: {bits: 2}"), names
  // of plugins, cache types of engines ("q4_0").
  std::vector<std::string> names;
  std::string config = "configs/check.yaml", database, output, allow_plugins;
  std::vector<std::string> texts;       // files in place of the tasks' texts
  std::vector<std::string> settings;    // path=value put over the file
  std::vector<std::string> as;          // "ENGINE: FLAGS", in place of the file's compressors (engine_flags.h)
  int64_t context = 0;                  // 0: the file's
  bool quick = false, dry_run = false;  // dry: print what would be run and how long it takes
  bool until_decided = false;           // more windows of text, as long as they may decide an open verdict
  bool pairs = false;                   // every compressor's K with every one's V
  std::string format = "markdown";      // or csv, latex (the verdicts), json (the KV card: kv_card.h)
  std::string badge;                    // file for an SVG; "": none
  std::vector<std::string> fail_over;   // limits on losses: "kl=0.05"
};

struct CheckOutcome {
  std::string database;
  int signal = 0;  // that ended it early
  int64_t n_failed = 0;
  int64_t n_unchecked = 0;             // models, of several
  std::vector<std::string> over = {};  // a line for each loss above its limit
};

// What the check of its first model would run, without running it. Throws Error for what is wrong with its file.
struct CheckSize {
  size_t n_cells = 0;
  int64_t n_samples = 0;
};
CheckSize check_size(const CheckModelArguments& arguments);

// Prints the tables: of one model with all figures, of several the verdicts side by side. Of several one that cannot be
// checked costs its own column. Throws Error.
CheckOutcome check_models(const CheckModelArguments& arguments);

}  // namespace kvc
