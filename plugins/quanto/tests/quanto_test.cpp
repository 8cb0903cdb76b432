// quanto's printed sizes. The public code's records are in the census; what encoding again does is tested with the
// primitive.
#include "method.h"

namespace kvc::conformance {
namespace {

// TaDA's tables: its Quanto rows hold 0.25 (2 bits) and 0.37 to 0.38 (4 bits) of the 16-bit cache.
TEST(QuantoBytes, OfThePaperArePrintedAsThePaperPrintsThem) {
  const ModelShape model{.n_layers = 32, .n_heads = 32, .n_kv_heads = 8, .head_dim = 128};
  const double whole = 4.0 * 8 * 128 * 1000;
  EXPECT_NEAR(Method("quanto", {{"bits", 2}}).compressor().paper_bytes(model, 900, 100) / whole, 0.25, 0.005);
  EXPECT_NEAR(Method("quanto", {{"bits", 4}}).compressor().paper_bytes(model, 900, 100) / whole, 0.375, 0.005);
}

}  // namespace
}  // namespace kvc::conformance
