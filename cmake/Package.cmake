# `cmake --install BUILD --prefix P`: bin/kvc, the libraries and built-in plugins, the headers, what the program reads
# (share/kvc), and lib/cmake/kvc for find_package. The build folder is found by find_package, too.
include(CMakePackageConfigHelpers)
set(KVC_COMPILER "${CMAKE_CXX_COMPILER_ID}${CMAKE_CXX_COMPILER_VERSION}")
set(package ${CMAKE_BINARY_DIR}/lib/cmake/kvc)
set(KVC_SOURCE_INCLUDE ${CMAKE_SOURCE_DIR}/harness/include)
configure_file(cmake/kvcConfig.cmake.in ${package}/kvcConfig.cmake @ONLY)
set(KVC_SOURCE_INCLUDE "")
configure_file(cmake/kvcConfig.cmake.in ${CMAKE_BINARY_DIR}/package/kvcConfig.cmake @ONLY)
write_basic_package_version_file(${package}/kvcConfigVersion.cmake COMPATIBILITY ExactVersion)
foreach(file LibTorch.cmake AddPlugin.cmake plugin.exports)
  configure_file(cmake/${file} ${package}/${file} COPYONLY)
endforeach()
install(FILES ${CMAKE_BINARY_DIR}/package/kvcConfig.cmake ${package}/kvcConfigVersion.cmake cmake/LibTorch.cmake
              cmake/AddPlugin.cmake cmake/plugin.exports DESTINATION lib/cmake/kvc)

# Links carry the way to LibTorch themselves (LibTorch.cmake).
get_property(plugins GLOBAL PROPERTY KVC_PLUGINS)
set_target_properties(kvc kvc_quant PROPERTIES INSTALL_RPATH "$ORIGIN")
set_target_properties(program PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
set_target_properties(${plugins} PROPERTIES INSTALL_RPATH "$ORIGIN/../..")
install(TARGETS kvc kvc_quant kvc_functions program RUNTIME DESTINATION bin LIBRARY DESTINATION lib)
install(TARGETS ${plugins} LIBRARY DESTINATION lib/kvc/plugins)
install(DIRECTORY harness/include/kvc ${CMAKE_BINARY_DIR}/include/kvc DESTINATION include FILES_MATCHING PATTERN "*.h")
install(DIRECTORY tasks prompts configs DESTINATION share/kvc)
install(DIRECTORY results/tables results/figures results/external results/datasette DESTINATION share/kvc/results)
install(FILES models/catalog.yaml DESTINATION share/kvc/models)
install(DIRECTORY models/demo DESTINATION share/kvc/models FILES_MATCHING PATTERN "*.json" PATTERN "*.safetensors")
