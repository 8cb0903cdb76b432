# kvc_add_plugin(name): this folder's *.cpp (and *.cu with a toolkit) as <name>.so, which exports one data symbol. The same
# function here and, through find_package(kvc), in a project of the author's own. They are compiled once, as the object
# library plugin_<name>_objects: a test that links it holds the code that is loaded, with the plugin's own flags.
set(KVC_PLUGIN_EXPORTS ${CMAKE_CURRENT_LIST_DIR}/plugin.exports)
function(kvc_add_plugin name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "_no_cuda\\.cpp$")
  file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cu)
  if(NOT KVC_HAVE_CUDA)
    file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_no_cuda.cpp)
  endif()
  set(objects plugin_${name}_objects)
  add_library(${objects} OBJECT ${sources} ${kernels})
  set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                              VISIBILITY_INLINES_HIDDEN ON UNITY_BUILD OFF)
  target_link_libraries(${objects} PUBLIC kvc::kvc kvc::quant)
  add_library(plugin_${name} MODULE)
  set_target_properties(plugin_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name} LINKER_LANGUAGE CXX)
  target_link_libraries(plugin_${name} PRIVATE ${objects})
  target_link_options(plugin_${name} PRIVATE -Wl,--version-script=${KVC_PLUGIN_EXPORTS} -Wl,--no-undefined)
  if(TARGET kvc_pch)  # one of kvc's own
    set_target_properties(plugin_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${KVC_PLUGIN_DIR}
                                                    BUILD_WITH_INSTALL_RPATH ON
                                                    INSTALL_RPATH "$ORIGIN/../lib:$ORIGIN/../..")
    target_precompile_headers(${objects} REUSE_FROM kvc_pch)
    set_property(GLOBAL APPEND PROPERTY KVC_PLUGINS plugin_${name})
  else()
    set_target_properties(plugin_${name} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
    target_compile_options(${objects} PRIVATE $<$<CONFIG:>:-O2>)  # no build type given
  endif()
endfunction()
