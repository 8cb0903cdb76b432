#include "sandbox/cuda_library.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>

#include <atomic>
#include <typeinfo>

#include "kvc/check.h"
#include "sandbox/ledger.h"

namespace kvc {
namespace {

std::atomic<bool> is_open = false;

}  // namespace

void open_cuda_library() {
  if (is_open) return;
  KVC_CHECK(::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL), ::dlerror(),
            " (`./kvc setup --gpu` installs LibTorch's CUDA libraries)");
  const auto& hooks = at::detail::getCUDAHooks();
  KVC_CHECK(typeid(hooks) != typeid(at::CUDAHooksInterface),
            "LibTorch was asked about CUDA before its library of CUDA ",
            "was opened, and has none until this process ends");
  ledger::spare_drivers();
  is_open = true;
}

bool is_cuda_open() { return is_open; }

}  // namespace kvc
