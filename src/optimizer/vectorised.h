// Compiles a function for AVX-512, AVX2 and any x86-64, and chooses at run time.
//
// This module is compiled without contraction of products and sums (-ffp-contract=off), so that all
// three give the same bits, and so do the vectors of a loop and its rest. Sanitizers start before
// such a choice can be made, so they get one version.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LONGHAUL_VECTORISED [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define LONGHAUL_VECTORISED
#endif
