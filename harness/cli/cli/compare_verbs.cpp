#include <cstdio>
#include <cstdlib>
#include <optional>

#include "analysis/compare.h"
#include "analysis/power_table.h"
#include "cli/verbs.h"
#include "experiment/paths.h"
#include "experiment/read_compressors.h"
#include "kvc/check.h"
#include "render/terminal.h"
#include "store/result_store.h"
#include "task/dataset.h"

namespace kvc {
namespace {

struct CompareArguments {
  std::string database, against, baseline, format = "markdown";
  std::vector<std::string> names;
  CompareOptions options;
  double margin_points = 0;
  bool wide = false, kl = false;
  std::optional<double> fail_if_worse_by;
};

struct PowerArguments {
  CompareArguments compare;
  std::optional<int64_t> n;
  std::optional<double> discordant, sd_points, difference_points;
  PowerTarget target;
};

void add_format(Verb verb, std::string& format) {
  verb.add_option("--format", format, "markdown, csv or json").choices({"markdown", "csv", "json"}).show_default();
}

void add_choice(Verb verb, CompareArguments& arguments, const char* about_task) {
  auto& filter = arguments.options.filter;
  verb.add_option(
      "names", arguments.names,
      "[DATABASE] A [B], each in quotes: 'PLUGIN: {key: value}', 'PLUGIN [key=value]...' or a label from the "
      "summary table");
  verb.add_option("--db", arguments.database, "results database (default: the first name)");
  verb.add_option("--against", arguments.against, "database that contains A");
  verb.add_option("--baseline", arguments.baseline, "A, compared with every other compressor");
  verb.add_option("--experiment", filter.experiment, "only this experiment's cells").show_default();
  verb.add_option("--model", filter.model_label, "only this model's cells");
  verb.add_option("--task", filter.tasks, about_task).one_each();
  verb.add_flag("--pooled", arguments.options.pooled,
                "one row for all of these tasks together instead of one per task");
  verb.add_option("--extractor", arguments.options.extractor, "compare this score instead of the headline");
  verb.add_flag("--with-suspects", filter.with_suspects,
                "include suspect cells (no evidence that they compressed anything)");
  verb.add_flag("--paired-only", arguments.options.paired_only,
                "skip samples that only one side has, instead of refusing");
}

// "kivi: {bits: 2}", as experiments write it, -> "kivi bits=2"; any other name as it is.
std::string name_of(const std::string& text) {
  if (text.find(": {") == std::string::npos) return text;
  const auto choice = compressor_argument("compressor", text);
  std::string name = choice.plugin;
  for (const auto& [key, value] : choice.options.items()) {
    name += concat(" ", key, "=", value.is_string() ? value.get<std::string>() : value.dump());
  }
  return name;
}

// Sorts the names into database, A and B.
void resolve(CompareArguments& arguments) {
  auto& names = arguments.names;
  if (arguments.database.empty()) {
    KVC_CHECK(!names.empty(), "no results database; allowed: kvc compare DATABASE A [B], or --db DATABASE");
    arguments.database = names.front();
    names.erase(names.begin());
  }
  for (auto& name : names) name = name_of(name);
  auto& options = arguments.options;
  if (!arguments.baseline.empty()) {
    KVC_CHECK(names.empty(), "--baseline '", arguments.baseline, "' is A, and all others are B; unexpected name '",
              names[0], "'");
    options.a = name_of(arguments.baseline);
    return;
  }
  KVC_CHECK(names.size() <= 2, "compare: ", names.size(), " names, allowed: A and B; quote a name with options");
  if (names.size() == 2) {
    options.a = names[0];
    options.b = names[1];
  } else if (names.size() == 1) {  // the same in both databases
    KVC_CHECK(!arguments.against.empty(), "compare '", names[0],
              "': compared with what? allowed: a second name, --baseline, --against");
    options.a = options.b = names[0];
  } else {
    KVC_CHECK(!arguments.against.empty(), "which compressors of '", arguments.database,
              "'? allowed: two names A and B, --baseline A (with every other), --against DATABASE (the same in both)");
  }
}

CompareReport report_of(const CompareArguments& arguments) {
  auto store_b = ResultStore::open_readonly(arguments.database);
  if (arguments.against.empty()) return compare_groups(store_b.database(), store_b.database(), arguments.options);
  auto store_a = ResultStore::open_readonly(arguments.against);
  return compare_groups(store_a.database(), store_b.database(), arguments.options);
}

void print(const std::string& format, const Table& table) {
  std::fputs(write_shown(table, format, false).c_str(), stdout);
}

// Markdown shows both; csv and json hold one table.
void print_tables(const CompareArguments& arguments, const Table& scores, const Table& kl) {
  KVC_CHECK(!arguments.kl || !kl.rows.empty(), "--kl: none of these tasks scores running text");
  if (!arguments.kl) std::fputs(write_shown(scores, arguments.format, arguments.wide).c_str(), stdout);
  const bool follows = !arguments.kl && arguments.format == "markdown" && !kl.rows.empty();
  if (follows) std::fputs("\n", stdout);
  if (follows || arguments.kl) print(arguments.format, kl);
}

int compare(CompareArguments arguments) {
  resolve(arguments);
  arguments.options.margin = arguments.margin_points / 100;
  const auto report = report_of(arguments);
  const bool is_brief = !arguments.wide && arguments.format == "markdown" && standard_output().width > 0;
  const auto table = is_brief ? brief_compare_table(report) : compare_table(report);
  print_tables(arguments, table, compared_kl_table(report));
  if (!arguments.fail_if_worse_by) return kOk;
  const auto worse = worse_rows(report, *arguments.fail_if_worse_by);
  for (const auto& line : worse) std::fprintf(stderr, "worse: %s\n", line.c_str());
  return worse.empty() ? kOk : kWorse;
}

std::optional<double> share(std::optional<double> points) { return points ? std::optional(*points / 100) : points; }

std::vector<PowerCase> measured_cases(CompareArguments arguments, std::optional<double> difference) {
  resolve(arguments);
  std::vector<PowerCase> cases;
  for (const auto& row : report_of(arguments).rows) {
    const auto& c = row.comparison;
    PowerCase found;
    found.compressor = row.b;
    found.task = row.task;
    found.n = c.n;
    found.difference = difference ? *difference : c.mean_difference;
    if (c.is_binary) {
      found.discordant = static_cast<double>(c.n_fell + c.n_rose) / static_cast<double>(c.n);
    } else {
      found.sd = c.sd_difference;
    }
    cases.push_back(found);
  }
  return cases;
}

std::vector<KlPowerCase> measured_kl(CompareArguments arguments, std::optional<double> difference) {
  resolve(arguments);
  std::vector<KlPowerCase> cases;
  for (const auto& row : report_of(arguments).kl_rows) {
    const auto& kl = row.kl;
    cases.push_back({row.b, row.task, kl.n_windows, kl.kl_a, kl.kl_b, kl.sd, difference ? *difference : kl.difference});
  }
  return cases;
}

int power(const PowerArguments& arguments) {
  const auto difference = share(arguments.difference_points), sd = share(arguments.sd_points);
  if (!arguments.compare.database.empty() || !arguments.compare.names.empty()) {
    KVC_CHECK(!arguments.n && !arguments.discordant && !sd,
              "power: a database supplies --n, --discordant and --sd; give a database or these, not both");
    if (arguments.compare.kl) {
      print(arguments.compare.format,
            kl_power_table(measured_kl(arguments.compare, arguments.difference_points), arguments.target));
      return kOk;
    }
    print(arguments.compare.format, power_table(measured_cases(arguments.compare, difference), arguments.target));
    return kOk;
  }
  KVC_CHECK(!arguments.compare.kl, "power: --kl needs a database, whose windows it is about");
  KVC_CHECK(!sd || !arguments.discordant, "power: --discordant is for right/wrong answers, --sd for graded scores");
  PowerCase assumed;
  assumed.discordant = arguments.discordant;
  assumed.sd = sd;
  assumed.difference = difference;
  if (!sd && !assumed.discordant) assumed.discordant = 0.2;
  std::vector<PowerCase> cases;
  const char* data = std::getenv("KVC_DATA");
  for (const auto& task : arguments.compare.options.filter.tasks) {
    const auto spec = load_task(find_task(find_paths().root / "tasks", task));
    cases.push_back(assumed);
    cases.back().task = task;
    cases.back().n = count_samples(spec, data ? data : "");
  }
  if (arguments.n || cases.empty()) {
    KVC_CHECK(arguments.n || difference,
              "power: the number of samples is missing; allowed: --n, --task, --difference, a database");
    cases.push_back(assumed);
    cases.back().n = arguments.n;
  }
  print(arguments.compare.format, power_table(cases, arguments.target));
  return kOk;
}

void add_power_verb(Verb program) {
  auto arguments = std::make_shared<PowerArguments>();
  auto verb = program.add_subcommand(
      "power", "Computes the difference that n samples can detect, or the n that a difference needs");
  add_choice(
      verb, arguments->compare,
      "only this task, or all that match a prefix or pattern; without a database: use this task's number of samples; "
      "may be repeated");
  add_format(verb, arguments->compare.format);
  verb.add_flag("--kl", arguments->compare.kl,
                "of a database: the KL divergence of tasks that score running text, by window");
  verb.add_option("--n", arguments->n, "samples").range(1, 1 << 24);
  verb.add_option("--discordant", arguments->discordant,
                  "fraction of questions that exactly one of the two answers correctly (default: 0.2)")
      .range(0.0, 1.0);
  verb.add_option("--sd", arguments->sd_points, "standard deviation of a graded score's differences, in points");
  verb.add_option("--difference", arguments->difference_points,
                  "in points, with --kl in nats; also print how many samples it needs");
  verb.add_option("--power", arguments->target.power, "probability of detecting the difference").show_default();
  verb.add_option("--alpha", arguments->target.alpha, "significance level of the two-sided test").show_default();
  verb.on_call([arguments] { return power(*arguments); });
}

}  // namespace

void add_compare_verbs(Verb program) {
  auto arguments = std::make_shared<CompareArguments>();
  auto verb = program.add_subcommand("compare", "Paired significance tests between compressors on the same questions");
  add_choice(verb, *arguments, "only this task, or all that match a prefix or pattern; may be repeated");
  add_format(verb, arguments->format);
  add_wide(verb, arguments->wide);
  verb.add_option("--margin", arguments->margin_points,
                  "in points; also test for 'no worse' and 'equivalent' within this margin")
      .range(0.0, 99.0);
  verb.add_flag("--kl", arguments->kl, "print only the KL divergence of tasks that score running text");
  verb.add_option("--fail-if-worse-by", arguments->fail_if_worse_by,
                  "exit code 5 if a row is worse by more than these points with p (Holm) < 0.05")
      .non_negative();
  verb.on_call([arguments] { return compare(*arguments); });
  add_power_verb(program);
}

}  // namespace kvc
