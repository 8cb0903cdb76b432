#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "cli/verbs.h"
#include "conformance/report.h"
#include "experiment/paths.h"
#include "kvc/check.h"
#include "plugin_loader/new_plugin.h"
#include "text/files.h"
#include "text/json.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct VerifyArguments {
  std::string file, report, junit, isolation, device = "cpu";
  std::vector<std::string> options, checks;
  int timeout = 300;
  bool paranoid = false;
};

// {"bits=4", "precision=real"} -> {"bits": 4, "precision": "real"}; nothing given: no object.
std::optional<json> read_options(const std::vector<std::string>& given) {
  if (given.empty()) return std::nullopt;
  json options = json::object();
  for (const auto& text : given) {
    const auto equals = text.find('=');
    KVC_CHECK(equals != std::string::npos && equals > 0, "--option '", text, "', expected name=value");
    const auto name = text.substr(0, equals), value = text.substr(equals + 1);
    KVC_CHECK(!options.contains(name), "--option '", name, "' is given twice");
    const auto parsed = try_json(value);
    options[name] = parsed.is_number() ? parsed : json(value);
  }
  return options;
}

// Before the checks run, so that a bad path costs no minutes.
void check_folder_of(const std::string& path) {
  if (path.empty()) return;
  const auto folder = fs::absolute(path).parent_path();
  KVC_CHECK(fs::is_directory(folder), path, ": no folder '", folder.string(), "' to write it into");
}

void write(const std::string& path, const std::string& text) {
  if (!path.empty()) write_file(path, text);
}

int verify_plugin(const VerifyArguments& arguments) {
  using conformance::Verdict;
  conformance::VerifyOptions options{.options = read_options(arguments.options),
                                     .checks = arguments.checks,
                                     .device = arguments.device,
                                     .isolation = arguments.isolation,
                                     .seconds_a_check = arguments.timeout,
                                     .paranoid = arguments.paranoid};
  options.on_result = [](const conformance::Result& result) {
    if (result.verdict != Verdict::failed) return;
    const size_t n_more = result.messages.size() - 1;
    std::fprintf(stderr, "FAIL  %s (%s): %s%s\n", result.check.c_str(), result.on.c_str(), result.messages[0].c_str(),
                 n_more > 0 ? concat(" (and ", n_more, " more)").c_str() : "");
  };
  for (const auto& path : {arguments.report, arguments.junit}) check_folder_of(path);
  const auto report = conformance::verify(arguments.file, options);
  const auto text = conformance::write_markdown(report);
  if (arguments.report.empty()) std::fprintf(stdout, "%s\n", text.c_str());
  write(arguments.report, text);
  write(arguments.junit, conformance::write_junit(report));
  const auto n_failed = report.count(Verdict::failed);
  const auto verdict = !arguments.checks.empty() ? concat("in the checks ", join(arguments.checks))
                       : n_failed == 0           ? "conforms"
                                                 : "does not conform";
  std::printf("%s %s: %ld passed, %ld failed, %ld not applicable\n", report.plugin.c_str(), verdict.c_str(),
              report.count(Verdict::passed), n_failed, report.count(Verdict::not_applicable));
  return n_failed == 0 ? kOk : kSuspect;
}

int new_python_plugin(const std::string& name, const std::string& into) {
  const auto folder = write_new_plugin(name, into, find_paths().plugins, PluginLanguage::python);
  std::printf("Wrote %s/{%s.py,test_%s.py}. Verify and use it:\n\n", folder.c_str(), name.c_str(), name.c_str());
  std::printf("  kvc plugin verify %s/%s.py\n", folder.c_str(), name.c_str());
  std::printf("  kvc run x.yaml    # with `- %s/%s.py` under `compressors:`\n", folder.c_str(), name.c_str());
  return kOk;
}

int new_plugin(const std::string& name, const std::string& into) {
  const auto paths = find_paths();
  const auto folder = write_new_plugin(name, into, paths.plugins);
  const auto build = folder / "build";
  std::printf("Wrote %s/{CMakeLists.txt,%s.cpp}. Build, verify and use it:\n\n", folder.c_str(), name.c_str());
  const char* torch = std::getenv("KVC_TORCH");  // as the wheel's command found it; a build folder knows its own
  std::printf("  cmake -S %s -B %s -DCMAKE_PREFIX_PATH=%s%s && cmake --build %s\n", folder.c_str(), build.c_str(),
              paths.program.parent_path().parent_path().c_str(), torch ? concat(" -DKVC_TORCH=", torch).c_str() : "",
              build.c_str());
  std::printf("  kvc plugin verify %s/%s.so\n", build.c_str(), name.c_str());
  std::printf("  kvc run x.yaml    # with `plugin_path: [%s]` and `- %s` under `compressors:`\n", build.c_str(),
              name.c_str());
  return kOk;
}

}  // namespace

void add_plugin_verbs(Verb program) {
  auto plugin = program.add_subcommand("plugin", "Creates a new compressor, or runs the conformance tests on one");
  plugin.require_subcommand();

  struct NewArguments {
    std::string name, into = ".";
    bool python = false;
  };
  auto made = std::make_shared<NewArguments>();
  auto new_verb =
      plugin.add_subcommand("new", "Writes a working template: NAME/CMakeLists.txt and NAME/NAME.cpp, or Python");
  new_verb.add_option("name", made->name, "lower-case letters, digits and underscores").required();
  new_verb.add_option("--into", made->into, "folder to write NAME/ into").show_default();
  new_verb.add_flag("--python", made->python, "a compressor in Python: NAME/NAME.py, with a test");
  new_verb.on_call(
      [made] { return made->python ? new_python_plugin(made->name, made->into) : new_plugin(made->name, made->into); });

  auto arguments = std::make_shared<VerifyArguments>();
  auto verify = plugin.add_subcommand("verify", "Runs the conformance tests on a plugin, each in a child process");
  verify.add_option("file", arguments->file, "the plugin's .so, or a Python file").required();
  verify.add_option("--option", arguments->options, "name=value (default: every listed value of every option)");
  verify.add_option("--check", arguments->checks, "only these checks, by name (default: all)");
  verify.add_option("--report", arguments->report, "write the report to this Markdown file instead of printing it");
  verify.add_option("--junit", arguments->junit, "also write the report as JUnit XML");
  verify.add_flag("--paranoid", arguments->paranoid,
                  "put guard pages around tensors, so that an out-of-bounds write fails its check");
  verify.add_option("--device", arguments->device, "device of the caches: cpu, cuda:N or cuda-emulated").show_default();
  verify
      .add_option("--isolation", arguments->isolation,
                  "whether it runs in a process of its own: process, none (default: process, unless built with kvc)")
      .choices({"process", "none"});
  verify.add_option("--timeout", arguments->timeout, "time limit per check, in seconds").positive().show_default();
  verify.on_call([arguments] { return verify_plugin(*arguments); });
}

}  // namespace kvc
