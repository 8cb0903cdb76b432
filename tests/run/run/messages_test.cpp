// What parent and worker tell each other is what they meant, whatever the numbers.
#include "wire/messages.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wire/line_buffer.h"

namespace kvc {
namespace {

template <class Message>
Message sent(const Message& message) {  // as a line of JSON
  return nlohmann::json::parse(nlohmann::json(message).dump()).get<Message>();
}

TEST(Messages, EveryFieldOfAMeasurementArrivesUnderItsName) {
  GenerateResult result;
  int n = 0;
  Measurement::visit(result.measured, [&](const char*, auto& value) { value = ++n; });
  const auto arrived = sent(result);
  int64_t expected = 0;
  Measurement::visit(arrived.measured,
                     [&](const char* name, const auto& value) { EXPECT_EQ(value, ++expected) << name; });
  EXPECT_GT(n, 15);
}

TEST(Messages, WhatIsNoNumberOrNotObservedArrivesAsThat) {
  LikelihoodResult result;
  result.measured.paper_bytes = result.measured.k_error = std::nan("");
  const auto arrived = sent(result).measured;
  EXPECT_TRUE(std::isnan(arrived.paper_bytes));
  EXPECT_TRUE(std::isnan(arrived.k_error));
  EXPECT_EQ(arrived.v_error, 0);
  EXPECT_EQ(arrived.peak_bytes, std::nullopt);
  EXPECT_TRUE(std::isnan(sent(ProbeResult{{{"rel_fro", 0, -1, "k", -1, std::nan("")}}}).rows.at(0).value));
}

TEST(Messages, ARowOfBytesKeepsLayerStageAndKind) {
  GenerateResult result;
  result.bytes = {{.layer = 3, .tensor = "v", .kind = "codes", .bytes = 5, .stage = 2}};
  const auto arrived = sent(result).bytes.at(0);
  EXPECT_EQ(std::tie(arrived.layer, arrived.tensor, arrived.kind, arrived.bytes, arrived.stage),
            std::tuple(3, "v", "codes", 5, 2));
}

TEST(Messages, AJobArrivesAsItsKind) {
  Job job{.id = 7, .sequence_key = ~uint64_t{0}, .compressors = {0, 2}};
  job.asked = LikelihoodJob{{{{1, 2}, {{3, 4}, {5}}, 1, 0, 2}}, 1};
  const auto scored = sent(job);
  EXPECT_EQ(std::tuple(scored.id, scored.sequence_key, scored.compressors),
            std::tuple(7, ~uint64_t{0}, std::vector{0, 2}));
  EXPECT_EQ(std::get<LikelihoodJob>(scored.asked).reference, 1);
  const auto& prompt = std::get<LikelihoodJob>(scored.asked).prompts.at(0);
  EXPECT_EQ(std::tuple(prompt.n_given, prompt.n_shared_tokens, prompt.continuations.at(1)),
            std::tuple(1, 2, std::vector<int64_t>{5}));
  job.asked = SizesJob{{100, 200}};
  EXPECT_EQ(std::get<SizesJob>(sent(job).asked).n_tokens, (std::vector<int64_t>{100, 200}));
  EXPECT_EQ(sent(JobResult{7, 2, FailedResult{"it threw"}}).error(), "it threw");
}

TEST(Messages, AnAnswerIsOfOneKindThatThereIs) {
  const std::string failed = R"("failed": {"error": "x"})", sizes = R"("sizes": {"sizes": []})";
  for (const auto& answer : {"{" + failed + "}", "{" + sizes + "}"}) {
    EXPECT_NO_THROW(nlohmann::json::parse(R"({"job": 0, "compressor": 0, "answer": )" + answer + "}").get<JobResult>());
  }
  for (const auto& answer : {"{" + failed + "," + sizes + "}", std::string("{}"), std::string("[]"), std::string("7"),
                             std::string("null"), std::string(R"({"sizes": {}})"), std::string(R"({"magic": {}})")}) {
    EXPECT_THROW(std::ignore =
                     nlohmann::json::parse(R"({"job": 0, "compressor": 0, "answer": )" + answer + "}").get<JobResult>(),
                 nlohmann::json::exception)
        << answer;
  }
}

TEST(Messages, ACompositionArrivesWithAllOfItsParts) {
  CompressorChoice chain{"chain", nlohmann::json::object(), "x.yaml:1:1", CompressorChoice::Kind::chain};
  chain.block = 32;
  CompressorChoice rules{"rules", nlohmann::json::object(), "x.yaml:2:1", CompressorChoice::Kind::rules};
  CompressorChoice plugin{"kivi", {{"bits", 2}}, "x.yaml:3:1"};
  plugin.file = "/a/kivi.so";
  plugin.sha256 = std::string(64, 'a');
  rules.parts = {plugin, plugin};
  rules.scopes = {{.layers = {{0, 3}, {5, 5}}, .tensor = CacheTensor::v, .decode = false}};
  chain.parts = {plugin, rules};
  chain.label = "both";
  const auto arrived = sent(chain);
  EXPECT_EQ(nlohmann::json(arrived), nlohmann::json(chain));
  EXPECT_EQ(arrived.kind, CompressorChoice::Kind::chain);
  EXPECT_EQ(arrived.block, 32);
  const auto& inner = arrived.parts.at(1);
  EXPECT_EQ(inner.kind, CompressorChoice::Kind::rules);
  EXPECT_EQ(inner.block, std::nullopt);
  EXPECT_EQ(to_string(inner.scopes.at(0)), "layers 0-3,5, v, prompt");
  EXPECT_EQ(inner.parts.at(1).file, "/a/kivi.so");
  EXPECT_EQ(inner.parts.at(1).options, (nlohmann::json{{"bits", 2}}));
}

TEST(LineBuffer, GivesEachLineOnceHoweverItComes) {
  LineBuffer lines;
  std::vector<std::string> got;
  for (const char* piece : {"a", "b\n", "\nc\nd", "e", "\n", "f"}) {
    lines.append(piece);
    EXPECT_EQ(lines.has_line(), std::string(piece).find('\n') != std::string::npos);
    while (const auto line = lines.next()) got.push_back(*line);
  }
  EXPECT_EQ(got, (std::vector<std::string>{"ab", "", "c", "de"}));
  EXPECT_EQ(lines.n_bytes(), 1u);
}

}  // namespace
}  // namespace kvc
