// `kvc plugin verify` on plugins that each do one thing wrong, and what `kvc plugin` refuses.
#include <gtest/gtest.h>

#include <set>

#include "program/stored.h"

namespace kvc::test {
namespace {

std::string bad_plugin(const std::string& name) {
  return std::string(KVC_BINARY_DIR) + "/tests/plugins/" + name + ".so";
}
std::string built_plugin(const std::string& name) { return std::string(KVC_BINARY_DIR) + "/plugins/" + name + ".so"; }

// The checks that standard error names: "FAIL  check (case): message"
std::set<std::string> failed_checks(const std::string& err) {
  std::set<std::string> checks;
  for (size_t at = 0; (at = err.find("FAIL  ", at)) != std::string::npos; at += 6) {
    checks.insert(err.substr(at + 6, err.find(' ', at + 6) - at - 6));
  }
  return checks;
}

struct Bad {
  const char* plugin;
  std::set<std::string> checks;  // those that fail, and no other
  const char* message;

  friend void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.plugin; }
};

const std::vector<Bad> kBad = {
    {"hides_bytes", {"footprint_equals_allocated_bytes", "lossy_means_lossy"}, "the allocator holds 4512"},
    {"lying_zero_error", {"lossy_means_lossy"}, "declared lossy, but returns exact keys"},
    {"wrong_attention",
     {"short_prompts_are_served", "attention_equals_reference", "decoding_300_steps_holds_together",
      "models_are_refused_or_served", "adversarial_inputs_stay_finite", "sixteen_bit_inputs_are_taken",
      "missing_queries_are_taken_or_refused", "answers_come_from_what_is_held"},
     "attend differs from the reference"},
    {"takes_nan", {"bad_tokens_are_refused"}, "NaN in k is taken after 0 tokens"},
    {"keeps_views",  // wherever a cache is filled
     {"inputs_are_not_modified", "adversarial_inputs_stay_finite", "answers_come_from_what_is_held",
      "attention_equals_reference", "decoding_300_steps_holds_together", "estimates_are_unbiased", "lossy_means_lossy",
      "models_are_refused_or_served", "process_grows_by_the_footprint", "same_input_gives_same_bits",
      "shapes_are_as_declared", "short_prompts_are_served", "sixteen_bit_inputs_are_taken", "two_threads_do_not_mix"},
     "append() kept the caller's k"},
    {"not_repeatable",  // in the checks that compare two caches
     {"same_input_gives_same_bits", "two_threads_do_not_mix", "sixteen_bit_inputs_are_taken"},
     "two caches of the same tokens differ"},
    {"breaks_promises",
     {"one_by_one_equals_at_once", "prefix_is_local"},
     "one by one differs from at once at 33 tokens"},
    {"shares_state", {"two_threads_do_not_mix"}, "differs when another thread fills a cache"},
    {"refuses_late",
     {"models_are_refused_or_served"},
     "head_dim 80: check_model takes it, then: refuses_late: head_dim 80"},
    {"exits",  // in the checks whose prompts have 97 tokens
     {"shapes_are_as_declared", "attention_equals_reference"},
     "ended the process with exit code 0 in check attention_equals_reference"},
};

class BadPlugin : public testing::TestWithParam<Bad> {};

TEST_P(BadPlugin, IsFoundByTheCheckOfWhatItDoes) {
  if (kIsSanitized && GetParam().plugin == std::string("keeps_views")) GTEST_SKIP() << "a sanitizer sees it first";
  TempFolder folder;
  const auto run = run_program(folder, {"plugin", "verify", bad_plugin(GetParam().plugin), "--isolation", "none"});
  EXPECT_EQ(run.exit_code, 5) << run.err;
  EXPECT_EQ(failed_checks(run.err), GetParam().checks) << run.err;
  EXPECT_TRUE(has(run.err, GetParam().message)) << run.err;
  EXPECT_TRUE(has(run.out, std::string("# ") + GetParam().plugin + ": does not conform")) << run.out;
}

INSTANTIATE_TEST_SUITE_P(Verify, BadPlugin, testing::ValuesIn(kBad),
                         [](const auto& info) { return std::string(info.param.plugin); });

TEST(Verify, SaysWhichSignalCrashedWhichCheckAndGoesOn) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer sees it first";
  TempFolder folder;
  const auto run = run_program(folder, {"plugin", "verify", bad_plugin("segfaults"), "--isolation", "none"});
  EXPECT_EQ(run.exit_code, 5) << run.err;
  EXPECT_TRUE(has(run.err, "crashed by signal 11 (Segmentation fault) in check attention_equals_reference")) << run.err;
  EXPECT_FALSE(failed_checks(run.err).contains("lossy_means_lossy")) << "runs after the crashes, without attending";
  EXPECT_TRUE(has(run.out, "| lossy_means_lossy |")) << run.out;
  const auto aborted = run_program(folder, {"plugin", "verify", bad_plugin("crashes"), "--isolation", "none"});
  EXPECT_TRUE(has(aborted.err, "crashed by signal 6 (Aborted) in check")) << aborted.err;
  const auto thrown = run_program(folder, {"plugin", "verify", bad_plugin("throws"), "--isolation", "none"});
  EXPECT_TRUE(has(thrown.err, "throws: throws: append called 3 times")) << thrown.err;
}

TEST(Verify, EndsACheckThatHangs) {
  TempFolder folder;
  const auto run =
      run_program(folder, {"plugin", "verify", bad_plugin("hangs"), "--isolation", "none", "--timeout", "1"});
  EXPECT_EQ(run.exit_code, 5) << run.err;
  EXPECT_TRUE(has(run.err, "no answer after 1 s in check shapes_are_as_declared")) << run.err;
}

// Memory that grows too much once is judged again, since a library may keep it; an opened file counts at once.
TEST(Verify, FindsAFileThatIsOpenedOnceAlthoughMemoryIsJudgedTwice) {
  TempFolder folder;
  const auto run = run_program(
      folder, {"plugin", "verify", KVC_BINARY_DIR "/tests/plugins/misbehaves.so", "--option", "how=opens_a_file_once",
               "--isolation", "none", "--check", "process_grows_by_the_footprint"});
  EXPECT_EQ(run.exit_code, 5) << run.err;
  EXPECT_NE(run.out.find("1 more open files, sockets or similar than before"), std::string::npos) << run.out;
  EXPECT_EQ(run.out.find("the process has grown by"), std::string::npos) << run.out;
}

TEST(Verify, PassesABuiltInPluginAndWritesBothReports) {
  TempFolder folder;
  const auto markdown = (folder / "r.md").string(), junit = (folder / "r.xml").string();
  const auto run = run_program(folder, {"plugin", "verify", built_plugin("rtn"), "--option", "bits=4", "--option",
                                        "precision=exact", "--report", markdown, "--junit", junit});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(has(run.out, "rtn conforms: ") && has(run.out, ", 0 failed, ")) << run.out;
  EXPECT_TRUE(has(read_file(markdown), "# rtn: conforms")) << read_file(markdown);
  EXPECT_TRUE(has(read_file(markdown), "bits 4, precision exact, heads 4/2, head_dim 64")) << read_file(markdown);
  const auto xml = read_file(junit);
  EXPECT_TRUE(has(xml, "<testsuite name=\"rtn\" tests=\"234\" failures=\"0\"")) << xml;  // 26 checks, 9 models
  EXPECT_TRUE(has(xml, "name=\"prefix_is_local\"><skipped message=\"not promised\"/>")) << xml;
}

TEST(Verify, ParanoidSeesWhatIsWrittenOutsideATensor) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer sees it first";
  TempFolder folder;
  const auto verify = [&](const std::string& plugin, const std::string& option) {
    return run_program(folder, {"plugin", "verify", plugin, "--option", option, "--paranoid", "--timeout", "20",
                                "--check", "attention_equals_reference", "one_by_one_equals_at_once"});
  };
  const auto bad = verify(KVC_BINARY_DIR "/tests/plugins/misbehaves.so", "how=writes_past_its_tensor");
  EXPECT_EQ(bad.exit_code, 5);
  EXPECT_TRUE(has(bad.err, "crashed by signal")) << bad.err;
  const auto good = verify(built_plugin("token_group"), "bits=2");
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_TRUE(has(good.out, "token_group in the checks attention_equals_reference, one_by_one_equals_at_once: "))
      << good.out;
}

TEST(Verify, SaysWhyAModelIsNotServed) {
  TempFolder folder;
  const auto run = run_program(folder, {"plugin", "verify", built_plugin("token_group"), "--option", "group_size=64"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(has(run.out, "refuses this model: token_group: group_size 64 does not divide head_dim 16")) << run.out;
  const auto none = run_program(folder, {"plugin", "verify", built_plugin("token_group"), "--option", "group_size=7"});
  EXPECT_EQ(none.exit_code, 5) << none.err;
  EXPECT_TRUE(has(none.err, "refuses every model of the suite: token_group: group_size 7")) << none.err;
}

TEST(Verify, RefusesBadInputInOneLine) {
  TempFolder folder;
  const auto refused = [&](std::vector<std::string> arguments, const std::string& part) {
    arguments.insert(arguments.begin(), {"plugin", "verify"});
    const auto run = run_program(folder, arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_TRUE(has(run.err, part)) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  };
  refused({"/nowhere/x.so"}, "/nowhere/x.so: no such plugin file");
  refused({bad_plugin("wrong_abi")}, "ABI version");
  refused({bad_plugin("not_a_plugin")}, "has no symbol kvc_plugin");
  refused({built_plugin("kivi"), "--option", "bit=4"}, "did you mean 'bits'");
  refused({built_plugin("kivi"), "--option", "bits=3"}, "option 'bits' is 3, allowed: 2, 4, 8");
  refused({built_plugin("kivi"), "--option", "bits"}, "--option 'bits', expected name=value");
  refused({built_plugin("kivi"), "--option", "bits=2", "--option", "bits=4"}, "--option 'bits' is given twice");
  refused({built_plugin("kivi"), "--report", "/nowhere/r.md"}, "/nowhere/r.md: no folder '/nowhere'");
}

TEST(NewPlugin, RefusesBadNamesAndWhatExists) {
  TempFolder folder;
  const auto refused = [&](const std::string& name, const std::string& part) {
    const auto run = run_program(folder, {"plugin", "new", name, "--into", folder.path().string()});
    EXPECT_EQ(run.exit_code, 2) << name;
    EXPECT_TRUE(has(run.err, part)) << run.err;
  };
  for (const auto* name : {"Foo", "3d", "a-b", "a/b", "..", "a b", "a;b"})
    refused(name, "allowed: a lower-case letter");
  refused(std::string(65, 'a'), "at most 64");
  refused("kivi", "'kivi' is a built-in plugin's");
  folder.write("mine/notes.txt", "keep me");
  refused("mine", "exists already");
  EXPECT_EQ(read_file(folder / "mine/notes.txt"), "keep me");
  EXPECT_FALSE(std::filesystem::exists(folder / "mine/mine.cpp"));
}

TEST(NewPlugin, WritesAtMost60LinesOfSource) {
  TempFolder folder;
  const auto run = run_program(folder, {"plugin", "new", "mine", "--into", (folder / "deep/er").string()});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto source = read_file(folder / "deep/er/mine/mine.cpp");
  EXPECT_LE(std::count(source.begin(), source.end(), '\n'), 60);
  EXPECT_FALSE(has(source, "@")) << source;
  EXPECT_TRUE(has(run.out, "kvc plugin verify " + (folder / "deep/er/mine/build/mine.so").string())) << run.out;
}

}  // namespace
}  // namespace kvc::test
