# SPDX-License-Identifier: Apache-2.0
# Does every header of a folder compile alone, without warnings? PLANTED: does this check notice one that doesn't?
function(compile_alone header result output)
  execute_process(
    COMMAND "${COMPILER}" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
            -I "${ROOT}/include" -I "${BUILD}/include" -include "${header}" -x c++ /dev/null
    RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  set(${result} "${code}" PARENT_SCOPE)
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

if(PLANTED)
  set(folder "${BUILD}/conformance/structure/planted")
  file(WRITE "${folder}/leans_on_others.hpp" "#pragma once\ninline std::string name() { return {}; }\n")
  file(WRITE "${folder}/stands_alone.hpp" "#pragma once\n#include <string>\ninline std::string name() { return {}; }\n")
  compile_alone("${folder}/leans_on_others.hpp" bad output)
  compile_alone("${folder}/stands_alone.hpp" good output)
  if(bad EQUAL 0 OR NOT good EQUAL 0)
    message(FATAL_ERROR "the check is blind: the bad header gave ${bad}, the good one ${good}\n${output}")
  endif()
  return()
endif()

file(GLOB headers "${ROOT}/${FOLDER}/*.hpp")
set(failed 0)
foreach(header IN LISTS headers)
  compile_alone("${header}" code output)
  if(NOT code EQUAL 0)
    message("${header} does not compile alone:\n${output}")
    math(EXPR failed "${failed} + 1")
  endif()
endforeach()
list(LENGTH headers count)
if(failed GREATER 0 OR count EQUAL 0)
  message(FATAL_ERROR "${failed} of ${count} headers of ${FOLDER} do not compile alone")
endif()
message(STATUS "${count} headers of ${FOLDER}")
