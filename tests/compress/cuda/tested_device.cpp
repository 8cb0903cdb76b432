#include "tested_device.h"

#include <cstdlib>
#include <memory_resource>
#include <string_view>

namespace kvc::tested {
namespace {

#ifdef KVC_HAVE_CUDA
constexpr bool kHasCuda = true;
namespace gpu = cuda;
#else
constexpr bool kHasCuda = false;
namespace gpu = cuda_emulated;
#endif

std::string_view device() {
  const char* name = std::getenv("KVC_TEST_DEVICE");
  return name ? name : "";
}

const Memory& memory() {
  static const Memory& chosen = [&]() -> const Memory& {
    if (!on_gpu()) return cuda_emulated::memory();
    gpu::memory().choose(std::atoi(device().substr(5).data()));
    return gpu::memory();
  }();
  return chosen;
}

class Reached final : public std::pmr::memory_resource {
  void* do_allocate(size_t bytes, size_t) override { return memory().reach(bytes); }  // of pages, on a GPU
  void do_deallocate(void* reached, size_t, size_t) override { memory().give_back(reached); }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

// A GPU's takes a system call and more, so small vectors share what was asked for.
std::pmr::memory_resource& pool() {
  static Reached reached;
  static auto& made =
      *new std::pmr::unsynchronized_pool_resource(&reached);  // as long as the process: so is the driver
  return made;
}

constexpr size_t kAlignment = 64;

}  // namespace

bool on_gpu() {
  static const bool is = kHasCuda && device().starts_with("cuda:");
  return is;
}

void* allocate(size_t bytes) {
  return on_gpu() ? pool().allocate(bytes, kAlignment) : ::operator new (bytes, std::align_val_t{kAlignment});
}
void give_back(void* memory, size_t bytes) {
  on_gpu() ? pool().deallocate(memory, bytes, kAlignment) : ::operator delete (memory, std::align_val_t{kAlignment});
}

void wait() { memory().wait(); }

const SampleKernels& sample_kernels() { return on_gpu() ? gpu::sample_kernels() : cuda_emulated::sample_kernels(); }
const Instructions& instructions() { return on_gpu() ? gpu::instructions() : cuda_emulated::instructions(); }

namespace {

const cuda_attend::Kernels& plain_attend() {
  return on_gpu() ? gpu::attend_kernels() : cuda_emulated::attend_kernels();
}
const cuda_products::Kernels& plain_products() {
  return on_gpu() ? gpu::product_kernels() : cuda_emulated::product_kernels();
}

// The kernel, and waiting for it.
template <auto plain, auto member>
struct Waiting;
template <auto plain, class Kernels, class... Arguments, void (*Kernels::*member)(Arguments...)>
struct Waiting<plain, member> {
  static void run(Arguments... arguments) {
    memory();
    (plain().*member)(arguments...);
    wait();
  }
};

}  // namespace

const cuda_attend::Kernels& attend_kernels() {
  using K = cuda_attend::Kernels;
  static constexpr K made{Waiting<plain_attend, &K::attend>::run, Waiting<plain_attend, &K::join>::run};
  return made;
}

const cuda_products::Kernels& product_kernels() {
  using K = cuda_products::Kernels;
  constexpr auto of = plain_products;
  static constexpr K made{Waiting<of, &K::score>::run,         Waiting<of, &K::accumulate_v>::run,
                          Waiting<of, &K::score_entries>::run, Waiting<of, &K::accumulate_entries>::run,
                          Waiting<of, &K::softmax>::run,       Waiting<of, &K::sum>::run};
  return made;
}

}  // namespace kvc::tested
