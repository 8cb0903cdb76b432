// As gtest_main, without the destructors of LibTorch's statics: ctest starts hundreds of these programs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int code = RUN_ALL_TESTS();
#ifdef __SANITIZE_ADDRESS__
  std::exit(code);  // which looks for leaks
#else
  std::fflush(nullptr);
  ::_exit(code);
#endif
}
