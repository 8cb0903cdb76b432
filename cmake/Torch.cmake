include(LibTorch)

# One precompiled ATen for all: ATen/ATen.h costs 7 s a file, and almost nothing when it is read from here.
file(WRITE ${CMAKE_BINARY_DIR}/pch.cpp.in "// carries the precompiled ATen\n")
configure_file(${CMAKE_BINARY_DIR}/pch.cpp.in ${CMAKE_BINARY_DIR}/pch.cpp COPYONLY)
add_library(kvc_pch OBJECT ${CMAKE_BINARY_DIR}/pch.cpp)
target_link_libraries(kvc_pch PRIVATE kvc_torch)
target_precompile_headers(kvc_pch PRIVATE <ATen/ATen.h>)

# A program would compile with -fPIE and so not fit the precompiled header, which is made with -fPIC.
function(kvc_match_pch program)
  set_target_properties(${program} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${program} PRIVATE -fPIC)
endfunction()
