#include "kvc/shared.h"

namespace kvc {
namespace {

Shared::Hooks hooks;

}  // namespace

Shared::Shared() : entered_(hooks.enter ? hooks.enter() : nullptr) {}
Shared::~Shared() {
  if (entered_) hooks.leave(entered_);
}
void Shared::set_hooks(Hooks given) { hooks = given; }

}  // namespace kvc
