# `cmake --install BUILD --prefix P`: bin/kvc, the libraries and built-in plugins, the headers, what the program reads
# (share/kvc), its page for man, and lib/cmake/kvc for find_package. The build folder is found by find_package, too.
include(CMakePackageConfigHelpers)
string(REGEX MATCH "^[0-9]+" KVC_COMPILER_MAJOR ${CMAKE_CXX_COMPILER_VERSION})
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

# Links carry the way to LibTorch themselves (LibTorch.cmake). Plugins and what they link are the same files in the build
# folder, in a package and in another checkout, since a cell's key has their hashes.
get_property(plugins GLOBAL PROPERTY KVC_PLUGINS)
set_target_properties(kvc kvc_quant PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
set_target_properties(kvc_contain PROPERTIES INSTALL_RPATH "$ORIGIN")
set_target_properties(program PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
install(TARGETS kvc kvc_quant kvc_contain kvc_functions program RUNTIME DESTINATION bin LIBRARY DESTINATION lib)
set(man ${CMAKE_BINARY_DIR}/package/kvc.1)
add_custom_command(OUTPUT ${man} COMMAND program page man > ${man} DEPENDS program VERBATIM)
add_custom_target(man_page ALL DEPENDS ${man})
install(FILES ${man} DESTINATION share/man/man1)
install(TARGETS ${plugins} LIBRARY DESTINATION lib/kvc/plugins)
install(DIRECTORY harness/include/kvc ${CMAKE_BINARY_DIR}/include/kvc DESTINATION include FILES_MATCHING PATTERN "*.h")
install(DIRECTORY tasks prompts configs DESTINATION share/kvc)
install(DIRECTORY python/kvc python/examples DESTINATION share/kvc/python FILES_MATCHING PATTERN "*.py")
install(DIRECTORY results/tables results/figures results/external results/datasette DESTINATION share/kvc/results)
install(FILES models/catalog.yaml DESTINATION share/kvc/models)
install(DIRECTORY models/demo DESTINATION share/kvc/models FILES_MATCHING PATTERN "*.json" PATTERN "*.safetensors")
