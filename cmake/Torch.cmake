include(LibTorch)

# What nearly every file includes is compiled once: kvc_pch holds ATen/ATen.h (7 s a file without it), kvc_core_pch JSON,
# YAML and a tensor's declaration for what passes tensors on, kvc_plain_pch the same for what knows none. REUSE_FROM one.
file(WRITE ${CMAKE_BINARY_DIR}/pch.cpp.in "// carries a precompiled header\n")
configure_file(${CMAKE_BINARY_DIR}/pch.cpp.in ${CMAKE_BINARY_DIR}/pch.cpp COPYONLY)
set(KVC_PLAIN_HEADERS <algorithm> <cmath> <cstdio> <filesystem> <fstream> <functional> <map> <memory> <optional> <set>
                      <sstream> <string> <variant> <vector> <yaml-cpp/yaml.h> ${CMAKE_SOURCE_DIR}/harness/base/text/json.h)
foreach(pch kvc_pch kvc_core_pch kvc_plain_pch)
  add_library(${pch} OBJECT ${CMAKE_BINARY_DIR}/pch.cpp)
endforeach()
target_link_libraries(kvc_pch PRIVATE kvc_torch)
target_precompile_headers(kvc_pch PRIVATE <ATen/ATen.h>)
target_link_libraries(kvc_core_pch PRIVATE kvc_torch)
target_precompile_headers(kvc_core_pch PRIVATE ${KVC_PLAIN_HEADERS} <ATen/core/Tensor.h>)
target_precompile_headers(kvc_plain_pch PRIVATE ${KVC_PLAIN_HEADERS})

# A program would compile with -fPIE and so not fit the precompiled header, which is made with -fPIC.
function(kvc_match_pch program)
  set_target_properties(${program} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${program} PRIVATE -fPIC)
endfunction()
