# SPDX-License-Identifier: Apache-2.0
# Compiles CASE without its fault (must pass) and with it (must fail; the first error says the expected sentence, or
# one of several between ||, where the words are the compiler's own).
file(STRINGS "${CASE}" expected REGEX "^// expect: ")
if(NOT expected MATCHES "^// expect: (.+)$")
  message(FATAL_ERROR "${CASE}: no `// expect: sentence` line")
endif()
set(sentence "${CMAKE_MATCH_1}")

foreach(fault 0 1)
  execute_process(
    COMMAND "${COMPILER}" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Werror -DCOLI_FAULT=${fault}
            -I "${ROOT}/include" -I "${BUILD}/include" -I "${ROOT}/conformance/compile_fail" "${CASE}"
    RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(fault EQUAL 0 AND NOT code EQUAL 0)
    message(FATAL_ERROR "without its fault it must compile:\n${output}")
  endif()
endforeach()
if(code EQUAL 0)
  message(FATAL_ERROR "with its fault it must not compile, but it did")
endif()
string(REGEX MATCH "[^\n]*error: [^\n]*" first "${output}")
string(REPLACE "\\\"" "\"" first "${first}")
string(REPLACE " || " ";" sentences "${sentence}")
foreach(one IN LISTS sentences)
  string(FIND "${first}" "${one}" at)
  if(NOT at EQUAL -1)
    message(STATUS "${first}")
    return()
  endif()
endforeach()
message(FATAL_ERROR "the first error does not say '${sentence}', it says:\n${first}\n\nall of it:\n${output}")
