# A script: writes OUT, which defines kvc::kCommit, `git describe` of the checkout SOURCES.
cmake_policy(VERSION 3.22)
execute_process(COMMAND git -C ${SOURCES} describe --always --dirty OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT
     "// Written by the build.\n#include \"cli/version.h\"\n\nnamespace kvc {\n\nconst char* const kCommit = \"@commit@\";\n\n}  // namespace kvc\n"
     @ONLY)
