// The Hub as a server of the test's own: what it lists, gives and refuses.
#include "fetch/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "fetch/hub_listing.h"
#include "kvc/check.h"
#include "support/hub.h"
#include "support/message_of.h"
#include "support/server.h"
#include "support/temp_folder.h"
#include "text/files.h"

namespace kvc::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kCommit(40, 'a');
// `git hash-object` of "{}\n" and of "hello\n"
constexpr const char* kBraces = "0967ef424bce6791893e9a57bb952f80fd536e93";
constexpr const char* kHello = "ce013625030ba8dba906f756967f9e9ca394464a";

json listing() {
  return {
      {"sha", kCommit},
      {"siblings",
       {hub_file("config.json", 3, kBraces), hub_file("tokenizer.json", 6, kHello), hub_file("README.md", 7, kHello),
        hub_lfs_file("model.safetensors", body()), hub_lfs_file("pytorch_model.bin", "pickle")}}};
}

class HubTest : public testing::Test {
 protected:
  HubTest() {
    places_.own = root_ / "own";
    places_.shared = root_ / "shared";
    places_.n_tries = 2;
    places_.pause = std::chrono::milliseconds(1);
  }
  // The whole Hub; `refused`: answers by path instead.
  std::string answer(const std::string& request) {
    const auto path = path_of(request);
    for (const auto& [part, text] : instead_) {
      if (path.find(part) != std::string::npos) return text;
    }
    if (path.starts_with("/api/models/o/n/revision/")) return http(listing_.dump(), "");
    if (path.ends_with("/config.json")) return http("{}\n", request);
    if (path.ends_with("/tokenizer.json")) return http("hello\n", request);
    if (path.ends_with("/model.safetensors")) return http(body(), request);
    return status(404);
  }
  HubModel get(const std::string& id) {
    const auto parsed = parse_hub_id(id);
    return fetch_hub_model(parsed, list_hub_model(parsed, places_), places_, [](int64_t) {});
  }
  std::string refusal(const std::string& id = "hf:o/n") {
    return message_of([&] { get(id); });
  }
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  TempFolder root_;
  json listing_ = listing();
  std::map<std::string, std::string> instead_;
  HubPlaces places_;
  Server server_{[this](const std::string& request, int) { return answer(request); }};
  bool pointed_ = (places_.endpoint = server_.endpoint(), true);
};

TEST_F(HubTest, BringsWhatAModelIsReadFromAndNothingElse) {
  const auto model = get("hf:o/n");
  EXPECT_EQ(model.commit, kCommit);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(model.folder)) names.push_back(entry.path().filename());
  EXPECT_THAT(names, testing::UnorderedElementsAre("config.json", "tokenizer.json", "model.safetensors"));
  EXPECT_EQ(read_file(model.folder / "model.safetensors"), body());
  EXPECT_THAT(model.folder.filename().string(), "o--n@" + kCommit);
}

TEST_F(HubTest, AResolvedRevisionIsFoundWithoutAskingAgain) {
  EXPECT_FALSE(find_hub_model(parse_hub_id("hf:o/n"), places_));
  get("hf:o/n");
  const auto n_requests = server_.requests().size();
  listing_["sha"] = std::string(40, 'b');  // the branch moved on
  EXPECT_EQ(find_hub_model(parse_hub_id("hf:o/n"), places_)->commit, kCommit);
  EXPECT_TRUE(find_hub_model(parse_hub_id("hf:o/n@" + kCommit), places_));
  EXPECT_FALSE(find_hub_model(parse_hub_id("hf:o/n@v2"), places_));
  EXPECT_EQ(server_.requests().size(), n_requests);
}

TEST_F(HubTest, WhatIsWholeInTheCacheIsListed) {
  EXPECT_TRUE(own_hub_models(places_).empty());
  get("hf:o/n");
  fs::create_directories(places_.own / ("a--b@" + kCommit + ".part"));
  fs::create_directories(places_.own / "other");
  const auto models = own_hub_models(places_);
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0].first.written(), "hf:o/n@" + kCommit);
  EXPECT_EQ(models[0].second.folder, find_hub_model(parse_hub_id("hf:o/n"), places_)->folder);
}

TEST_F(HubTest, AFolderThatIsGoneIsFetchedAgain) {
  fs::remove_all(get("hf:o/n").folder);
  EXPECT_FALSE(find_hub_model(parse_hub_id("hf:o/n"), places_));
  EXPECT_TRUE(fs::exists(get("hf:o/n").folder / "model.safetensors"));
}

TEST_F(HubTest, TwoRevisionsOfOneCommitShareItsFolder) {
  const auto main = get("hf:o/n");
  const auto n_requests = server_.requests().size();
  EXPECT_EQ(get("hf:o/n@refs/pr/1").folder, main.folder);
  EXPECT_EQ(server_.requests().size(), n_requests + 1);  // the listing alone
  EXPECT_THAT(server_.requests().back(), HasSubstr("/revision/refs%2Fpr%2F1?"));
}

TEST_F(HubTest, GoesOnWithWhatABrokenCallBrought) {
  instead_["model.safetensors"] = http(body(), "", 50'000);
  places_.n_tries = 1;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("hf:o/n: "), HasSubstr("bytes are kept")));
  EXPECT_FALSE(find_hub_model(parse_hub_id("hf:o/n"), places_));
  instead_.clear();
  const auto n_before = server_.requests().size();
  EXPECT_EQ(read_file(get("hf:o/n").folder / "model.safetensors"), body());
  const auto requests = server_.requests();
  ASSERT_EQ(requests.size(), n_before + 2);  // listing and weights: the small files are there
  EXPECT_GE(asked_from(requests.back()), 50'000u);
}

TEST_F(HubTest, AFileOfAnotherHashIsRefused) {
  auto other = body();
  other[7] = '?';
  instead_["model.safetensors"] = http(other, "");
  EXPECT_THAT(refusal(), HasSubstr("SHA-256 is " + sha256_hex(other)));
  fs::remove_all(places_.own);
  instead_ = {{"/config.json", http("{ }", "")}};
  EXPECT_THAT(refusal(), HasSubstr("git blob id is"));
  EXPECT_FALSE(find_hub_model(parse_hub_id("hf:o/n"), places_));
}

TEST_F(HubTest, AnAnswerOfTheServerSaysWhatToDo) {
  instead_["/api/"] = status(401);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("answered 401"), HasSubstr("set HF_TOKEN")));
  instead_["/api/"] = status(404);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("answered 404"), HasSubstr("no model o/n with a revision 'main'")));
  instead_ = {{"/resolve/", status(403)}};
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("answered 403"), HasSubstr("accept its terms at " + server_.endpoint() + "/o/n")));
  instead_ = {{"/api/", status(500)}};
  EXPECT_THAT(refusal(), HasSubstr("answered 500, 2 times"));
}

TEST_F(HubTest, TheTokenIsInNoMessageAndGoesToNoOtherHost) {
  places_.token = "hf_verysecret";
  Server other([](const auto& request, int) { return http(body(), request); });
  instead_["model.safetensors"] = redirect(other.url());
  get("hf:o/n");
  for (const auto& request : server_.requests()) EXPECT_TRUE(has_token(request, "hf_verysecret"));
  for (const auto& request : other.requests()) EXPECT_THAT(request, Not(HasSubstr("verysecret")));
  fs::remove_all(places_.own);
  for (const int code : {401, 403, 404, 500}) {
    instead_ = {{"/api/", status(code)}};
    EXPECT_THAT(refusal(), AllOf(HasSubstr(std::to_string(code)), Not(HasSubstr("verysecret"))));
  }
}

TEST_F(HubTest, HostileNamesAreNoFiles) {
  for (const auto* name : {"../config.json", "/etc/passwd", "a/model.safetensors", "model-../../x.safetensors", "",
                           "model-00001-of-0000/.safetensors", ".", "..", "config.json/", "model.safetensors.exe"}) {
    listing_["siblings"].push_back(hub_file(name, 3, kBraces));
  }
  listing_["siblings"].push_back(7);
  listing_["siblings"].push_back({{"rfilename", 7}});
  const auto found = read_hub_listing(listing_.dump(), "x");
  EXPECT_EQ(found.files.size(), 3u);
}

TEST_F(HubTest, AListingThatIsNoneIsRefused) {
  const auto refused = [](const json& answer) { return message_of([&] { read_hub_listing(answer.dump(), "x"); }); };
  EXPECT_THAT(message_of([] { read_hub_listing("<html>", "x"); }), HasSubstr("no JSON object"));
  const auto deep = std::string(100'000, '[');
  EXPECT_THAT(message_of([&] { read_hub_listing(deep, "x"); }), HasSubstr("no JSON object"));
  auto bad = listing();
  bad["sha"] = "../../../../x";
  EXPECT_THAT(refused(bad), HasSubstr("sha is"));
  bad = listing();
  bad["siblings"][0]["size"] = -1;
  EXPECT_THAT(refused(bad), HasSubstr("size is -1"));
  bad["siblings"][0]["size"] = 18446744073709551615ull;
  EXPECT_THAT(refused(bad), HasSubstr("size is 18446744073709551615"));
  bad = listing();
  bad["siblings"][0]["blobId"] = "../x";
  EXPECT_THAT(refused(bad), HasSubstr("blobId is"));
  bad = listing();
  bad["siblings"].push_back(bad["siblings"][0]);
  EXPECT_THAT(refused(bad), HasSubstr("listed twice"));
  bad = listing();
  bad["siblings"].erase(3);
  EXPECT_THAT(refused(bad), AllOf(HasSubstr("no model.safetensors"), HasSubstr("'pytorch_model.bin'")));
}

TEST_F(HubTest, ShardsComeWithTheirIndexAndVariantsStay) {
  auto sharded = listing();
  sharded["siblings"].erase(3);
  sharded["siblings"].push_back(hub_file("model.safetensors.index.json", 3, kBraces));
  sharded["siblings"].push_back(hub_lfs_file("model-00001-of-00002.safetensors", "1"));
  sharded["siblings"].push_back(hub_lfs_file("model-00002-of-00002.safetensors", "2"));
  sharded["siblings"].push_back(hub_lfs_file("model.fp16-00001-of-00002.safetensors", "3"));
  EXPECT_EQ(read_hub_listing(sharded.dump(), "x").files.size(), 5u);
  sharded["siblings"].push_back(hub_lfs_file("model.safetensors", "whole"));
  EXPECT_EQ(read_hub_listing(sharded.dump(), "x").files.size(), 3u);
}

class SharedCache : public HubTest {
 protected:
  SharedCache() {
    write(folder_ / "refs" / "main", kCommit);
    for (const auto* name : {"config.json", "tokenizer.json"}) write(snapshot_ / name, "{}");
    write(snapshot_ / "model.safetensors.index.json",
          R"({"weight_map": {"a": "s1.safetensors", "b": "s2.safetensors"}})");
    write(snapshot_ / "s1.safetensors", "x");
    write(folder_ / "blobs" / "s2", "x");
    fs::create_symlink("../../blobs/s2", snapshot_ / "s2.safetensors");
  }
  fs::path folder_ = places_.shared / "models--o--n", snapshot_ = folder_ / "snapshots" / kCommit;
};

TEST_F(SharedCache, IsUsedWhereItLies) {
  const auto found = find_hub_model(parse_hub_id("hf:o/n"), places_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->folder, snapshot_);
  EXPECT_TRUE(find_hub_model(parse_hub_id("hf:o/n@" + kCommit), places_));
  EXPECT_TRUE(server_.requests().empty());
  EXPECT_FALSE(fs::exists(places_.own));
}

TEST_F(SharedCache, OfAPartIsNone) {
  fs::remove(folder_ / "blobs" / "s2");
  EXPECT_FALSE(find_hub_model(parse_hub_id("hf:o/n"), places_));
}

TEST_F(SharedCache, WithABadRefOrIndexIsNone) {
  write(folder_ / "refs" / "main", "../../../etc");
  EXPECT_FALSE(find_hub_model(parse_hub_id("hf:o/n"), places_));
  write(folder_ / "refs" / "main", kCommit);
  for (const auto* index : {"", "[]", R"({"weight_map": 1})", R"({"weight_map": {}})"}) {
    write(snapshot_ / "model.safetensors.index.json", index);
    EXPECT_FALSE(find_hub_model(parse_hub_id("hf:o/n"), places_)) << index;
  }
}

TEST_F(HubTest, OfflineNoServerIsAsked) {
  places_.offline = true;
  EXPECT_THAT(refusal(), HasSubstr("HF_HUB_OFFLINE"));
  EXPECT_TRUE(server_.requests().empty());
}

TEST(HubId, IsOrganizationNameAndRevision) {
  EXPECT_EQ(parse_hub_id("hf:a/b").revision, "main");
  const auto id = parse_hub_id("hf:Org-1/Name_2.5@refs/pr/3");
  EXPECT_EQ(id.org, "Org-1");
  EXPECT_EQ(id.name, "Name_2.5");
  EXPECT_EQ(id.revision, "refs/pr/3");
  EXPECT_EQ(id.written(), "hf:Org-1/Name_2.5@refs/pr/3");
}

TEST(HubId, OfAnotherFormIsRefusedWithTheForm) {
  const auto long_name = "hf:a/" + std::string(97, 'x');
  for (const std::string id : {"hf:",        "hf:gpt2",  "hf:/b",          "hf:a/",         "hf:a/b/c",  "hf:a/b@",
                               "hf:../b",    "hf:a/..",  "hf:a/b@../../x", "hf:a/b@x/../y", "hf:a/b@/x", "hf:a/b@x/",
                               "hf:a b/c",   "hf:a/b\n", "hf:-a/b",        "hf:a/b@-x",     "hf:a--b/c", "hf:a/b?x=1",
                               "hf:a/b@x?y", "hf:a@b/c", "hf:a/b@x%2e",    "hf:a/b@x//y",   "hf:a/.b"}) {
    EXPECT_THAT(message_of([&] { parse_hub_id(id); }), AllOf(HasSubstr("expected hf:ORG/NAME"), Not(HasSubstr("\n"))))
        << id;
  }
  EXPECT_THROW(parse_hub_id(long_name), Error);
}

}  // namespace
}  // namespace kvc::test
