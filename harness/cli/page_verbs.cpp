// kvc completion, and kvc page: what the program says of its own verbs for shells, and the pages of docs/ that it
// prints.
#include <cstdio>

#include "check/check_verdict.h"
#include "cli/verbs.h"
#include "command_line/completion.h"
#include "command_line/verbs_page.h"
#include "experiment/bench_experiment.h"
#include "experiment/experiment.h"
#include "experiment/read_compressors.h"
#include "render/escape.h"
#include "serve/database_page.h"
#include "text/yaml_keys.h"

namespace kvc {
namespace {

constexpr const char* kHead = R"(# Experiments

An experiment is a YAML file: `./kvc run configs/quickstart.yaml` runs what is missing of it, `./kvc validate FILE` checks
it, `--set path=value` puts a value over it (`--set compressors.1.kivi.bits=4`). Any other key is refused,
and the nearest of these told. This page is what `./kvc page experiments` prints.

```yaml
name: quickstart
model: models/demo
tasks: [demo/arithmetic, demo/swaps]
limit: 100
compressors:
  - full
  - kivi: {bits: [2, 4], group_size: 32}      # a list is a sweep
  - chain: [{snapkv: {capacity: 128}}, {kivi: {bits: 2}}]
    label: SnapKV, then KIVI
```

`kind` says what is done: `eval` (without it) answers tasks, `probe` looks into caches, `search` finds one integer for each
layer, `bench` takes times, `capacity` finds what fits a memory. The first three share their keys.
)";

constexpr const char* kCompressors = R"(
## A compressor

A name (`full`), a name with its options (`kivi: {bits: 2}`; `./kvc plugins kivi` lists them), a chain, or rules. A list as
an option's value is a sweep, several are their product. Files that options name are relative to the file where they stand.
)";

std::string table(const YamlKeys::Declare& declare) {
  KeyList list;
  declare(list);
  std::string text = "\n| key | what it may be | default | what it says |\n|---|---|---|---|\n";
  for (const auto& line : list.lines()) {
    text += concat("| `", line.name, "` | ", escape_markdown(line.form), " | ", escape_markdown(line.otherwise), " | ",
                   escape_markdown(line.help), " |\n");
  }
  return text;
}

std::string timed(RunKind kind) {
  return table([kind](YamlKeys& keys) {
    BenchExperiment experiment;
    experiment.kind = kind;
    declare_keys(keys, experiment);
  });
}

std::string experiment_page() {
  std::string page = kHead;
  page += "\n## kind: eval, probe, search\n" + table([](YamlKeys& keys) {
            Experiment experiment;
            declare_keys(keys, experiment);
          });
  page += kCompressors + table(declare_compressor_keys);
  page += "\n## kind: bench\n" + timed(RunKind::bench);
  page += "\n## kind: capacity\n" + timed(RunKind::capacity);
  page += "\n## check\n\nWhat `./kvc check MODEL` reads beside the experiment; see `configs/check.yaml`.\n" +
          table([](YamlKeys& keys) {
            CheckSettings settings;
            declare_keys(keys, settings);
          });
  return page;
}

}  // namespace

void add_page_verbs(CommandLine& line) {
  auto shell = std::make_shared<std::string>();
  auto verb = line.program().add_subcommand("completion", "Prints a shell's completion of kvc, for it to source");
  verb.add_option("shell", *shell, "bash, zsh or fish").required().choices(completion_shells());
  verb.on_call([shell, &line] {
    std::fputs(completion_script(*shell, line.declared()).c_str(), stdout);
    return kOk;
  });

  auto page = std::make_shared<std::string>();
  verb = line.program().add_subcommand("page", "Prints a page that is made by the program: of docs/, or for man");
  verb.add_option("name", *page, "verbs, experiments or database: docs/NAME.md; man: kvc.1")
      .required()
      .choices({"verbs", "experiments", "database", "man"});
  verb.on_call([page, &line] {
    const auto text = *page == "verbs"         ? verbs_page(line.declared())
                      : *page == "man"         ? man_page(line.declared())
                      : *page == "experiments" ? experiment_page()
                                               : database_page();
    std::fputs(text.c_str(), stdout);
    return kOk;
  });
}

}  // namespace kvc
