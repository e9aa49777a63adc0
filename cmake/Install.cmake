# What `cmake --install build/release --prefix PREFIX` copies: the programs, the C library with its
# header, the Python package, the manual page, completion for bash, and what finds them from other
# projects:
#   CMake        find_package(longhaul) gives the target longhaul::longhaul
#   pkg-config   pkg-config --cflags --libs longhaul
# Every path is relative to the prefix, so that the installed tree can be moved. The component
# `program` is everything but the built-in trainer, `trainer` is the built-in trainer.
# Not Debian's lib/x86_64-linux-gnu: the agent finds the library in ../lib of its program's folder,
# and the Python package in ../lib/longhaul/python.
set(CMAKE_INSTALL_LIBDIR lib)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME program)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(LONGHAUL_CONFIG_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/longhaul)

install(TARGETS longhaul RUNTIME)
# A build for `longhaul run` has neither of them.
install(TARGETS longhaul-tools longhaul-kube RUNTIME OPTIONAL)
if(TARGET longhaul-trainer)
  install(TARGETS longhaul-trainer RUNTIME COMPONENT trainer)
  install(FILES ${CMAKE_SOURCE_DIR}/LICENSE COMPONENT trainer
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/longhaul-trainer RENAME copyright)
  install(FILES ${CMAKE_BINARY_DIR}/longhaul-trainer.cdx.json COMPONENT trainer OPTIONAL
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/longhaul-trainer)
endif()

install(TARGETS longhaul_worker_shared EXPORT longhaul LIBRARY
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set_target_properties(longhaul_worker_shared PROPERTIES EXPORT_NAME longhaul)
install(FILES ${CMAKE_SOURCE_DIR}/include/longhaul.h TYPE INCLUDE)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE TYPE DOC RENAME copyright)
# Written by tools/package.
install(FILES ${CMAKE_BINARY_DIR}/longhaul.cdx.json TYPE DOC OPTIONAL)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/python/longhaul
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/longhaul/python
  FILES_MATCHING PATTERN *.py PATTERN py.typed PATTERN __pycache__ EXCLUDE)

if(NOT LONGHAUL_SANITIZE)  # it runs the program
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/longhaul.1
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tools/packaging/man_page.py
            $<TARGET_FILE:longhaul> ${CMAKE_BINARY_DIR}/longhaul.1
    DEPENDS longhaul longhaul-tools longhaul-kube
            ${CMAKE_SOURCE_DIR}/tools/packaging/man_page.py)
  add_custom_target(man_page ALL DEPENDS ${CMAKE_BINARY_DIR}/longhaul.1)
  add_dependencies(product man_page)
endif()
install(FILES ${CMAKE_BINARY_DIR}/longhaul.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
install(FILES ${CMAKE_SOURCE_DIR}/tools/completion.bash
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME longhaul)

install(EXPORT longhaul NAMESPACE longhaul:: FILE longhaul-config.cmake
  DESTINATION ${LONGHAUL_CONFIG_FOLDER})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/longhaul-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/longhaul-config-version.cmake
  DESTINATION ${LONGHAUL_CONFIG_FOLDER})

configure_file(${CMAKE_SOURCE_DIR}/cmake/longhaul.pc.in ${CMAKE_BINARY_DIR}/longhaul.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/longhaul.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
