# SPDX-License-Identifier: Apache-2.0
# Does an ISA object define anything that does not carry its instruction set's name?
# OBJECTS: table_<isa>.cpp.o files, separated by |. ISA: overrides the name read from the file.
string(REPLACE "|" ";" objects "${OBJECTS}")
set(leaks "")
set(seen 0)
foreach(object IN LISTS objects)
  if(ISA)
    set(isa "${ISA}")
  elseif(object MATCHES "table_([a-z0-9_]+)\\.cpp")
    set(isa "${CMAKE_MATCH_1}")
  else()
    continue()  # select.cpp: compiled for every processor
  endif()
  string(LENGTH "${isa}" length)
  execute_process(COMMAND "${NM}" --defined-only "${object}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" symbols "${symbols}")
  foreach(line IN LISTS symbols)
    # external: T D B R; weak: W V; unique: u. Lower-case others are local to the object.
    if(line MATCHES " ([TDBRWVuCS]) ([^ ]+)$")
      math(EXPR seen "${seen} + 1")
      set(kind "${CMAKE_MATCH_1}")
      set(symbol "${CMAKE_MATCH_2}")
      # The tag as a mangled name spells it: a type or namespace <length><isa>, in any case, or table_<isa>.
      string(TOLOWER "${symbol}" lower)
      # xsimd's names for NEON's casts between register types hold no instruction.
      if(NOT lower MATCHES "(${length}|table_)${isa}" AND NOT symbol MATCHES "^DW\\.ref\\."
         AND NOT symbol MATCHES "^_ZN5xsimd6kernel4wrap[0-9]+vreinterpretq_")
        list(APPEND leaks "${object}: ${kind} ${symbol} does not say ${isa}")
      endif()
    endif()
  endforeach()
endforeach()
if(leaks)
  list(JOIN leaks "\n" text)
  message(FATAL_ERROR "${text}")
endif()
if(seen EQUAL 0)
  message(FATAL_ERROR "no symbol seen: nothing was checked")
endif()
message(STATUS "${seen} symbols, none leaks")
