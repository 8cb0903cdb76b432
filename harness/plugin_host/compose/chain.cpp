#include "compose/chain_kinds.h"
#include "compose/compose.h"
#include "kvc/joint_prefill.h"

namespace kvc {
namespace {

std::string stage_name(const std::vector<Part>& stages, size_t i) {
  return concat("stage ", i + 1, " (", stages[i].name, ")");
}

Capabilities joint_capabilities(const std::vector<Part>& stages) {
  Capabilities joint{.lossy = false, .splits = true};
  for (const auto& stage : stages) {
    joint.lossy |= stage.capabilities.lossy;
    joint.estimates |= stage.capabilities.estimates;
    joint.simulated |= stage.capabilities.simulated;
    joint.splits &= stage.capabilities.splits;
    if (*joint.devices == 0) joint.devices = stage.capabilities.devices;
  }
  return joint;
}

void check_goes_on(const std::vector<Part>& stages, size_t i, bool first_evicts) {
  const auto& can = stages[i].capabilities;
  KVC_CHECK(!dynamic_cast<const JointPrefill*>(stages[i].compressor.get()), "chain: ", stage_name(stages, i),
            " acts once the prompt is in the caches of all layers, and a chain passes on the tokens of a layer as they "
            "come");
  KVC_CHECK(!can.evicts || i == 0, "chain: ", stage_name(stages, i),
            " evicts, and only the first stage may: those after it get the tokens that it keeps");
  KVC_CHECK(!can.turns_keys || (first_evicts && i == 0), "chain: ", stage_name(stages, i),
            " wants keys before RoPE, which takes tokens at the positions of the text; a chain hands on ",
            first_evicts ? "kept tokens" : "blocks of tokens", " without them");
}

}  // namespace

void check_part(const std::string& place, const Part& part, const ModelShape& model) {
  try {
    part.compressor->check_model(model);
  } catch (const Error& e) {
    throw Error(concat("chain: ", place, ": ", e.what()));
  }
}

bool stores_errors(const std::vector<Part>& stages) {
  return stages.size() > (stages.front().capabilities.evicts ? 2 : 1);
}

Part make_chain(std::vector<Part> stages, std::optional<int64_t> block) {
  KVC_CHECK(stages.size() >= 2, "chain: ", stages.size(), " stage, expected at least two");
  Part chain{.name = "", .compressor = nullptr, .capabilities = joint_capabilities(stages), .n_stages = 0};
  const bool evicts = stages.front().capabilities.evicts;
  for (size_t i = 0; i < stages.size(); ++i) {
    check_goes_on(stages, i, evicts);
    const bool corrected = i + 1 < stages.size() && !(evicts && i == 0);
    KVC_CHECK(!corrected || stages[i].capabilities.lossy, "chain: ", stage_name(stages, i),
              " is lossless and leaves no error for the stages after it");
    const bool nested = stages[i].name.find('/') != std::string::npos;
    chain.name += concat(i ? "+" : "", nested ? "(" : "", stages[i].name, nested ? ")" : "");
    chain.n_stages += stages[i].n_stages;
  }
  KVC_CHECK(!block || stores_errors(stages), "chain: block ", block.value_or(0),
            ", and no stage stores the error of another: expected none");
  if (!evicts) {
    chain.compressor = make_residual(std::move(stages), block.value_or(kDefaultBlock));
    return chain;
  }
  chain.capabilities.evicts = true;
  chain.capabilities.splits = false;
  chain.capabilities.turns_keys = stages.front().capabilities.turns_keys;
  Part evictor = std::move(stages.front());
  stages.erase(stages.begin());
  Part storage = stages.size() == 1 ? std::move(stages.front()) : make_chain(std::move(stages), block);
  chain.compressor = make_evicted(std::move(evictor), std::move(storage));
  return chain;
}

}  // namespace kvc
