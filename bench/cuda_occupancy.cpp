// Lines "architecture threads registers shared_bytes" -> resident blocks a multiprocessor, by NVIDIA's own formula.
#include <cstddef>
#include <iostream>

struct cudaDeviceProp;  // named by the header, used only with a runtime
struct cudaFuncAttributes;
#include <cuda_occupancy.h>

namespace {

cudaOccDeviceProp device(int architecture) {
  cudaOccDeviceProp device;
  device.computeMajor = architecture / 10;
  device.computeMinor = architecture % 10;
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiprocessor = 2048;
  device.regsPerBlock = device.regsPerMultiprocessor = 65536;
  device.warpSize = 32;
  device.sharedMemPerBlock = 48 * 1024;
  device.sharedMemPerMultiprocessor = (architecture == 90 ? 228 : 164) * 1024;
  device.sharedMemPerBlockOptin = (architecture == 90 ? 227 : 163) * 1024;
  device.reservedSharedMemPerBlock = 1024;
  device.numSms = architecture == 90 ? 132 : 108;
  return device;
}

}  // namespace

int main() {
  int architecture = 0, threads = 0;
  cudaOccFuncAttributes kernel;
  while (std::cin >> architecture >> threads >> kernel.numRegs >> kernel.sharedSizeBytes) {
    kernel.maxThreadsPerBlock = 1024;
    kernel.maxDynamicSharedSizeBytes = 0;
    kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
    const auto properties = device(architecture);
    const cudaOccDeviceState state;
    cudaOccResult result;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties, &kernel, &state, threads, 0) != 0) return 1;
    std::cout << result.activeBlocksPerMultiprocessor << '\n';
  }
}
