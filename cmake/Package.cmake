# The Debian packages that `tools/package deb` makes with CPack: `longhaul` and `longhaul-trainer`.
# Dependencies come from dpkg-shlibdeps. The version is the project's.

# CPack installs from this build folder. It must not build the tests first.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME longhaul)
set(CPACK_PACKAGE_VENDOR "Longhaul")
# Debian requires an address (policy 5.6.2). The project has none, and no mail reaches the domain
# `invalid` (RFC 2606). This is the only place that states one.
set(CPACK_PACKAGE_CONTACT "Longhaul maintainers <maintainers@longhaul.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME longhaul)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "longhaul-trainer, python3")
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION
  "plan, schedule and run large-model training jobs
Longhaul runs training scripts on a cluster, keeps them running through
failures, and predicts the time, memory and cost of a training run.
This package contains the program, the library of the worker API
(liblonghaul.so) and its Python package.")

if(TARGET longhaul-trainer)
  list(APPEND CPACK_COMPONENTS_ALL trainer)
  set(CPACK_DEBIAN_TRAINER_PACKAGE_NAME longhaul-trainer)
  set(CPACK_DEBIAN_TRAINER_PACKAGE_DEPENDS "longhaul (= ${PROJECT_VERSION})")
  set(CPACK_DEBIAN_TRAINER_DESCRIPTION
    "built-in trainer of Longhaul
The program that `longhaul run` starts for jobs without a command of their
own. It trains a language model on CPUs with libtorch and Gloo.")
endif()

include(CPack)
