// The differences between the versions of libtorch that the trainer is built against: Debian 12's
// 1.13 and PyPI's 2.x (cmake/Torch.cmake). No other file depends on the version.
#pragma once

#include <torch/version.h>

// From 2.2 on, c10::Allocator::allocate is not const, and each allocator has copy_data.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 2)
#define LONGHAUL_ALLOCATE_CONST
#define LONGHAUL_COPY_DATA_OVERRIDE override
#else
#define LONGHAUL_ALLOCATE_CONST const
#define LONGHAUL_COPY_DATA_OVERRIDE
#endif
