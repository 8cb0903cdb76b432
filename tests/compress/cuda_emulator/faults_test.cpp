// Kernels with one fault each: the emulation ends them and says what is wrong, in which thread, and where.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cuda/device.cuh"
#include "schedules.h"

namespace kvc::cuda_emulated {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string at(int line) { return "faults_test.cpp:" + std::to_string(line); }

// What a launch fails with; empty where it does not.
template <class Launch>
std::string failure_of(const Launch& launch) {
  try {
    launch();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

std::vector<float> numbers(std::size_t count) { return std::vector<float>(count, 1.0f); }

constexpr int barrier_write = __LINE__ + 3;
__global__ void without_barrier(gmem_ptr<float> out) {
  KVC_SHARED(float, row, 64);
  row[threadIdx.x] = 1.0f;
  out[threadIdx.x] = row[(threadIdx.x + 40) % 64];
}
constexpr int barrier_read = __LINE__ - 2;

TEST(Faults, AMissingBarrierIsARaceOfTwoLines) {
  auto out = numbers(64);
  under_all_schedules([&] {
    const auto message =
        failure_of([&] { KVC_LAUNCH(without_barrier, dim3(1), dim3(64), 0, nullptr, checked(out.data(), 64)); });
    EXPECT_THAT(message, AllOf(HasSubstr("kernel without_barrier, block (0, 0, 0), thread ("), HasSubstr("race: "),
                               HasSubstr(" of row (256 bytes)"), HasSubstr(at(barrier_write)),
                               HasSubstr(at(barrier_read)), HasSubstr("with no barrier between")));
  });
}

// The first warp's lanes meet, but those of the second are not among them.
__global__ void with_a_warp_barrier_alone(gmem_ptr<float> out, int neighbour) {
  KVC_SHARED(float, row, 64);
  row[threadIdx.x] = 1.0f;
  __syncwarp();
  out[threadIdx.x] = row[threadIdx.x ^ neighbour];
}

TEST(Faults, ABarrierOfTheWarpOrdersItsOwnLanesAlone) {
  auto out = numbers(64);
  const auto launch = [&](int neighbour) {
    KVC_LAUNCH(with_a_warp_barrier_alone, dim3(1), dim3(64), 0, nullptr, checked(out.data(), 64), neighbour);
  };
  under_all_schedules([&] {
    EXPECT_EQ(failure_of([&] { launch(1); }), "");
    EXPECT_THAT(failure_of([&] { launch(32); }), HasSubstr("race: "));
  });
}

constexpr int global_add = __LINE__ + 4;
__global__ void add_by_each_warp(gmem_ptr<float> sum, bool barrier) {
  for (unsigned warp = 0; warp < 2; ++warp) {
    if (threadIdx.x == 32 * warp) {
      sum[blockIdx.x] += 1.0f + static_cast<float>(warp);
    }
    if (barrier) {
      __syncthreads();
    }
  }
}

TEST(Faults, WarpsThatAddToAWordOfGlobalMemoryWithoutABarrierRace) {
  under_all_schedules([&] {
    auto sum = numbers(2);
    const auto launch = [&](bool barrier) {
      return failure_of(
          [&] { KVC_LAUNCH(add_by_each_warp, dim3(2), dim3(64), 0, nullptr, checked(sum.data(), 2), barrier); });
    };
    EXPECT_EQ(launch(true), "");
    EXPECT_EQ(sum, (std::vector<float>{4, 4}));
    EXPECT_THAT(launch(false), AllOf(HasSubstr("kernel add_by_each_warp, block (0, 0, 0), thread ("),
                                     HasSubstr("race: "), HasSubstr(" of global memory that thread ("),
                                     HasSubstr(at(global_add)), HasSubstr("with no barrier between")));
  });
}

__global__ void write_after_reads(gmem_ptr<float> row, gmem_ptr<float> out, unsigned reader, unsigned writer) {
  if (threadIdx.x == reader) {
    out[threadIdx.x] = row[7];
  }
  if (threadIdx.x == writer) {
    row[7] = 5.0f;
  }
}

TEST(Faults, AWriteOfGlobalMemoryRacesWithAnotherThreadsRead) {
  const auto launch = [&](unsigned reader, unsigned writer) {
    auto row = numbers(8), out = numbers(64);
    return failure_of([&] {
      KVC_LAUNCH(write_after_reads, dim3(1), dim3(64), 0, nullptr, checked(row.data(), 8), checked(out.data(), 64),
                 reader, writer);
    });
  };
  under_all_schedules([&] {
    EXPECT_THAT(launch(1, 2), HasSubstr("race: "));
    EXPECT_THAT(launch(40, 2), HasSubstr("race: "));
    EXPECT_EQ(launch(2, 2), "");
  });
}

__global__ void add_by_each_block(gmem_ptr<float> sum, bool atomically) {
  if (threadIdx.x == 0 && atomically) {
    atomicAdd(sum, 1.0f);
  } else if (threadIdx.x == 0) {
    *sum += 1.0f;
  }
}

TEST(Faults, BlocksThatAddToOneWordInALaunchRace) {
  under_all_schedules([&] {
    auto sum = numbers(1);
    const auto launch = [&](bool atomically) {
      return failure_of(
          [&] { KVC_LAUNCH(add_by_each_block, dim3(3), dim3(32), 0, nullptr, checked(sum.data(), 1), atomically); });
    };
    EXPECT_EQ(launch(true), "");
    EXPECT_THAT(launch(false), AllOf(HasSubstr("block (1, 0, 0)"), HasSubstr("thread 0 of block (0, 0, 0) wrote at "),
                                     HasSubstr("in this launch")));
  });
}

__global__ void through_a_shuffle(gmem_ptr<float> out) {
  KVC_SHARED(float, row, 32);
  row[threadIdx.x] = 1.0f;
  const float none = __shfl_sync(0xFFFFFFFFu, 0.0f, 0);
  out[threadIdx.x] = row[31 - threadIdx.x] + none;
}

TEST(Faults, AShuffleOrdersNoMemory) {
  auto out = numbers(32);
  EXPECT_THAT(
      failure_of([&] { KVC_LAUNCH(through_a_shuffle, dim3(1), dim3(32), 0, nullptr, checked(out.data(), 32)); }),
      HasSubstr("race: "));
}

constexpr int copy_line = __LINE__ + 4;
__global__ void copy_in(gmem_ptr<const float> in, gmem_ptr<float> out, bool committed, bool waited, bool barrier) {
  KVC_SHARED(float4, rows, 32);
  smem_ptr<float> row = pointer_cast<float>(rows);
  cp_async<16>(rows + threadIdx.x, in + threadIdx.x * 4);
  if (committed) {
    cp_async_commit();
  }
  if (waited) {
    cp_async_wait<0>();
  }
  if (barrier) {
    __syncthreads();
  }
  out[threadIdx.x] = row[(threadIdx.x * 4 + 4) % 128];
}
constexpr int use_line = __LINE__ - 2;

TEST(Faults, ACopyIsThereOnlyAfterItsWaitAndABarrier) {
  const auto in = numbers(128);
  auto out = numbers(32);
  const auto launch = [&](bool committed, bool waited, bool barrier) {
    return failure_of([&] {
      KVC_LAUNCH(copy_in, dim3(1), dim3(32), 0, nullptr, checked(in.data(), 128), checked(out.data(), 32), committed,
                 waited, barrier);
    });
  };
  under_all_schedules([&] {
    EXPECT_EQ(launch(true, true, true), "");
    EXPECT_THAT(launch(true, false, true),
                AllOf(HasSubstr(at(use_line) + ": reads byte"), HasSubstr("which the cp_async"),
                      HasSubstr(at(copy_line)), HasSubstr("no cp_async_wait covers it")));
    EXPECT_THAT(launch(false, true, true), HasSubstr("no cp_async_wait covers it"));
    EXPECT_THAT(launch(true, true, false), testing::AnyOf(HasSubstr("race: "), HasSubstr("no cp_async_wait")));
  });
}

__global__ void refill(gmem_ptr<const float> in, gmem_ptr<float> out, bool reads) {
  KVC_SHARED(float, row, 64);
  if (reads) {
    row[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = row[63 - threadIdx.x];
  } else {
    row[63 - threadIdx.x] = 1.0f;
  }
  cp_async<4>(row + threadIdx.x, in + threadIdx.x);
  cp_async_commit();
  cp_async_wait<0>();
}

TEST(Faults, ABufferIsNotFilledAgainWhileOthersMayReadOrWriteIt) {
  auto in = numbers(64), out = numbers(64);
  for (const bool reads : {true, false}) {
    under_all_schedules([&] {
      EXPECT_NE(failure_of([&] {
                  KVC_LAUNCH(refill, dim3(1), dim3(64), 0, nullptr, checked<const float>(in.data(), 64),
                             checked(out.data(), 64), reads);
                }),
                "")
          << reads;
    });
  }
}

// Four threads a word, each its own byte of it; then the words, of which a thread reads another's, or writes its own.
__global__ void share_words(gmem_ptr<unsigned> out, bool barrier, bool reads) {
  KVC_SHARED(unsigned, words, 64);
  smem_ptr<unsigned char> bytes = pointer_cast<unsigned char>(words);
  words[threadIdx.x] = 0;
  __syncthreads();
  bytes[4 * (threadIdx.x % 16) + threadIdx.x / 16] = 1;
  if (barrier) {
    __syncthreads();
  }
  if (reads) {
    out[threadIdx.x] = words[threadIdx.x % 16];
  } else {
    words[threadIdx.x] = 2;
  }
}

TEST(Faults, BytesOfAWordAreNoRaceAndTheWordAndOneOfThemAre) {
  std::vector<unsigned> out(64);
  under_all_schedules([&] {
    for (const bool reads : {true, false}) {
      const auto launch = [&](bool barrier) {
        return failure_of(
            [&] { KVC_LAUNCH(share_words, dim3(1), dim3(64), 0, nullptr, checked(out.data(), 64), barrier, reads); });
      };
      EXPECT_EQ(launch(true), "");
      EXPECT_THAT(launch(false), HasSubstr("race: "));
    }
  });
}

__global__ void shuffle_of(unsigned mask, int lanes, int by, bool end) {
  if (static_cast<int>(threadIdx.x) < lanes) {
    __shfl_down_sync(mask, threadIdx.x, by);
  } else if (!end) {
    __syncthreads();
  }
}
constexpr int shuffle_line = __LINE__ - 5;

TEST(Faults, AWrongMaskOfAShuffleIsNamed) {
  const auto launch = [](unsigned mask, int lanes, int by, bool end) {
    return failure_of([&] { KVC_LAUNCH(shuffle_of, dim3(1), dim3(32), 0, nullptr, mask, lanes, by, end); });
  };
  under_all_schedules([&] {
    EXPECT_EQ(launch(0x0000FFFFu, 16, 0, true), "");
    EXPECT_THAT(launch(0x0000FFFFu, 32, 0, true),
                AllOf(HasSubstr(at(shuffle_line)), HasSubstr("__shfl_down_sync by lane "),
                      HasSubstr("which its mask 0x0000ffff leaves out")));
    EXPECT_THAT(launch(0x0000FFFFu, 16, 8, true), HasSubstr(", which the mask leaves out"));
    EXPECT_THAT(launch(0xFFFFFFFFu, 16, 8, true), HasSubstr(", which has ended"));
    EXPECT_THAT(launch(0xFFFFFFFFu, 16, 8, false),
                AllOf(HasSubstr("no thread can go on: "), HasSubstr("16 in __shfl_down_sync at " + at(shuffle_line)),
                      HasSubstr("has mask 0xffffffff, and only lanes 0x0000ffff of it came")));
  });
}

__global__ void with_two_masks() {
  __ballot_sync(threadIdx.x < 16 ? 0xFFFFFFFFu : 0xFFFF0000u, 1);
  __ballot_sync(threadIdx.x < 16 ? 0x0000FFFFu : 0xFFFFFFFFu, 1);
}

TEST(Faults, LanesThatWaitForEachOtherAreNamed) {
  under_all_schedules([&] {
    EXPECT_THAT(failure_of([&] { KVC_LAUNCH(with_two_masks, dim3(1), dim3(32), 0, nullptr); }),
                testing::AnyOf(HasSubstr("waits for lane"), HasSubstr("no thread can go on")));
  });
}

__global__ void indices(gmem_ptr<float> out, int shared_index, int global_index) {
  KVC_SHARED(float, first, 32);
  KVC_SHARED(float, second, 32);
  if (threadIdx.x == 3) {
    second[0] = 1.0f;
    first[shared_index] = 2.0f;
    out[global_index] = 3.0f;
  }
}
constexpr int shared_line = __LINE__ - 4;
constexpr int global_line = __LINE__ - 4;

TEST(Faults, AnIndexOffByOneIsFoundInSharedAndInGlobalMemory) {
  auto out = numbers(32);
  const auto launch = [&](int shared_index, int global_index) {
    return failure_of([&] {
      KVC_LAUNCH(indices, dim3(1), dim3(32), 0, nullptr, checked(out.data(), 32), shared_index, global_index);
    });
  };
  EXPECT_EQ(launch(31, 31), "");
  EXPECT_EQ(launch(32, 31), "kernel indices, block (0, 0, 0), thread (3, 0, 0), " + at(shared_line) +
                                ": out of range: 4 bytes at byte 128 of first (128 bytes)");
  EXPECT_THAT(launch(-1, 31), HasSubstr("byte -4 of first (128 bytes)"));
  EXPECT_EQ(launch(31, 32), "kernel indices, block (0, 0, 0), thread (3, 0, 0), " + at(global_line) +
                                ": out of range: 4 bytes at byte 128 of global memory of 128 bytes");
  EXPECT_THAT(launch(31, -1), HasSubstr("byte -4 of global memory of 128 bytes"));
}

__global__ void through_a_table(gmem_ptr<const float* const> pages, gmem_ptr<float> out, int index) {
  gmem_ptr<const float> page = pages[1];
  out[0] = page[index];
}

TEST(Faults, APointerOfATableKnowsTheMemoryItLeadsTo) {
  const auto page = numbers(16);
  const float* pages[] = {nullptr, page.data()};
  auto out = numbers(1);
  const KnownMemory known(page.data(), 16 * sizeof(float));
  const auto launch = [&](int index) {
    return failure_of([&] {
      KVC_LAUNCH(through_a_table, dim3(1), dim3(1), 0, nullptr, checked<const float* const>(pages, 2),
                 checked(out.data(), 1), index);
    });
  };
  EXPECT_EQ(launch(15), "");
  EXPECT_THAT(launch(16), HasSubstr("out of range: 4 bytes at byte 64 of global memory of 64 bytes"));
}

__global__ void vectors(gmem_ptr<const float> in, gmem_ptr<float> out, int global_start, int shared_start) {
  KVC_SHARED(float, row, 32);
  const int4 read = pointer_cast<const int4>(in + global_start)[0];
  pointer_cast<int4>(row + shared_start)[0] = read;
  out[0] = row[shared_start];
}
constexpr int vector_line = __LINE__ - 4;

TEST(Faults, AMisalignedVectorIsFound) {
  std::vector<float4> in(8);
  auto out = numbers(1);
  const auto launch = [&](int global_start, int shared_start) {
    return failure_of([&] {
      KVC_LAUNCH(vectors, dim3(1), dim3(1), 0, nullptr, checked(reinterpret_cast<const float*>(in.data()), 32),
                 checked(out.data(), 1), global_start, shared_start);
    });
  };
  EXPECT_EQ(launch(4, 8), "");
  EXPECT_THAT(launch(1, 8), AllOf(HasSubstr(at(vector_line)), HasSubstr("misaligned: an access that needs an address "
                                                                        "divisible by 16 at one that leaves 4")));
  EXPECT_THAT(launch(4, 2), AllOf(HasSubstr(at(vector_line + 1)), HasSubstr("at one that leaves 8")));
}

__global__ void some_at_the_barrier(bool end) {
  if (threadIdx.x < 40) {
    __syncthreads();
  } else if (!end) {
    __syncthreads();
  }
}
constexpr int first_barrier = __LINE__ - 5;
constexpr int second_barrier = __LINE__ - 4;

TEST(Faults, ABarrierInABranchIsFound) {
  under_all_schedules([&] {
    EXPECT_THAT(
        failure_of([&] { KVC_LAUNCH(some_at_the_barrier, dim3(1), dim3(64), 0, nullptr, true); }),
        AllOf(HasSubstr(at(first_barrier) + ": __syncthreads is not reached by thread"), HasSubstr("has ended")));
    EXPECT_THAT(
        failure_of([&] { KVC_LAUNCH(some_at_the_barrier, dim3(1), dim3(64), 0, nullptr, false); }),
        AllOf(HasSubstr(at(first_barrier)), HasSubstr(at(second_barrier)), HasSubstr("__syncthreads here, while ")));
  });
}

__global__ void past_the_checks() {
  KVC_SHARED(float, row, 4);
  row.address()[4] = 1.0f;
}
__global__ void greedy() {
  KVC_SHARED(float4, first, 8192);
  KVC_SHARED(float4, second, 8192);
  (void)first, (void)second;
}
__global__ void product_of_half_a_warp() {
  float sum[4] = {};
  const unsigned a[4] = {}, b[2] = {};
  mma_f16(sum, a, b);
}
__global__ void nothing() {}

TEST(Faults, LimitsOfTheHardwareAreKept) {
  EXPECT_THAT(failure_of([&] { KVC_LAUNCH(past_the_checks, dim3(1), dim3(1), 0, nullptr); }),
              HasSubstr("something was written past the end of row"));
  EXPECT_THAT(failure_of([&] { KVC_LAUNCH(greedy, dim3(1), dim3(1), 0, nullptr); }),
              HasSubstr("second makes it 262144 bytes of shared memory; a block has 232448"));
  EXPECT_THAT(failure_of([&] { KVC_LAUNCH(product_of_half_a_warp, dim3(1), dim3(16), 0, nullptr); }),
              HasSubstr("mma_f16 by a warp of which a lane has ended or never was"));
  EXPECT_THAT(failure_of([&] { KVC_LAUNCH(nothing, dim3(1), dim3(1025), 0, nullptr); }),
              HasSubstr("a block has 1 to 1024"));
  EXPECT_EQ(failure_of([&] { KVC_LAUNCH(nothing, dim3(2, 2, 2), dim3(1024), 0, nullptr); }), "");
}

__global__ void strided(int stride) {
  KVC_DYNAMIC_SHARED(bytes);
  const float value = pointer_cast<float>(bytes)[threadIdx.x * stride];
  (void)value;
}
__global__ void of_four(int stride) {
  KVC_DYNAMIC_SHARED(bytes);
  const float4 values = pointer_cast<float4>(bytes)[threadIdx.x * stride];
  (void)values;
}

TEST(BankConflicts, AreCountedForEachPlace) {
  const auto count = [](auto kernel, int stride) {
    BankCounts banks;
    const WithOptions with({.banks = &banks});
    KVC_LAUNCH(kernel, dim3(3), dim3(64), 64 * 1024 + 4096, nullptr, stride);
    EXPECT_EQ(banks.size(), 1u);
    EXPECT_EQ(std::get<0>(banks.begin()->first), "faults_test.cpp");
    EXPECT_EQ(banks.begin()->second.accesses, 3 * 2);
    const BankCount& found = banks.begin()->second;
    return std::pair(found.wavefronts / found.accesses, found.least / found.accesses);
  };
  using Waves = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(count(strided, 0), Waves(1, 1));  // one word for all
  EXPECT_EQ(count(strided, 1), Waves(1, 1));
  EXPECT_EQ(count(strided, 2), Waves(2, 1));
  EXPECT_EQ(count(strided, 32), Waves(32, 1));
  EXPECT_EQ(count(strided, 33), Waves(1, 1));
  EXPECT_EQ(count(of_four, 1), Waves(4, 4));
  EXPECT_EQ(count(of_four, 2), Waves(8, 4));
}

}  // namespace
}  // namespace kvc::cuda_emulated
