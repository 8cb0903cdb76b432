#include "conformance/verify.h"

#include <algorithm>

#include "conformance/cases.h"
#include "conformance/inputs.h"
#include "sandbox/device.h"
#include "sandbox/ledger.h"
#include "text/nearest.h"
#include "wire/forked_child.h"

namespace kvc::conformance {
namespace {

using nlohmann::json;

// All without names. Throws Error with the known names where one is none of them.
std::vector<Check> chosen_checks(const std::vector<std::string>& names) {
  if (names.empty()) return all_checks();
  std::vector<std::string> known;
  for (const auto& check : all_checks()) known.emplace_back(check.name);
  std::vector<Check> chosen;
  for (const auto& name : names) {
    const auto at = std::ranges::find(known, name);
    KVC_CHECK(at != known.end(), unknown_name("check", name, known));
    chosen.push_back(all_checks()[static_cast<size_t>(at - known.begin())]);
  }
  return chosen;
}

// In the child: the checks from number `first` on, case by case. It says {"opened"}, then {"begin"} and {"end"} of each
// check, then {"done"}.
void run_checks(const ForkedChild::Say& say, const std::filesystem::path& file, const VerifyOptions& options,
                const std::vector<Check>& checks, size_t first) {
  if (options.paranoid) {
    ledger::set_guarded();
    ledger::open(ledger::kAccounts - 1);  // all that the checks do
  }
  check_device() = device_named(options.device);
  using Runs = PluginLibrary::Runs;
  const bool apart = runs_in_own_process(file, options.isolation);
  const bool can =
      check_device().is_cpu() && !options.paranoid;  // tensors on devices and guard pages are a process's own
  const PluginLibrary plugin(file, "", apart && can ? Runs::in_own_process : Runs::here);
  const auto& d = plugin.descriptor();
  KVC_CHECK(check_device().is_cpu() || *d.capabilities.devices == 0, d.name, " on device ", options.device,
            ", allowed: cpu, because ", d.capabilities.devices);
  const auto cases = cases_of(plugin, options.options);
  say({{"opened", {{"plugin", d.name}, {"summary", d.summary}, {"sha256", plugin.sha256()}}}});
  const bool serves_none = std::all_of(cases.begin(), cases.end(), [](const Case& c) { return !c.refusal.empty(); });
  for (size_t i = first; i < cases.size() * checks.size(); ++i) {
    const auto& c = cases[i / checks.size()];
    const auto& check = checks[i % checks.size()];
    say({{"begin", i}, {"check", check.name}, {"on", c.label()}});
    Outcome outcome;
    if (c.refusal.empty()) {
      outcome = run_check(check, {plugin, c.options, c.model});
    } else if (serves_none && i == 0) {
      outcome.complaints = {"refuses every model of the suite: " + c.refusal};
    } else {
      outcome.not_applicable = kRefusesModel + c.refusal;
    }
    say({{"end", i},
         {"complaints", outcome.complaints},
         {"not_applicable", outcome.not_applicable},
         {"notes", outcome.notes}});
  }
  say({{"done", true}});
}

Result result_of(const json& begin, const json& end) {
  Result result{.check = begin["check"], .on = begin["on"], .messages = {}, .notes = end["notes"]};
  const std::string not_applicable = end["not_applicable"];
  if (!end["complaints"].empty()) {
    result.verdict = Verdict::failed;
    result.messages = end["complaints"];
  } else if (!not_applicable.empty()) {
    result.verdict = Verdict::not_applicable;
    result.messages = {not_applicable};
  }
  return result;
}

}  // namespace

int64_t Report::count(Verdict verdict) const {
  return std::count_if(results.begin(), results.end(), [&](const Result& r) { return r.verdict == verdict; });
}

Report verify(const std::filesystem::path& file, const VerifyOptions& options) {
  const auto checks = chosen_checks(options.checks);
  Report report{.plugin = file.stem(), .summary = "", .sha256 = "", .file = file, .results = {}};
  const auto add = [&](Result result) {
    options.on_result(result);
    report.results.push_back(std::move(result));
  };
  for (size_t next = 0;;) {
    const size_t first = next;
    ForkedChild child([&](const auto& say) { run_checks(say, file, options, checks, first); });
    json begin = {{"check", "opens"}, {"on", "-"}};
    const char* when = " in check ";
    for (json message; !(message = child.receive(options.seconds_a_check)).is_null();) {
      if (message.contains("done")) return report;
      if (message.contains("error")) throw Error(message["error"].get<std::string>());
      if (message.contains("opened")) {
        report.plugin = message["opened"]["plugin"], report.summary = message["opened"]["summary"];
        report.sha256 = message["opened"]["sha256"];
      } else if (message.contains("begin")) {
        begin = message, when = " in check ";
        next = begin["begin"].get<size_t>() + 1;
      } else {
        add(result_of(begin, message));
        when = " after check ";
      }
    }
    const auto death = concat(child.epitaph(), when, begin["check"].get<std::string>());
    add({.check = begin["check"], .on = begin["on"], .verdict = Verdict::failed, .messages = {death}, .notes = {}});
    if (next == first) return report;  // no child gets any further
  }
}

}  // namespace kvc::conformance
