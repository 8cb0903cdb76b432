# A script: PROGRAM ARGUMENTS prints the file PAGE as it stands.
execute_process(COMMAND ${PROGRAM} ${ARGUMENTS} OUTPUT_VARIABLE made COMMAND_ERROR_IS_FATAL ANY)
file(READ ${PAGE} committed)
if(NOT made STREQUAL committed)
  list(JOIN ARGUMENTS " " arguments)
  message(FATAL_ERROR "${PAGE} is stale: `kvc ${arguments}` prints another one; write it there")
endif()
