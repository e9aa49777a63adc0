// The models, options and layouts of a conformance run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "training/conformance/compare.h"

namespace longhaul::training {

// Dense and with experts, tied and untied embeddings, fewer heads of keys than parts, odd
// vocabularies, uneven stages, ragged masks, with clipping and without, both rules.
std::vector<Exercise> Exercises(at::ScalarType type, uint32_t steps);

// All layouts of at most `world` ranks that are possible for the exercise, in a fixed order.
std::vector<Layout> AllLayouts(const Exercise& exercise, uint32_t world);

// At most `count` of them. First those that together contain each pair of values that two settings
// can have at once (as far as `count` allows), then others by the seed.
std::vector<Layout> ChooseLayouts(const std::vector<Layout>& all, uint32_t count, uint64_t seed);

// How many pairs of values of two settings the layouts contain.
size_t CoveredPairs(const std::vector<Layout>& layouts);

}  // namespace longhaul::training
