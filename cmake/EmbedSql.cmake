# kvc_embed_sql(OUT): results/schema.sql and results/tables/*.sql as the definitions of harness/store/store/embedded_sql.h.
function(kvc_embed_sql out)
  file(GLOB tables CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/results/tables/*.sql)
  list(SORT tables)
  set(entries "")
  foreach(table ${tables})
    get_filename_component(name ${table} NAME_WE)
    file(READ ${table} sql)
    string(APPEND entries "      {\"${name}\", R\"sql(${sql})sql\"},\n")
  endforeach()
  file(READ ${CMAKE_SOURCE_DIR}/results/schema.sql schema)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${tables} ${CMAKE_SOURCE_DIR}/results/schema.sql)
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT "// Written by CMake from results/*.sql.
#include \"store/embedded_sql.h\"

namespace kvc {

std::string_view schema_sql() { return R\"sql(@schema@)sql\"; }

const std::vector<EmbeddedSql>& embedded_tables() {
  static const std::vector<EmbeddedSql> kTables = {
@entries@  };
  return kTables;
}

}  // namespace kvc
")
endfunction()
