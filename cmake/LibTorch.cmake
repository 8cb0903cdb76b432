# kvc_torch: LibTorch from the PyPI wheel as a target of our own. find_package(Torch) would demand a CUDA toolkit.
if(NOT KVC_TORCH)
  set(KVC_TORCH $ENV{KVC_TORCH})
endif()
file(GLOB torch_candidates ${KVC_TORCH}/lib/python3*/site-packages/torch ${KVC_TORCH})
foreach(candidate ${torch_candidates})
  if(EXISTS ${candidate}/lib/libtorch_cpu.so)
    set(KVC_TORCH_PACKAGE ${candidate})
    break()
  endif()
endforeach()
if(NOT KVC_TORCH_PACKAGE)
  message(FATAL_ERROR "no LibTorch at KVC_TORCH='${KVC_TORCH}': expected a virtual environment with torch==2.11.0, "
                      "or the torch package folder itself. `./kvc` of the sources sets one up by itself.")
endif()
file(STRINGS ${KVC_TORCH_PACKAGE}/version.py torch_version_line REGEX "^__version__")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" KVC_TORCH_VERSION "${torch_version_line}")
if(NOT KVC_TORCH_VERSION VERSION_EQUAL 2.11.0)
  message(FATAL_ERROR "LibTorch ${KVC_TORCH_VERSION} at ${KVC_TORCH_PACKAGE}: expected 2.11.0")
endif()
message(STATUS "LibTorch ${KVC_TORCH_VERSION}: ${KVC_TORCH_PACKAGE}")

if(TARGET kvc_torch)
  return()
endif()
# kvc_rename_folder(target scope folder renaming): how the target's messages name files of that folder, so that it is the
# same binary wherever the folder lies; ccache makes folders relative to the build's. renaming follows the folder's path.
function(kvc_rename_folder target scope folder renaming)
  file(RELATIVE_PATH from_build ${CMAKE_BINARY_DIR} ${folder})
  foreach(path ${folder} ${from_build})
    target_compile_options(${target} ${scope} $<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${path}${renaming}>)
  endforeach()
endfunction()

add_library(kvc_torch INTERFACE)
target_include_directories(kvc_torch SYSTEM INTERFACE ${KVC_TORCH_PACKAGE}/include)
target_link_libraries(kvc_torch INTERFACE ${KVC_TORCH_PACKAGE}/lib/libtorch_cpu.so ${KVC_TORCH_PACKAGE}/lib/libc10.so)
# at::parallel_for is a template: compiled without OpenMP it is a plain loop. The runtime is the one LibTorch brings.
target_compile_options(kvc_torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
kvc_rename_folder(kvc_torch INTERFACE ${KVC_TORCH_PACKAGE} "=torch")
target_link_libraries(kvc_torch INTERFACE ${KVC_TORCH_PACKAGE}/lib/libgomp.so.1)
# libtorch_cpu finds the CUDA runtime beside itself at run time; the linker need not. What a program loads that has
# LibTorch already names no folder of it.
target_link_options(kvc_torch INTERFACE -Wl,--allow-shlib-undefined
                    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:BUILD_WITH_INSTALL_RPATH>>>:-Wl,-rpath,${KVC_TORCH_PACKAGE}/lib>)
