#include <cstdio>

#include "check/check_model.h"
#include "cli/verbs.h"

namespace kvc {
namespace {

int check(const CheckModelArguments& arguments) {
  const auto outcome = check_models(arguments);
  if (outcome.signal) return report_interrupt(outcome.signal, outcome.database);
  for (const auto& line : outcome.over) std::fprintf(stderr, "over: %s\n", line.c_str());
  if (outcome.n_failed + outcome.n_unchecked > 0) return kSomeFailed;
  return outcome.over.empty() ? kOk : kWorse;
}

}  // namespace

void add_check_verb(Verb program) {
  auto arguments = std::make_shared<CheckModelArguments>();
  auto& model = *arguments;
  auto verb = program.add_subcommand("check", "Evaluates compressor presets on a model and gives each a verdict");
  verb.add_option("models", model.names,
                  "models, named as in experiments; compressors may follow them, in place of the file's: "
                  "'kivi: {bits: 2}', a plugin, or a cache type of an engine such as q4_0")
      .required();
  verb.add_flag("--quick", model.quick, "fewer texts and one length: a sixth of the time");
  verb.add_flag("--dry-run", model.dry_run, "print what would run, with an estimate of its time");
  verb.add_flag("--until-decided", model.until_decided,
                "read more text while verdicts are undecided and it may decide them, up to 16 times as much");
  verb.add_flag("--pairs", model.pairs,
                "check every compressor's K with every one's V, and print KL by type of K and of V; n compressors "
                "make n x n rows, so name few: --as or --set compressors=[...]");
  verb.add_option("--context", model.context,
                  "longest context, in tokens (default: the file's, or the model's if shorter)")
      .positive();
  verb.add_option("--text", model.texts,
                  "text file to evaluate on (default: the tasks' own texts); may be repeated: windows are taken from "
                  "each in turn");
  verb.add_option("-o,--output", model.output, "also write the results as one HTML page");
  verb.add_option("--format", model.format,
                  "markdown, csv or latex (the verdicts), or json (the KV card, docs/kv-card.md)")
      .choices({"markdown", "csv", "latex", "json"})
      .show_default();
  verb.add_option("--badge", model.badge, "also write an SVG badge with the verdict");
  verb.add_option("--fail-over", model.fail_over,
                  "exit with code 5 if any compressor loses more: kl=NATS, flips=PERCENT (top-1 predictions that "
                  "changed) or passkey=POINTS; may be repeated")
      .one_each();
  verb.add_option("--db,--database", model.database, "results database (default: results/check-<models>.sqlite)");
  verb.add_option("--config", model.config, "file with compressors, tasks and bounds of the verdicts").show_default();
  verb.add_option(
      "--as", model.as,
      "check an inference engine's cache options instead of the file's compressors, with the engine's chunked "
      "prefill, e.g. --as 'llama.cpp: -ctk q8_0 -ctv q4_0'; may be repeated; `kvc plugins --engines` lists them");
  verb.add_option("--set", model.settings, "path=value overrides the file, e.g. workers=1");
  add_allow_plugins(verb, model.allow_plugins);
  verb.on_call([arguments] { return check(*arguments); });
}

}  // namespace kvc
