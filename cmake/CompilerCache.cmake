# Where ccache is installed it keeps what was compiled, for every checkout on the machine. The
# environment variable CMAKE_CXX_COMPILER_LAUNCHER, also an empty one, overrides this.
#
# A result is found again from another folder: paths below the source tree are hashed as relative
# ones (CCACHE_BASEDIR), and the working directory is not hashed (CCACHE_NOHASHDIR). The sloppiness
# is what ccache requires in order to cache files that use a precompiled header; no source uses
# __TIME__. How much memory the compiler uses changes no result (--param=ggc-*, Longhaul.cmake).
find_program(CCACHE ccache)
if(CCACHE AND NOT DEFINED ENV{CMAKE_CXX_COMPILER_LAUNCHER})
  set(LONGHAUL_COMPILER_LAUNCHER env
    CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_IGNOREOPTIONS=--param=ggc-* ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${LONGHAUL_COMPILER_LAUNCHER})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LONGHAUL_COMPILER_LAUNCHER})
else()
  # Without the cache a path in a message of CHECK (__FILE__) would begin with the folder of the
  # clone. With these two options it is relative to the build folder, as the cache makes it, so that
  # the programs have the same bytes in every folder, with and without the cache.
  file(RELATIVE_PATH LONGHAUL_SOURCE_FROM_BUILD ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
  add_compile_options(-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=${LONGHAUL_SOURCE_FROM_BUILD}
                      -fmacro-prefix-map=${CMAKE_BINARY_DIR}/=)
endif()
