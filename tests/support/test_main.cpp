// As gtest_main, without the destructors of LibTorch's statics: ctest starts hundreds of these programs.
#include <gtest/gtest.h>

#include "text/end_process.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  kvc::end_process(RUN_ALL_TESTS());
}
