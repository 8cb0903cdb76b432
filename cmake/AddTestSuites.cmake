# Read by ctest as it starts: the tests of a GoogleTest program, an entry for each of its suites, since a process for each
# test would spend its time on loading LibTorch. In: program; filter (as --gtest_filter has it); by ("suite", "parameter":
# an entry for each parameter of a suite, "test": for each test); part (what follows a suite's name, where another filter
# takes its other tests); labels; properties (more of them, as set_tests_properties takes them).
cmake_policy(VERSION 3.22)
execute_process(COMMAND ${program} --gtest_list_tests "--gtest_filter=${filter}"
                OUTPUT_VARIABLE listed ERROR_VARIABLE said RESULT_VARIABLE code TIMEOUT 120)
if(NOT code EQUAL 0)
  add_test("${program} lists its tests" ${CMAKE_COMMAND} -E false)
  if(EXISTS ${program})  # else it was not built: of no matter where only others are asked for
    message("${program} does not list its tests: ${code}\n${said}")
  endif()
  return()
endif()
string(REGEX REPLACE " +#[^\n]*" "" listed "${listed}")  # what a parameter is
string(REPLACE "\n" ";" listed "${listed}")

set(entries)
foreach(line IN LISTS listed)
  if(line MATCHES "^([^ ]+)\\.$")
    set(suite ${CMAKE_MATCH_1})
  elseif(line MATCHES "^  ([^ ]+)$")
    set(test ${suite}.${CMAKE_MATCH_1})
    set(entry ${suite})
    if(by STREQUAL "test")
      set(entry ${test})
    elseif(by STREQUAL "parameter" AND test MATCHES "/([^/.]+)$")
      set(entry ${suite}/${CMAKE_MATCH_1})
    endif()
    list(APPEND entries ${entry})
    string(MAKE_C_IDENTIFIER "tests_${entry}" tests)
    string(APPEND ${tests} "${test}:")
  endif()
endforeach()
list(REMOVE_DUPLICATES entries)
# All were skipped, and that is the last thing said: what failed would follow.
set(skipped "\\[  PASSED  \\] 0 tests\\.\n(\\[  SKIPPED \\] [^\n]*\n)+$")
foreach(entry IN LISTS entries)
  string(MAKE_C_IDENTIFIER "tests_${entry}" tests)
  add_test(${entry}${part} ${program} "--gtest_filter=${${tests}}")
  set_tests_properties(${entry}${part} PROPERTIES LABELS "${labels}" SKIP_REGULAR_EXPRESSION "${skipped}" ${properties})
  unset(${tests})
endforeach()
