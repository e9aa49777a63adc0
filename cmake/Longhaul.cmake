# Functions every module's CMakeLists.txt uses, so that each reads as a list of what is there.
#
#   longhaul_library(NAME <module> [SOURCES ...] [DEPENDS <modules>...]
#                    [LINK <outside libraries>...] [GROUP_SIZE <sources compiled as one>])
#   longhaul_test(NAME <name> SOURCES ... DEPENDS <modules>... [LINK ...] [LABELS ...]
#                 [PRECOMPILE <headers that most of its sources include>...])
#   longhaul_fuzzer(NAME <name> SOURCES ... DEPENDS <modules>... [LINK ...])
#   longhaul_benchmark(NAME <name> SOURCES ... DEPENDS <modules>... [LINK ...])
#   longhaul_script_test(NAME <name> COMMAND ... [LABELS ...] [TIMEOUT <seconds>])
#   longhaul_fast_module()       before the module's libraries: their speed is measured
#   longhaul_unhurried_module()  before the module's libraries: their speed matters to nobody
#   longhaul_headers_alone()     once, after all modules
#   longhaul_product_target()    once, after all modules
#
# Labels mean: threaded (runs under ThreadSanitizer too); slow, trainer, python, tools (not under
# any sanitizer); fuzz. The target `suite` is every test that this configuration runs, and `product`
# is every program and shared library that isn't a test.
#
# The DEPENDS are also written to layers.txt (of modules) and tests.txt (of tests, fuzzers and
# benchmarks) in the build folder, which tools/check_layers.py holds against every #include.

find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(PkgConfig REQUIRED)

add_library(longhaul_flags INTERFACE)
target_compile_options(longhaul_flags INTERFACE -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 warns falsely about "text" + std::string (GCC bug 105651). Another compiler has other
  # warnings: it builds the fuzzers only, and GCC's are the ones that stop a build.
  target_compile_options(longhaul_flags INTERFACE
    -Wall -Wextra -Wconversion -Wshadow -Werror -Wno-restrict)
  # GCC collects its garbage only above 512 MiB (in KiB), which few sources reach: one eighth of the
  # compilers' time was collection (CONTRIBUTING.md). The number of parallel compilers allows it.
  target_compile_options(longhaul_flags INTERFACE --param=ggc-min-heapsize=524288)
endif()
target_include_directories(longhaul_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(longhaul_flags INTERFACE Threads::Threads)
if(LONGHAUL_SANITIZE)
  target_compile_options(longhaul_flags INTERFACE
    -fsanitize=${LONGHAUL_SANITIZE} -fno-sanitize-recover=all -g1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Sanitizers keep shadow values, which GCC's flow analysis then reports as uninitialised.
    target_compile_options(longhaul_flags INTERFACE -Wno-maybe-uninitialized)
    # ThreadSanitizer doesn't follow the fences around streaming stores (checkpoint/copy.cc), which
    # are there for other processes; GCC would refuse to compile them.
    if(LONGHAUL_SANITIZE MATCHES "thread")
      target_compile_options(longhaul_flags INTERFACE -Wno-tsan)
      # Headers of installed libraries change the layout of classes where __SANITIZE_THREAD__ is
      # defined (protobuf's map fields have two more members), but the libraries themselves were
      # built without it. The standard library and our code have macros of their own.
      target_compile_options(longhaul_flags INTERFACE -U__SANITIZE_THREAD__)
      target_compile_definitions(longhaul_flags INTERFACE _GLIBCXX_TSAN=1 LONGHAUL_THREAD_SANITIZER)
    endif()
  endif()
  target_link_options(longhaul_flags INTERFACE -fsanitize=${LONGHAUL_SANITIZE})
endif()

# Called by a module whose speed is measured in bench/, before its libraries: their sources are
# compiled with -O3. All others have -O1 (CMakeLists.txt), which takes three quarters of the
# compilers' time that -O2 takes (CONTRIBUTING.md).
macro(longhaul_fast_module)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Release")
    add_compile_options(-O3)
  endif()
endmacro()

# Called by a module that talks to people, before its libraries: their sources are compiled with
# -Og, which takes 0.82 to 0.87 of the compilers' time that -O1 takes.
macro(longhaul_unhurried_module)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Release")
    add_compile_options(-Og)
  endif()
endmacro()

# Tests are most of what is compiled (tools/build_time), and run for a fraction of the time: their
# own sources are compiled without optimisation, and they share one precompiled header with the
# standard library and GoogleTest. Under sanitizers, where tests run several times as long, they are
# optimised a little. Benchmarks are compiled as the libraries are.
set(LONGHAUL_TEST_OPTIONS "")
set(LONGHAUL_CMAKE_FOLDER ${CMAKE_CURRENT_LIST_DIR})
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(LONGHAUL_TEST_OPTIONS -O0 -pthread -fpch-preprocess)
  if(LONGHAUL_SANITIZE)
    # With less optimisation than the libraries have, GCC reports in its analysis of bounds and of
    # values that are not set what cannot happen.
    set(LONGHAUL_TEST_OPTIONS -O1 -pthread -fpch-preprocess
      -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-maybe-uninitialized)
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/test_headers.cc CONTENT "int main() { return 0; }\n")
  add_executable(longhaul_test_headers EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/test_headers.cc)
  target_compile_options(longhaul_test_headers PRIVATE ${LONGHAUL_TEST_OPTIONS})
  target_link_libraries(longhaul_test_headers PRIVATE longhaul_flags GTest::gmock GTest::gtest)
  # Found by the include path: with the path in it, a compiler cache could not use it elsewhere.
  target_include_directories(longhaul_test_headers PRIVATE ${LONGHAUL_CMAKE_FOLDER})
  target_precompile_headers(longhaul_test_headers PRIVATE <test_headers.h>)
endif()

# Compiles the sources of a test program: see above. `headers` are precompiled, too.
function(longhaul_compile_as_test name headers)
  if(NOT LONGHAUL_TEST_OPTIONS)
    return()
  endif()
  target_compile_options(${name} PRIVATE ${LONGHAUL_TEST_OPTIONS})
  target_include_directories(${name} PRIVATE ${LONGHAUL_CMAKE_FOLDER})
  if(headers)
    list(TRANSFORM headers REPLACE "(.+)" "<\\1>")
    target_precompile_headers(${name} PRIVATE <test_headers.h> ${headers})
  else()
    target_precompile_headers(${name} REUSE_FROM longhaul_test_headers)
  endif()
endfunction()

# Lines "order: MODULE..." and "MODULE LIBRARY: DEPENDS...", and lines "MODULE/SOURCE: DEPENDS...".
set(LONGHAUL_LAYERS_FILE ${CMAKE_BINARY_DIR}/layers.txt)
set(LONGHAUL_TESTS_FILE ${CMAKE_BINARY_DIR}/tests.txt)
file(WRITE ${LONGHAUL_LAYERS_FILE} "")
file(WRITE ${LONGHAUL_TESTS_FILE} "")

# The module that the CMakeLists.txt being read belongs to: the first folder below src.
function(longhaul_module result)
  file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
  string(REGEX REPLACE "/.*" "" module "${path}")
  set(${result} ${module} PARENT_SCOPE)
endfunction()

# For check_layers.py: these sources are tests and may include what `depends` names.
function(longhaul_record_test_sources sources depends)
  string(REPLACE ";" " " depends "${depends}")
  foreach(source ${sources})
    file(REAL_PATH ${source} path BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR}/src ${path})
    file(APPEND ${LONGHAUL_TESTS_FILE} "${path}: ${depends}\n")
  endforeach()
endfunction()

# Groups of sources that are compiled as one: each is a generated file that includes them. Headers
# are then read, and templates instantiated, once a group (the figures are in CONTRIBUTING.md).
# Names in unnamed namespaces have to differ within a group, which the compiler checks. A source
# that has options of its own or SKIP_UNITY_BUILD_INCLUSION, set before this call, and a generated
# one are compiled by themselves.
option(LONGHAUL_GROUPS "Compile the sources of a library in groups" ON)
set(LONGHAUL_GROUP_SIZE 24)
set(LONGHAUL_TEST_GROUP_SIZE 12)
# Appends to the list `result` the files that include these sources, `size` of them each.
function(longhaul_write_groups result name size sources)
  set(number 1)
  while(sources)
    list(SUBLIST sources 0 ${size} group)
    list(REMOVE_ITEM sources ${group})
    set(text "")
    foreach(source ${group})
      file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      string(APPEND text "#include \"${path}\"\n")
    endforeach()
    set(file ${CMAKE_BINARY_DIR}/groups/${name}_${number}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}")
    list(APPEND ${result} ${file})
    math(EXPR number "${number} + 1")
  endwhile()
  set(${result} ${${result}} PARENT_SCOPE)
endfunction()

function(longhaul_group_sources result name size sources)
  set(all "")
  set(folders "")
  foreach(source ${sources})
    set(options "")
    if(NOT IS_ABSOLUTE "${source}")
      get_source_file_property(options ${source} COMPILE_OPTIONS)
      get_source_file_property(apart ${source} SKIP_UNITY_BUILD_INCLUSION)
      if(NOT options AND apart)
        set(options ${apart})
      endif()
    endif()
    if(NOT LONGHAUL_GROUPS OR size EQUAL 1 OR options OR IS_ABSOLUTE "${source}")
      list(APPEND all ${source})
      continue()
    endif()
    get_filename_component(folder "${source}" DIRECTORY)
    string(MAKE_C_IDENTIFIER "${name}_${folder}" folder)
    list(APPEND folders ${folder})
    list(APPEND members_${folder} ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  # Small folders share a group: each goes to the first one that has room for it. A folder is
  # divided only if it is larger than a group, so that a new source changes few groups.
  set(groups "")
  foreach(folder ${folders})
    list(LENGTH members_${folder} more)
    set(chosen "")
    foreach(group ${groups})
      list(LENGTH sources_of_${group} held)
      math(EXPR together "${held} + ${more}")
      if(NOT together GREATER size)
        set(chosen ${group})
        break()
      endif()
    endforeach()
    if(NOT chosen)
      set(chosen ${folder})
      set(sources_of_${chosen} "")
      list(APPEND groups ${chosen})
    endif()
    list(APPEND sources_of_${chosen} ${members_${folder}})
  endforeach()
  foreach(group ${groups})
    longhaul_write_groups(all ${group} ${size} "${sources_of_${group}}")
  endforeach()
  set(${result} ${all} PARENT_SCOPE)
endfunction()

function(longhaul_library)
  cmake_parse_arguments(ARG "" "NAME;GROUP_SIZE" "SOURCES;DEPENDS;LINK" ${ARGN})
  if(NOT ARG_GROUP_SIZE)
    set(ARG_GROUP_SIZE ${LONGHAUL_GROUP_SIZE})
  endif()
  if(ARG_SOURCES)
    longhaul_group_sources(sources ${ARG_NAME} ${ARG_GROUP_SIZE} "${ARG_SOURCES}")
    add_library(longhaul_${ARG_NAME} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(longhaul_${ARG_NAME} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(longhaul_${ARG_NAME} ${scope} longhaul_flags ${ARG_LINK})
  foreach(module ${ARG_DEPENDS})
    target_link_libraries(longhaul_${ARG_NAME} ${scope} longhaul_${module})
  endforeach()
  string(REPLACE ";" " " depends "${ARG_DEPENDS}")
  longhaul_module(module)
  file(APPEND ${LONGHAUL_LAYERS_FILE} "${module} ${ARG_NAME}: ${depends}\n")
  set_property(GLOBAL APPEND PROPERTY LONGHAUL_LIBRARIES_${module} longhaul_${ARG_NAME})
endfunction()

# Suites of several configurations are run as one (.ci/run), so their tests have names of their own.
# The sanitizers' runtimes see Debian's protobuf and gRPC from outside only: a global defined in a
# library and in our code is no mistake, and the races inside are not ours (tools/tsan.supp).
add_custom_target(suite)
set(LONGHAUL_TEST_PREFIX "")
set(LONGHAUL_TEST_FIXTURE "")  # the test of ./test that builds this configuration
set(LONGHAUL_TEST_ENVIRONMENT "")
if(LONGHAUL_SANITIZE MATCHES "address")
  set(LONGHAUL_TEST_PREFIX "asan.")
  set(LONGHAUL_TEST_FIXTURE build.asan)
  set(LONGHAUL_TEST_ENVIRONMENT
    ASAN_OPTIONS=detect_odr_violation=0:detect_stack_use_after_return=1
    UBSAN_OPTIONS=print_stacktrace=1
    LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tools/lsan.supp:print_suppressions=0)
elseif(LONGHAUL_SANITIZE MATCHES "thread")
  set(LONGHAUL_TEST_PREFIX "tsan.")
  set(LONGHAUL_TEST_FIXTURE build.tsan)
  set(LONGHAUL_TEST_ENVIRONMENT
    TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tools/tsan.supp:die_after_fork=0:history_size=4)
endif()

# Whether this configuration runs a test with these labels.
function(longhaul_wanted result labels)
  set(wanted TRUE)
  if(LONGHAUL_SANITIZE MATCHES "thread")
    if(NOT "threaded" IN_LIST labels)
      set(wanted FALSE)
    endif()
  endif()
  if(LONGHAUL_SANITIZE)
    foreach(label slow trainer python tools)
      if("${label}" IN_LIST labels)
        set(wanted FALSE)
      endif()
    endforeach()
  endif()
  set(${result} ${wanted} PARENT_SCOPE)
endfunction()

# A test that is a command of its own: a script, or a built program with arguments.
function(longhaul_script_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "COMMAND;LABELS" ${ARGN})
  longhaul_wanted(wanted "${ARG_LABELS}")
  if(NOT wanted)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_test(NAME ${LONGHAUL_TEST_PREFIX}${ARG_NAME} COMMAND ${ARG_COMMAND}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${LONGHAUL_TEST_PREFIX}${ARG_NAME} PROPERTIES
    TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" ENVIRONMENT "${LONGHAUL_TEST_ENVIRONMENT}"
    PROCESSORS 2)  # so that ./test can run a command beside two tests, which counts as one
  if(LONGHAUL_TEST_FIXTURE)
    set_tests_properties(${LONGHAUL_TEST_PREFIX}${ARG_NAME} PROPERTIES
      FIXTURES_REQUIRED ${LONGHAUL_TEST_FIXTURE})
  endif()
endfunction()

# Programs that tests of these labels start. The target `suite` builds them where it runs the tests.
function(longhaul_tested_programs labels)
  longhaul_wanted(wanted "${labels}")
  if(wanted)
    add_dependencies(suite ${ARGN})
  endif()
endfunction()

# Registers a built test program.
function(longhaul_program_test name labels)
  set_property(GLOBAL APPEND PROPERTY LONGHAUL_TEST_PROGRAMS ${name})
  longhaul_script_test(NAME ${name} COMMAND ${name} ${ARGN} LABELS ${labels})
  longhaul_wanted(wanted "${labels}")
  if(wanted)
    add_dependencies(suite ${name})
  endif()
endfunction()

function(longhaul_test)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPENDS;LINK;LABELS;PRECOMPILE" ${ARGN})
  set(tests ${ARG_SOURCES})
  set(others ${ARG_SOURCES})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER others EXCLUDE REGEX "_test\\.cc$")
  longhaul_group_sources(sources ${ARG_NAME} ${LONGHAUL_TEST_GROUP_SIZE} "${tests}")
  add_executable(${ARG_NAME} ${sources} ${others})
  target_link_libraries(${ARG_NAME} PRIVATE
    longhaul_flags GTest::gmock GTest::gtest_main ${ARG_LINK})
  foreach(module ${ARG_DEPENDS})
    target_link_libraries(${ARG_NAME} PRIVATE longhaul_${module})
  endforeach()
  longhaul_compile_as_test(${ARG_NAME} "${ARG_PRECOMPILE}")
  longhaul_program_test(${ARG_NAME} "${ARG_LABELS}")
  longhaul_record_test_sources("${ARG_SOURCES}" "${ARG_DEPENDS}")
endfunction()

# A fuzzer is a file with LLVMFuzzerTestOneInput. Built with clang it is a libFuzzer binary; with
# GCC a small driver replays the files and a bounded number of seeded mutations, and so it is also
# a test. The target `fuzzers` is all of them.
add_custom_target(fuzzers)
function(longhaul_fuzzer)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_executable(${ARG_NAME} EXCLUDE_FROM_ALL ${ARG_SOURCES})
  foreach(module ${ARG_DEPENDS})
    target_link_libraries(${ARG_NAME} PRIVATE longhaul_${module})
  endforeach()
  target_link_libraries(${ARG_NAME} PRIVATE longhaul_flags ${ARG_LINK})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_link_options(${ARG_NAME} PRIVATE -fsanitize=fuzzer)
  else()
    if(NOT TARGET longhaul_fuzz_driver)
      add_library(longhaul_fuzz_driver STATIC EXCLUDE_FROM_ALL
                  ${CMAKE_SOURCE_DIR}/tools/fuzz_driver.cc)
      target_link_libraries(longhaul_fuzz_driver PRIVATE longhaul_base longhaul_flags)
    endif()
    target_link_libraries(${ARG_NAME} PRIVATE longhaul_fuzz_driver longhaul_base)
    longhaul_program_test(${ARG_NAME} fuzz
      --seconds 2 ${CMAKE_CURRENT_SOURCE_DIR}/testdata/${ARG_NAME})
  endif()
  set_property(GLOBAL APPEND PROPERTY LONGHAUL_TEST_PROGRAMS ${ARG_NAME})
  add_dependencies(fuzzers ${ARG_NAME})
  longhaul_record_test_sources("${ARG_SOURCES}" "${ARG_DEPENDS}")
endfunction()

function(longhaul_benchmark)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  foreach(module ${ARG_DEPENDS})
    target_link_libraries(${ARG_NAME} PRIVATE longhaul_${module})
  endforeach()
  target_link_libraries(${ARG_NAME} PRIVATE longhaul_flags benchmark::benchmark ${ARG_LINK})
  set_property(GLOBAL APPEND PROPERTY LONGHAUL_TEST_PROGRAMS ${ARG_NAME})
  longhaul_record_test_sources("${ARG_SOURCES}" "${ARG_DEPENDS}")
endfunction()

# Whether the library source beside a header includes it before anything else: compiling that source
# proves that the header is complete. Sources of tests prove nothing, for they are compiled with a
# precompiled header.
function(longhaul_is_included_first result header)
  set(${result} FALSE PARENT_SCOPE)
  string(REGEX REPLACE "\\.h$" ".cc" source "${CMAKE_SOURCE_DIR}/src/${header}")
  if(EXISTS ${source})
    file(STRINGS ${source} includes REGEX "^#include" LIMIT_COUNT 1)
    if(includes STREQUAL "#include \"${header}\"")
      set(${result} TRUE PARENT_SCOPE)
    endif()
  endif()
endfunction()

# The target `headers_alone` compiles every header that no source includes first by itself, with
# what its module links, and the public header as C. Not part of `all`: ./test builds it. That each
# header has a guard is checked by tools/check_layers.py.
function(longhaul_headers_alone)
  add_custom_target(headers_alone)
  file(GLOB modules RELATIVE ${CMAKE_SOURCE_DIR}/src CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*)
  foreach(module ${modules})
    get_property(libraries GLOBAL PROPERTY LONGHAUL_LIBRARIES_${module})
    file(GLOB_RECURSE headers RELATIVE ${CMAKE_SOURCE_DIR}/src CONFIGURE_DEPENDS
         ${CMAKE_SOURCE_DIR}/src/${module}/*.h)
    if(NOT libraries OR NOT headers)
      continue()
    endif()
    set(sources "")
    foreach(header ${headers})
      longhaul_is_included_first(proven ${header})
      if(NOT proven)
        set(source ${CMAKE_BINARY_DIR}/headers_alone/${header}.cc)
        file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
        list(APPEND sources ${source})
      endif()
    endforeach()
    if(NOT sources)
      continue()
    endif()
    add_library(headers_alone_${module} OBJECT EXCLUDE_FROM_ALL ${sources})
    target_link_libraries(headers_alone_${module} PRIVATE ${libraries} GTest::gmock)
    target_compile_options(headers_alone_${module} PRIVATE -O0)
    add_dependencies(headers_alone headers_alone_${module})
  endforeach()

  set(source ${CMAKE_BINARY_DIR}/headers_alone/longhaul.c)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"longhaul.h\"\n#include \"longhaul.h\"\n")
  add_library(headers_alone_c OBJECT EXCLUDE_FROM_ALL ${source})
  target_include_directories(headers_alone_c PRIVATE ${CMAKE_SOURCE_DIR}/include)
  target_compile_options(headers_alone_c PRIVATE -std=c99 -Wall -Wextra -Wpedantic -Werror)
  add_dependencies(headers_alone headers_alone_c)
endfunction()

# The target `product`: what ./longhaul needs, without the tests.
function(longhaul_product_target)
  add_custom_target(product)
  get_property(tests GLOBAL PROPERTY LONGHAUL_TEST_PROGRAMS)
  set(folders ${CMAKE_SOURCE_DIR}/src)
  while(folders)
    list(POP_FRONT folders folder)
    get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    list(APPEND folders ${below})
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
      get_target_property(type ${target} TYPE)
      if(type MATCHES "EXECUTABLE|SHARED_LIBRARY" AND NOT target IN_LIST tests)
        add_dependencies(product ${target})
      endif()
    endforeach()
  endwhile()
endfunction()
