# What `cmake --install build/release --prefix PREFIX` copies: the programs, the C library with its
# header, and what finds them from other projects:
#   CMake        find_package(longhaul) gives the target longhaul::longhaul
#   pkg-config   pkg-config --cflags --libs longhaul
# The Python package is installed by pip (python/pyproject.toml) and finds the library by
# LONGHAUL_LIBRARY or where the system looks. Every path is relative to the prefix, so that the
# installed tree can be moved.
# Not Debian's lib/x86_64-linux-gnu: the agent finds the library in ../lib of its program's folder.
set(CMAKE_INSTALL_LIBDIR lib)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(LONGHAUL_CONFIG_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/longhaul)

install(TARGETS longhaul RUNTIME)
if(TARGET longhaul-trainer)
  install(TARGETS longhaul-trainer RUNTIME)
endif()

install(TARGETS longhaul_worker_shared EXPORT longhaul LIBRARY
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set_target_properties(longhaul_worker_shared PROPERTIES EXPORT_NAME longhaul)
install(FILES ${CMAKE_SOURCE_DIR}/include/longhaul.h TYPE INCLUDE)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE TYPE DOC)

install(EXPORT longhaul NAMESPACE longhaul:: FILE longhaul-config.cmake
  DESTINATION ${LONGHAUL_CONFIG_FOLDER})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/longhaul-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/longhaul-config-version.cmake
  DESTINATION ${LONGHAUL_CONFIG_FOLDER})

configure_file(${CMAKE_SOURCE_DIR}/cmake/longhaul.pc.in ${CMAKE_BINARY_DIR}/longhaul.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/longhaul.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
