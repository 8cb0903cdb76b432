# kvc/build_id.h: what host and plugin must share for C++ types to cross the border between them.
file(GLOB_RECURSE abi_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/harness/include/kvc/*.h)
list(SORT abi_headers)
set(abi_text "")
foreach(header ${abi_headers})
  file(READ ${header} text)
  string(APPEND abi_text "${text}")
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
endforeach()
string(SHA256 abi_hash "${abi_text}")
string(SUBSTRING ${abi_hash} 0 12 abi_hash)
if(KVC_HAVE_CUDA)
  set(cuda_part "cuda${CMAKE_CUDA_COMPILER_VERSION}")
else()
  set(cuda_part "nocuda")
endif()
set(KVC_BUILD_ID
    "${CMAKE_CXX_COMPILER_ID}${CMAKE_CXX_COMPILER_VERSION}-cxx11abi1-torch${KVC_TORCH_VERSION}-${cuda_part}-abi${abi_hash}")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/include/kvc/build_id.h CONTENT
     "// Written by CMake. Compiler, C++ ABI, LibTorch, CUDA and a hash of include/kvc.\n#pragma once\n#define KVC_BUILD_ID \"@KVC_BUILD_ID@\"\n"
     @ONLY)
