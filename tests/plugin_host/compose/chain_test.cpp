// Chains against the same steps taken by hand with the parts alone.
#include <gtest/gtest.h>

#include "parts.h"
#include "sandbox/memory_meter.h"

namespace kvc::test {
namespace {

using conformance::ordinary_input;
using conformance::tokens_of;

constexpr int64_t H = 2, D = 64;

const char kSnap[] = R"({"capacity": 64, "window": 16})";
const char kBackbone[] = R"({"bits": 2, "group_size": 32, "recent": 0, "precision": "exact"})";

TEST(EvictingChain, QuantizesTheKeptTokensAsByHand) {
  const auto chain = make_chain(parts(plugin_part("snapkv", kSnap), plugin_part("kivi", kKivi)), std::nullopt);
  const auto snapkv = plugin_part("snapkv", kSnap), kivi = plugin_part("kivi", kKivi);
  const auto input = ordinary_input(kModel, 240);
  const auto cache = filled(*chain.compressor, info_of(1), input, 200);

  const auto evicted = snapkv.compressor->make_cache(info_of(1));
  evicted->append(tokens_of(input, 0, 200));
  const auto by_hand = kivi.compressor->make_cache(info_of(1));
  const auto kept = evicted->dequantize();
  by_hand->append({{}, kept.k, kept.v, 0});
  for (int64_t t = 200; t < 240; ++t) {
    auto token = tokens_of(input, t, 1);
    token.first_position = by_hand->length();
    by_hand->append(token);
  }
  EXPECT_TRUE(same(cache->dequantize(), by_hand->dequantize()));
  EXPECT_TRUE(at::equal(cache->positions().narrow(1, 0, 64), evicted->positions()));
  EXPECT_TRUE(at::equal(cache->positions().narrow(1, 64, 40), at::arange(200, 240).expand({H, 40})));
  EXPECT_FALSE(at::equal(cache->positions()[0], cache->positions()[1])) << "the heads chose alike: a weak test";
  EXPECT_EQ(cache->length(), 240);
  EXPECT_EQ(cache->n_encoded_tokens(), 240 - 104 + by_hand->n_encoded_tokens());
  const auto q = input.q.narrow(1, 239, 1);
  EXPECT_TRUE(at::equal(cache->attend(q, 0.125), by_hand->attend(q, 0.125)));  // on the codes, not on floats
}

TEST(EvictingChain, HoldsTheStorageAndThePositionsAlone) {
  const auto chain =
      make_chain(parts(plugin_part("snapkv", kSnap), plugin_part("token_group", R"({"bits": 4})")), std::nullopt);
  const auto input = ordinary_input(kModel, 230);
  const MemoryMeter live;
  const auto cache = filled(*chain.compressor, info_of(1), input, 200);
  const int64_t n_held = 64 + 30, token = H * (D / 2 + 4);  // codes of 4 bits, a scale and a zero of 16
  EXPECT_EQ(stage_bytes(*cache), (std::vector<int64_t>{0, 4 * H * 64, 2 * n_held * token}));
  EXPECT_EQ(cache->footprint().total_bytes(), live.live_bytes(MemoryMeter::kModel));
}

TEST(EvictingChain, HeadsThatAgreeShareTheirPositions) {
  const auto chain =
      make_chain(parts(plugin_part("window", R"({"sinks": 4, "recent": 60})"), plugin_part("fp8")), std::nullopt);
  const auto cache = filled(*chain.compressor, info_of(0), ordinary_input(kModel, 150), 140);
  EXPECT_EQ(stage_bytes(*cache)[1], 4 * 64);
  const auto positions = at::cat({at::arange(4), at::arange(80, 150)});
  EXPECT_TRUE(at::equal(cache->positions(), positions.expand({H, 74})));
}

TEST(EvictingChain, AShortPromptStaysWhole) {
  const auto chain = make_chain(parts(plugin_part("snapkv", kSnap), plugin_part("kivi", kKivi)), std::nullopt);
  const auto kivi = plugin_part("kivi", kKivi);
  const auto input = ordinary_input(kModel, 90);
  const auto cache = filled(*chain.compressor, info_of(2), input, 60);
  const auto alone = filled(*kivi.compressor, info_of(2), input, 60);
  EXPECT_EQ(stage_bytes(*cache), (std::vector<int64_t>{0, 0, alone->footprint().total_bytes()}));
  EXPECT_TRUE(at::equal(cache->positions(), alone->positions()));
}

// Sum over the stages of what each, alone, makes of what the ones before it left.
TEST(ErrorChain, StagesStoreWhatIsLeft) {
  const char kGear[] = R"({"backbone": "none", "rank": 4, "decode_rank": 4, "sparsity": 0.02, "precision": "exact"})";
  const auto chain = make_chain(parts(plugin_part("kivi", kBackbone), plugin_part("gear", kGear)), 32);
  const auto kivi = plugin_part("kivi", kBackbone), gear = plugin_part("gear", kGear);
  const auto input = ordinary_input(kModel, 106);
  const auto cache = filled(*chain.compressor, info_of(1), input, 70);  // 64 + 6 waiting; 36 more: one block, 10 wait

  const auto k16 = input.k.to(at::kHalf).to(at::kFloat), v16 = input.v.to(at::kHalf).to(at::kFloat);  // they waited
  const auto expected_chunk = [&](int64_t first, int64_t n, uint64_t key) {
    auto info = info_of(1);
    info.sequence_key = key;
    const auto k = k16.narrow(1, first, n).contiguous(), v = v16.narrow(1, first, n).contiguous();
    const auto a = kivi.compressor->make_cache(info), b = gear.compressor->make_cache(info);
    a->append({{}, k, v, 0});
    b->append({{}, k - a->dequantize().k, v - a->dequantize().v, 0});
    return KeyValue{a->dequantize().k + b->dequantize().k, a->dequantize().v + b->dequantize().v};
  };
  const auto held = cache->dequantize();
  const auto prompt = expected_chunk(0, 64, 7), block = expected_chunk(64, 32, 7 + 0x9e3779b97f4a7c15u);
  EXPECT_TRUE(at::equal(held.k.narrow(1, 0, 64), prompt.k) && at::equal(held.v.narrow(1, 0, 64), prompt.v));
  EXPECT_TRUE(at::equal(held.k.narrow(1, 64, 32), block.k) && at::equal(held.v.narrow(1, 64, 32), block.v));
  EXPECT_TRUE(at::equal(held.k.narrow(1, 96, 10), k16.narrow(1, 96, 10)));
  EXPECT_EQ(cache->n_encoded_tokens(), 96);
  EXPECT_EQ(stage_bytes(*cache)[0], 4 * H * D * 10);
}

// Outliers alone take the smallest and largest entries of each vector of the error away, and leave the others as they
// are: of a token's 128 values of V the two ends of 6 each at a sparsity of 0.1.
TEST(ErrorChain, OutliersLeaveTheInnerEntriesOfTheError) {
  const char kOutliers[] =
      R"({"backbone": "none", "rank": 0, "decode_rank": 0, "sparsity": 0.1, "precision": "exact"})";
  const auto chain = make_chain(parts(plugin_part("kivi", kBackbone), plugin_part("gear", kOutliers)), 64);
  const auto kivi = plugin_part("kivi", kBackbone);
  auto input = ordinary_input(kModel, 128);
  input.v = input.v.to(at::kHalf).to(at::kFloat);
  const auto with = filled(*chain.compressor, info_of(1), input, 128);
  const auto alone = filled(*kivi.compressor, info_of(1), input, 128);
  const auto error = (input.v - alone->dequantize().v).transpose(0, 1).reshape({128, H * D});
  const auto inner = std::get<0>(error.sort(1)).narrow(1, 6, 128 - 12);
  EXPECT_NEAR(squares(input.v - with->dequantize().v), squares(inner), 1e-5 * squares(inner));
  EXPECT_LT(squares(inner), 0.9 * squares(error));
}

// A low-rank part that is an orthogonal projection of the error takes exactly its own square from it (Pythagoras).
TEST(ErrorChain, AProjectionTakesItsSquareFromTheError) {
  const char kLowRank[] = R"({"backbone": "none", "rank": 8, "decode_rank": 8, "sparsity": 0, "precision": "exact"})";
  const auto chain = make_chain(parts(plugin_part("kivi", kBackbone), plugin_part("gear", kLowRank)), 64);
  const auto kivi = plugin_part("kivi", kBackbone);
  auto input = ordinary_input(kModel, 256);
  input.k = input.k.to(at::kHalf).to(at::kFloat), input.v = input.v.to(at::kHalf).to(at::kFloat);
  const auto with = filled(*chain.compressor, info_of(1), input, 256)->dequantize();
  const auto alone = filled(*kivi.compressor, info_of(1), input, 256)->dequantize();
  for (const auto& [x, both, one] : {std::tuple{input.k, with.k, alone.k}, std::tuple{input.v, with.v, alone.v}}) {
    const double before = squares(x - one), taken = squares(both - one), after = squares(x - both);
    EXPECT_NEAR(after, before - taken, 1e-3 * before);
    EXPECT_GT(taken, 0.05 * before);
  }
}

TEST(ErrorChain, HoldsOneTensorAlone) {
  const auto chain =
      make_chain(parts(plugin_part("token_group", R"({"bits": 2})"), plugin_part("token_group", R"({"bits": 2})")), 16);
  ASSERT_TRUE(chain.capabilities.splits);
  const auto input = ordinary_input(kModel, 60);
  const auto both = filled(*chain.compressor, info_of(1), input, 40)->dequantize();
  EXPECT_TRUE(same(filled(*chain.compressor, info_of(1, Holds::k), input, 40)->dequantize(), {both.k, {}}));
  EXPECT_TRUE(same(filled(*chain.compressor, info_of(1, Holds::v), input, 40)->dequantize(), {{}, both.v}));
}

TEST(Chain, EvictionThenBackboneAndReducer) {
  const auto chain = make_chain(parts(plugin_part("snapkv", kSnap), plugin_part("rtn", R"({"bits": 2})"),
                                      plugin_part("token_group", R"({"bits": 2})")),
                                16);
  EXPECT_EQ(chain.name, "snapkv+rtn+token_group");
  EXPECT_EQ(chain.n_stages, 3);
  const auto input = ordinary_input(kModel, 220);
  const MemoryMeter live;
  const auto cache = filled(*chain.compressor, info_of(1), input, 200);
  EXPECT_EQ(cache->dequantize().k.size(1), 64 + 20);
  const auto bytes = stage_bytes(*cache);  // 64 kept and 20 new: 80 encoded, 4 wait
  EXPECT_EQ(bytes, (std::vector<int64_t>{4 * H * D * 4, 4 * H * 64, 2 * 80 * (H * 16 + 2), 2 * 80 * H * (16 + 4)}));
  EXPECT_EQ(cache->footprint().total_bytes(), live.live_bytes(MemoryMeter::kModel));
}

TEST(Chain, TimesOfStagesAndItsOwnAreNotNegativeAndCounted) {
  const auto chain = make_chain(parts(plugin_part("kivi", kBackbone), plugin_part("fp8")), 64);
  const auto input = ordinary_input(kModel, 200);
  const auto cache = filled(*chain.compressor, info_of(1), input, 190);
  cache->attend(input.q.narrow(1, 199, 1), 0.125);
  for (const auto& use : dynamic_cast<const ComposedCache&>(*cache).stages()) {
    EXPECT_GT(use.encode_seconds, 0);
    EXPECT_GT(use.attend_seconds, 0);
  }
}

TEST(Chain, RefusesWhatDoesNotGoTogether) {
  const auto refusal = [](std::vector<Part> stages, std::optional<int64_t> block = {}) {
    return message_of([&] { make_chain(std::move(stages), block).compressor->check_model(kModel); });
  };
  EXPECT_EQ(
      refusal(parts(plugin_part("kivi"), plugin_part("window"))),
      "chain: stage 2 (window) evicts, and only the first stage may: those after it get the tokens that it keeps");
  EXPECT_EQ(refusal(parts(plugin_part("window"), plugin_part("kvquant"))),
            "chain: stage 2 (kvquant) wants keys before RoPE, which takes tokens at the positions of the text; a chain "
            "hands on kept tokens without them");
  EXPECT_EQ(refusal(parts(plugin_part("full"), plugin_part("kivi"))),
            "chain: stage 1 (full) is lossless and leaves no error for the stages after it");
  EXPECT_EQ(refusal(parts(plugin_part("window"), plugin_part("kivi")), 64),
            "chain: block 64, and no stage stores the error of another: expected none");
  EXPECT_EQ(
      refusal(parts(plugin_part("kivi"), plugin_part("rtn"))),
      "chain: stage 1 (kivi) encodes 0 of a block of 64 tokens and keeps the others uncompressed, so that the stages "
      "after it get no error; expected all: give it no window of recent tokens, or make `block` a multiple of its own "
      "block");
  EXPECT_EQ(refusal(parts(plugin_part("window"), plugin_part("token_group", R"({"group_size": 48})"))),
            "chain: stage 2 (token_group): token_group: group_size 48 does not divide head_dim 64");
}

TEST(Chain, SaysItsBitsAndThePapersBytes) {
  const auto evicting = make_chain(parts(plugin_part("snapkv", kSnap), plugin_part("kivi", kKivi)), std::nullopt);
  EXPECT_EQ(evicting.compressor->bits(), 2);
  EXPECT_TRUE(std::isnan(evicting.compressor->paper_bytes(kModel, 200, 10)));
  const auto correcting = make_chain(parts(plugin_part("rtn", R"({"bits": 2})"), plugin_part("fp8")), std::nullopt);
  EXPECT_EQ(correcting.compressor->bits(), 2);
  EXPECT_EQ(correcting.compressor->paper_bytes(kModel, 200, 10), 210 * H * D * (2 * 2 / 8.0 + 2));
}

}  // namespace
}  // namespace kvc::test
