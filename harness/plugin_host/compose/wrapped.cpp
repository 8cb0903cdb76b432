#include "compose/wrapped.h"

#include <cmath>

#include "kvc/joint_prefill.h"

namespace kvc {
namespace {

class Wrapped : public Compressor {
 public:
  Wrapped(Part part, MakeWrapped make) : part_(std::move(part)), make_(std::move(make)) {}

  void check_model(const ModelShape& model) const override { part_.compressor->check_model(model); }
  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    return make_(info, *part_.compressor, part_.n_stages);
  }
  double bits() const override { return part_.compressor->bits(); }
  double paper_bytes(const ModelShape&, int64_t, int64_t) const override { return std::nan(""); }

 protected:
  const Part& part() const { return part_; }

 private:
  Part part_;
  MakeWrapped make_;
};

// Of a part that acts at the prompt's end.
class JointWrapped final : public Wrapped, public JointPrefill {
 public:
  using Wrapped::Wrapped;
  void finish_prefill(std::span<LayerCache* const> caches) const override {
    std::vector<LayerCache*> inner;
    for (auto* cache : caches) {
      auto& of_part = dynamic_cast<ComposedCache&>(*cache).prompt();
      if (of_part.length() > 0) inner.push_back(&of_part);
    }
    if (!inner.empty()) kvc::finish_prefill(*part().compressor, inner);
  }
};

}  // namespace

Part wrapped(const char* name, Part part, MakeWrapped make) {
  KVC_CHECK(!dynamic_cast<const ObservationPass*>(part.compressor.get()), name, ": ", part.name,
            " observes the whole prompt in a pass of its own, and would hold a part of it alone");
  Part whole{.name = concat(name, "(", part.name, ")"),
             .compressor = nullptr,
             .capabilities = part.capabilities,
             .n_stages = part.n_stages};
  whole.capabilities.one_by_one_same = whole.capabilities.prefix_local = false;
  whole.capabilities.formula = "";
  if (dynamic_cast<const JointPrefill*>(part.compressor.get())) {
    whole.compressor = std::make_unique<JointWrapped>(std::move(part), std::move(make));
  } else {
    whole.compressor = std::make_unique<Wrapped>(std::move(part), std::move(make));
  }
  return whole;
}

}  // namespace kvc
