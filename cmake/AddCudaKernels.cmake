# kvc_add_cuda_kernels(target file.cu...): each file as C++ that runs on the CPU (harness/compress/cuda_emulator), always,
# and by nvcc where there is one. The two stand in namespaces of their own (harness/compress/cuda/device.cuh), so one program holds both.
function(kvc_add_cuda_kernels target)
  foreach(kernel ${ARGN})
    cmake_path(ABSOLUTE_PATH kernel NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(GET path STEM name)
    set(emulated ${CMAKE_CURRENT_BINARY_DIR}/emulated/${target}/${name}.cpp)
    file(CONFIGURE OUTPUT ${emulated} CONTENT "#include \"cuda_emulator/cuda_host.h\"\n#include \"${path}\"\n")
    # A kernel reads bytes as other types than they were written as; its pragmas are nvcc's.
    set_source_files_properties(${emulated} PROPERTIES COMPILE_OPTIONS "-fno-strict-aliasing;-Wno-unknown-pragmas")
    target_sources(${target} PRIVATE ${emulated})
    if(KVC_HAVE_CUDA)
      target_sources(${target} PRIVATE ${path})
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
endfunction()
