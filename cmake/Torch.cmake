# The libtorch that the trainer is built against, as the target longhaul_torch.
#
# LONGHAUL_TORCH is empty for the system's libtorch (Debian: libtorch-dev), a release such as 2.15
# for the environment that tools/pytorch_environment keeps, or the path of a Python interpreter
# that has PyTorch. PyPI's wheels hold the libraries and headers of libtorch. Their CMake files
# are not used: those of the CUDA build require a CUDA toolkit, and the trainer computes on CPUs.
set(LONGHAUL_TORCH "" CACHE STRING
  "A release of PyTorch or a Python with PyTorch to build the trainer against; empty: the system's")

# Sets `variable` to the path of the Python interpreter that LONGHAUL_TORCH names.
function(longhaul_torch_python variable)
  set(python ${LONGHAUL_TORCH})
  if(LONGHAUL_TORCH MATCHES "^[0-9]+\\.[0-9.]+$")
    execute_process(
      COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tools/pytorch_environment ${LONGHAUL_TORCH}
        --if-made
      OUTPUT_VARIABLE python ERROR_VARIABLE error RESULT_VARIABLE result
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
    if(NOT result EQUAL 0)
      message(FATAL_ERROR "LONGHAUL_TORCH is ${LONGHAUL_TORCH}: ${error}")
    endif()
  endif()
  set(${variable} ${python} PARENT_SCOPE)
endfunction()

# Adds longhaul_torch for the PyTorch of the interpreter that LONGHAUL_TORCH names.
function(longhaul_torch_of_python)
  longhaul_torch_python(python)
  execute_process(
    COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/cmake/torch_of_python.py ${python}
    OUTPUT_VARIABLE found ERROR_VARIABLE error RESULT_VARIABLE result
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${error}")
  endif()
  list(GET found 0 version)
  list(GET found 1 folder)
  message(STATUS "The trainer uses PyTorch ${version} of ${python}")
  target_include_directories(longhaul_torch SYSTEM INTERFACE
    ${folder}/include ${folder}/include/torch/csrc/api/include)
  # libtorch_cpu.so holds a Gloo of its own, newer than the system's. The wheel lacks Gloo's
  # headers; those of the system declare the same of what the trainer uses of c10d's headers. Its
  # gloo::rendezvous::Store has other virtual functions, so no source may make a GlooStore.
  # libtorch_cpu.so finds CUDA's libraries in the wheels beside it, by its own RPATH.
  target_link_libraries(longhaul_torch INTERFACE
    ${folder}/lib/libtorch_cpu.so ${folder}/lib/libc10.so)
  target_link_options(longhaul_torch INTERFACE -Wl,--allow-shlib-undefined)
endfunction()

# Adds longhaul_torch. libtorch's own headers are not held to our warnings.
function(longhaul_find_torch)
  add_library(longhaul_torch INTERFACE)
  target_compile_definitions(longhaul_torch INTERFACE USE_C10D_GLOO)
  find_path(LONGHAUL_GLOO_HEADERS gloo/rendezvous/store.h)
  mark_as_advanced(LONGHAUL_GLOO_HEADERS)
  if(NOT LONGHAUL_GLOO_HEADERS)
    message(FATAL_ERROR "gloo/rendezvous/store.h is not found, which libtorch's header "
      "ProcessGroupGloo.hpp includes: install libgloo-dev, or set -DLONGHAUL_TRAINER=OFF")
  endif()
  if(LONGHAUL_TORCH)
    longhaul_torch_of_python()
    return()
  endif()
  find_package(Torch REQUIRED)
  target_include_directories(longhaul_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  target_link_libraries(longhaul_torch INTERFACE torch_cpu c10 gloo)
endfunction()
