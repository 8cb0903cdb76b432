# kvc_write_commit(TARGET OUT): the sources' commit as kvc::kCommit in OUT, asked for in every build, so that a program
# cannot name an old one; OUT changes only when the answer does.
function(kvc_write_commit target out)
  add_custom_target(${target} BYPRODUCTS ${out}
                    COMMAND ${CMAKE_COMMAND} -DSOURCES=${CMAKE_SOURCE_DIR} -DOUT=${out}
                            -P ${CMAKE_SOURCE_DIR}/cmake/WriteCommit.cmake
                    COMMENT "" VERBATIM)
endfunction()
